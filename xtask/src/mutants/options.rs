//! Parses the command line of `cargo xtask mutants`.

use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Which mutants to try, and for how long.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// A part of the mutant's name, package or test.
    pub(super) filter: String,
    /// Whether to try only mutants whose file, test or patch has changed.
    pub(super) only_changed: bool,
    /// The revision to compare with; derived from the branch if absent.
    pub(super) base: Option<String>,
    /// The time limit; mutants that were not tried by then are listed.
    pub(super) at_most: Option<Duration>,
}

impl Options {
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} lacks a value"));
            match *word {
                "--changed" => options.only_changed = true,
                "--base" => options.base = Some((*value()?).to_owned()),
                "--at-most" => options.at_most = Some(parse_seconds(value()?)?),
                option if option.starts_with('-') => bail!("unknown option {option}"),
                filter if options.filter.is_empty() => options.filter = filter.to_owned(),
                extra => bail!("one filter is enough, and {extra:?} is a second"),
            }
        }
        if options.base.is_some() && !options.only_changed {
            bail!("--base needs --changed");
        }
        Ok(options)
    }
}

fn parse_seconds(text: &str) -> Result<Duration> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse();
    Ok(Duration::from_secs(seconds.with_context(|| format!("{text:?} is not a number of seconds, such as 180s"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_mistakes_are_refused() {
        let options = Options::parse(&["--changed", "--base", "main", "--at-most", "180s", "store"]).unwrap();
        let expected = Options {
            filter: "store".to_owned(),
            only_changed: true,
            base: Some("main".to_owned()),
            at_most: Some(Duration::from_secs(180)),
        };
        assert_eq!(options, expected);
        for words in [&["--base", "main"][..], &["--at-most", "3m"], &["--typo"], &["one", "two"], &["--base"]] {
            assert!(Options::parse(words).is_err(), "{words:?}");
        }
    }
}
