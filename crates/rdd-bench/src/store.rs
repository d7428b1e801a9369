//! Measures the store under test; the only part of the benchmark that uses its API.

use std::{
    collections::VecDeque,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use rdd_store::{Expect, Store, Txn, sqlite};

use crate::load::{self, Put};

/// The number of objects of a well-filled server.
pub(crate) const REPLAY_OBJECTS: u64 = 100_000;
/// The number of concurrent commits while the store is filled, so that they form batches.
const IN_FLIGHT: usize = 512;

/// An open store as a target of the write load.
#[derive(Debug)]
pub(crate) struct Opened<S>(S);

impl<S: Store + 'static> Put for Opened<S> {
    async fn put(&self, key: String, value: Bytes) -> Result<()> {
        self.0.commit(Txn::put(key, Expect::Any, value)).await.map(drop).context("commit")
    }
}

/// Creates a store in this folder, with the daemon's options.
pub(crate) fn open(folder: &Path) -> Result<Opened<impl Store + 'static>> {
    open_store(folder).map(Opened)
}

fn open_store(folder: &Path) -> Result<impl Store + 'static> {
    std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    sqlite::open(&folder.join("state.db"), sqlite::Options::default()).context("open the store")
}

/// Measures how long it takes to open a store with this many objects.
pub(crate) fn replay(folder: &Path, objects: u64) -> Result<Duration> {
    let store = open_store(folder)?;
    let mut pending = VecDeque::new();
    for number in 0..objects {
        pending.push_back(store.commit(Txn::put(load::key(number), Expect::Any, load::value(number))));
        if pending.len() == IN_FLIGHT {
            pending.pop_front().expect("it is full").wait().context("fill the store")?;
        }
    }
    for reply in pending {
        reply.wait().context("fill the store")?;
    }
    store.close().wait().context("close the store")?;
    drop(store);
    let started = Instant::now();
    let store = open_store(folder)?;
    let elapsed = started.elapsed();
    let found = store.status().live_keys;
    ensure!(found == objects, "{objects} objects were written and {found} came back");
    Ok(elapsed)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_store_takes_the_load_and_what_was_written_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let store = [Arc::new(open(&folder.path().join("load")).unwrap())];
        let round = runtime.block_on(load::drive(&store, 4, Duration::from_millis(200))).unwrap();
        assert!(!round.latencies.is_empty());
        assert!(replay(&folder.path().join("replay"), 1_000).unwrap() > Duration::ZERO);
    }
}
