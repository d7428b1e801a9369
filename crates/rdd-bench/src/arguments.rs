//! Parses the command line of the benchmark.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
usage: rdd-bench [--short] [--only store|start|api|engine] [--dir FOLDER] [--json FILE] [--markdown] [--binary RDD]

  --short       a few seconds for each figure; fails below half of each goal
  --only        one part, and the goals of that part
  --dir         the folder, and so the disk, that everything is measured in (target/bench)
  --json        write the figures there
  --markdown    print a table for docs/performance.md
  --binary      the rdd that is measured (RDD_BIN, or target/release/rdd)";

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Durable writes and replay of the store.
    Store,
    /// Start-up of the binary.
    Start,
    /// The API server.
    Api,
    /// The mirror of the container engine.
    Engine,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) short: bool,
    /// The part to measure; `None` measures all parts.
    pub(crate) only: Option<Part>,
    pub(crate) markdown: bool,
    pub(crate) folder: PathBuf,
    pub(crate) json: Option<PathBuf>,
    pub(crate) binary: PathBuf,
}

impl Arguments {
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let mut arguments = Self {
            short: false,
            only: None,
            markdown: false,
            folder: "target/bench".into(),
            json: None,
            binary: std::env::var_os("RDD_BIN").map_or_else(|| "target/release/rdd".into(), PathBuf::from),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} lacks a value")).map(PathBuf::from);
            match word.as_str() {
                "--short" => arguments.short = true,
                "--markdown" => arguments.markdown = true,
                "--only" => arguments.only = Some(part(&value()?)?),
                "--dir" => arguments.folder = value()?,
                "--json" => arguments.json = Some(value()?),
                "--binary" => arguments.binary = value()?,
                other => bail!("unknown option {other:?}\n{USAGE}"),
            }
        }
        Ok(arguments)
    }
}

fn part(name: &Path) -> Result<Part> {
    match name.to_str() {
        Some("store") => Ok(Part::Store),
        Some("start") => Ok(Part::Start),
        Some("api") => Ok(Part::Api),
        Some("engine") => Ok(Part::Engine),
        _ => bail!("unknown part {}\n{USAGE}", name.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Arguments> {
        Arguments::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_and_mistakes_refused() {
        let arguments =
            parse(&["--short", "--only", "api", "--dir", "/d", "--json", "f", "--binary", "b", "--markdown"]).unwrap();
        let paths = ("/d".into(), Some("f".into()), "b".into());
        assert!(arguments.short && arguments.markdown && arguments.only == Some(Part::Api));
        assert_eq!((arguments.folder, arguments.json, arguments.binary), paths);
        assert!(parse(&["--json"]).is_err());
        assert!(parse(&["--only", "all"]).is_err());
        assert!(parse(&["--long"]).is_err());
    }
}
