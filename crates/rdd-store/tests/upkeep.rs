//! Tests of an idle store: it returns free space, and sleeps.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod history;

use rdd_store::{Action, Expect, Store, Txn, sqlite};

fn bulk(count: usize, bytes: usize) -> Txn {
    (0..count).fold(Txn::default(), |txn, number| {
        txn.with(format!("bulk-{number}"), Expect::Any, Action::Put { value: vec![b'x'; bytes].into(), ttl: None })
    })
}

#[test]
fn space_that_is_no_longer_needed_is_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    let store = sqlite::open(&path, sqlite::Options::default()).unwrap();
    store.commit(bulk(100, 100_000)).wait().unwrap();
    let full = store.status().file_bytes;
    assert!(full > 10_000_000, "{full}");
    let delete =
        (0..100).fold(Txn::default(), |txn, number| txn.with(format!("bulk-{number}"), Expect::Any, Action::Delete));
    let last = store.commit(delete).wait().unwrap();
    store.compact(last).wait().unwrap();
    history::eventually("the main file shrinks", || {
        std::fs::metadata(&path).unwrap().len() < 4_000_000 && store.status().dead_rows == 0
    });
    let small = store.commit(bulk(1, 10)).wait().unwrap();
    assert_eq!(small.0, last.0 + 1);
}

#[test]
fn a_log_that_one_large_commit_made_is_cut_when_there_is_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    let store = sqlite::open(&path, sqlite::Options::default()).unwrap();
    store.commit(bulk(20, 1 << 20)).wait().unwrap();
    let log = dir.path().join("state.db-wal");
    assert!(std::fs::metadata(&log).unwrap().len() > 16 << 20);
    history::eventually("the log is cut", || std::fs::metadata(&log).unwrap().len() < 1 << 20);
}
