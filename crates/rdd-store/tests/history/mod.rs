//! The checker of the crash tests: what a store must still contain after a crash.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use rdd_store::{Batch, Change, Error, Revision, Store};

/// A change for comparison: the key, and its value or `None`.
pub(crate) type Changed = (String, Option<Vec<u8>>);

/// All batches that a watcher received, over all restarts of a store; revision n is at index n - 1.
#[derive(Debug, Default)]
pub(crate) struct History {
    told: Vec<Vec<Changed>>,
    /// The acknowledged commits by revision.
    acknowledged: BTreeMap<u64, Vec<Changed>>,
}

impl History {
    pub(crate) fn head(&self) -> u64 {
        self.told.len() as u64
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }

    /// Records a batch that the watcher received; it must be the next one.
    pub(crate) fn tell(&mut self, revision: u64, changes: Vec<Changed>) -> Result<(), String> {
        if changes.is_empty() {
            return Ok(());
        }
        let expected = self.head() + 1;
        if revision != expected {
            return Err(format!("the watcher was told revision {revision} instead of {expected}"));
        }
        self.told.push(changes);
        Ok(())
    }

    /// Records an acknowledged commit.
    pub(crate) fn acknowledge(&mut self, revision: u64, changes: Vec<Changed>) -> Result<(), String> {
        match self.acknowledged.insert(revision, changes) {
            None => Ok(()),
            Some(before) => Err(format!("revision {revision} was given twice, first for {before:?}")),
        }
    }

    /// Resumes the watcher on the recovered store, and compares everything.
    pub(crate) fn check(&mut self, store: &dyn Store) -> Result<(), String> {
        let told_before = self.head();
        let head = store.status().head.0;
        let newest = self.acknowledged.keys().next_back().copied().unwrap_or(0).max(told_before);
        if head < newest {
            return Err(format!("the newest revision is {head}, but {newest} was promised or told"));
        }
        let load = store.load().wait();
        let mut load = load.map_err(|error| format!("load: {error}"))?;
        let horizon = load.revision().0;
        let mut events = store.events(load.revision()).wait().map_err(|error| format!("events: {error}"))?;
        let mut found = HashMap::new();
        loop {
            let entries = load.next_blocking().map_err(|error| format!("entries: {error}"))?;
            if entries.is_empty() {
                break;
            }
            for entry in entries {
                found.insert(entry.key.to_string(), entry.value.to_vec());
            }
        }
        if horizon > told_before {
            return Err(format!("history begins after {horizon}, but the watcher is at {told_before}"));
        }
        self.compare_state(horizon, &found)?;
        // Batches received before must be the same again; later ones continue the history.
        for revision in horizon + 1..=head {
            let batch = events.next_blocking().map_err(|error| format!("event {revision}: {error}"))?;
            if batch.revision != Revision(revision) {
                return Err(format!("event {} instead of {revision}", batch.revision));
            }
            let changes = changes(&batch);
            match self.told.get(revision as usize - 1) {
                Some(told) if *told != changes => {
                    return Err(format!("revision {revision} was {told:?} and is {changes:?}"));
                }
                Some(_) => {}
                None => self.tell(revision, changes)?,
            }
        }
        for (revision, promised) in &self.acknowledged {
            if self.told[*revision as usize - 1] != *promised {
                return Err(format!("revision {revision} was promised to {promised:?}"));
            }
        }
        Ok(())
    }

    fn compare_state(&self, revision: u64, found: &HashMap<String, Vec<u8>>) -> Result<(), String> {
        let mut expected = HashMap::new();
        for (key, value) in self.told[..revision as usize].iter().flatten() {
            match value {
                Some(value) => expected.insert(key.clone(), value.clone()),
                None => expected.remove(key),
            };
        }
        if *found == expected {
            Ok(())
        } else {
            Err(format!("at revision {revision}: {found:?} instead of {expected:?}"))
        }
    }
}

pub(crate) fn changes(batch: &Batch) -> Vec<Changed> {
    let value = |change: &Change| match change {
        Change::Put(value) => Some(value.to_vec()),
        Change::Delete => None,
    };
    batch.events.iter().map(|event| (event.key.to_string(), value(&event.change))).collect()
}

/// Polls until a condition holds, with a timeout.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The full error chain, as a user sees it.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    rdd_stdx::chain::Chain(error).to_string()
}

/// Whether a commit failed because the store or its disk is gone.
pub(crate) fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Closed | Error::Poisoned { .. })
}
