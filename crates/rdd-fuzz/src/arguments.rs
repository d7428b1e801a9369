//! Parses the command line of the fuzzer.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
usage: rdd-fuzz [--seconds N] [--seed N] [--corpus FOLDER] [--grow FOLDER] [--failures FOLDER] [--replay FILE]

  --seconds     how long new scenarios are generated (60); the corpus is always played in full
  --seed        the same seed and corpus give the same scenarios (1)
  --corpus      scenarios to begin with and to mutate (crates/rdd-fuzz/corpus)
  --grow        write scenarios with a new kind of answer there, and begin with those of earlier runs (target/fuzz/corpus)
  --failures    write scenarios that violate an invariant there (target/fuzz/failures)
  --replay      play one file against an empty server, and nothing else";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    pub(crate) corpus: PathBuf,
    pub(crate) grow: PathBuf,
    pub(crate) failures: PathBuf,
    pub(crate) replay: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let mut arguments = Self {
            time: Duration::from_secs(60),
            seed: 1,
            corpus: "crates/rdd-fuzz/corpus".into(),
            grow: "target/fuzz/corpus".into(),
            failures: "target/fuzz/failures".into(),
            replay: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} lacks a value\n{USAGE}"));
            match word.as_str() {
                "--seconds" => arguments.time = Duration::from_secs(number(value()?)?),
                "--seed" => arguments.seed = number(value()?)?,
                "--corpus" => arguments.corpus = value()?.into(),
                "--grow" => arguments.grow = value()?.into(),
                "--failures" => arguments.failures = value()?.into(),
                "--replay" => arguments.replay = Some(value()?.into()),
                other => bail!("unknown argument {other:?}\n{USAGE}"),
            }
        }
        Ok(arguments)
    }
}

fn number(text: &str) -> Result<u64> {
    text.parse().with_context(|| format!("{text:?} is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_and_mistakes_are_refused() {
        let words = ["--seconds", "5", "--seed", "7", "--replay", "f"].map(str::to_owned);
        let arguments = Arguments::parse(&words).unwrap();
        assert_eq!((arguments.time.as_secs(), arguments.seed, arguments.replay), (5, 7, Some("f".into())));
        for words in [&["--seconds"][..], &["--seed", "x"], &["--typo"]] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert!(Arguments::parse(&words).is_err(), "{words:?}");
        }
    }
}
