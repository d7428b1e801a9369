//! The corpus: scenarios that led to new kinds of replies, to start with and to mutate.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::scenario::Scenario;

#[derive(Debug, Default)]
pub(crate) struct Corpus {
    pub(crate) scenarios: Vec<Scenario>,
}

impl Corpus {
    /// Reads every `.jsonl` file of a folder, ordered by name. A missing folder is an empty corpus.
    pub(crate) fn load(folder: &Path) -> Result<Self> {
        if !folder.exists() {
            return Ok(Self::default());
        }
        let entries = fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
        let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
        let mut paths = paths.with_context(|| format!("list {}", folder.display()))?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        paths.sort();
        let read = |path: &PathBuf| {
            let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
            Scenario::parse(&text).with_context(|| format!("read {}", path.display()))
        };
        Ok(Self { scenarios: paths.iter().map(read).collect::<Result<_>>()? })
    }

    /// Adds a scenario to the corpus and writes it to a folder.
    pub(crate) fn add(&mut self, scenario: Scenario, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        let file = folder.join(format!("{}.jsonl", scenario.name()));
        fs::write(&file, scenario.to_text()).with_context(|| format!("write {}", file.display()))?;
        self.scenarios.push(scenario);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rdd_testkit::api::Ask;

    use super::*;

    #[test]
    fn what_is_added_is_loaded_again() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new");
        let mut corpus = Corpus::load(&folder).unwrap();
        corpus.add(Scenario { requests: vec![Ask::new("GET", "/livez")] }, &folder).unwrap();
        assert_eq!(Corpus::load(&folder).unwrap().scenarios, corpus.scenarios);
    }

    #[test]
    fn the_corpus_of_this_repository_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        assert!(Corpus::load(&folder).unwrap().scenarios.len() >= 10);
    }
}
