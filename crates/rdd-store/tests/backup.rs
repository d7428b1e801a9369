//! Tests of backups under load, restores, and what clients see of a restore.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

mod history;

use std::{
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use history::{History, changes};
use rdd_store::{Error, Expect, Revision, Store, Txn, sqlite};

fn open(path: &std::path::Path) -> Arc<dyn Store> {
    Arc::new(sqlite::open(path, sqlite::Options::default()).unwrap())
}

#[test]
fn a_backup_under_load_is_the_state_at_its_revision_and_delays_nobody_for_long() {
    let dir = tempfile::tempdir().unwrap();
    let (path, target) = (dir.path().join("state.db"), dir.path().join("backup.db"));
    let store = open(&path);
    for number in 0..300 {
        store.commit(Txn::put(format!("bulk-{number}"), Expect::Any, vec![b'x'; 50_000])).wait().unwrap();
    }
    let mut events = store.events(Revision(0)).wait().unwrap();
    let (stop, backed_up) = (AtomicBool::new(false), Mutex::new(None));
    let commits_meanwhile = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (store, stop) = (&store, &stop);
                scope.spawn(move || {
                    for number in 0_u64.. {
                        if stop.load(Ordering::Relaxed) {
                            return number;
                        }
                        let value = number.to_string().repeat(50);
                        store
                            .commit(Txn::put(format!("w{writer}/{}", number % 50), Expect::Any, value))
                            .wait()
                            .unwrap();
                    }
                    0
                })
            })
            .collect();
        history::eventually("the writers are under way", || store.status().head > Revision(320));
        let before = store.status().head;
        *backed_up.lock().unwrap() = Some(store.backup(&target).wait().unwrap());
        let meanwhile = store.status().head.0 - before.0;
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| assert!(writer.join().unwrap() > 0));
        meanwhile
    });
    let revision = backed_up.into_inner().unwrap().unwrap();
    println!(
        "{commits_meanwhile} commits while 15 MB were copied; the longest took {:?}",
        store.status().commits.longest
    );
    assert!(commits_meanwhile > 20, "commits went on: {commits_meanwhile}");

    let mut told = History::default();
    while told.head() < revision.0 {
        let batch = events.next_blocking().unwrap();
        told.tell(batch.revision.0, changes(&batch)).unwrap();
    }
    let copy = open(&target);
    assert_eq!(copy.status().head, revision);
    told.check(&*copy).unwrap();
    assert_eq!(told.head(), revision.0, "nothing later is in the copy");

    let error = store.backup(&target).wait().unwrap_err();
    assert!(history::chain(&error).contains("exists"), "{}", history::chain(&error));
    let left: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(left.iter().all(|name| !name.contains("partial")), "{left:?}");
}

#[test]
fn closing_ends_a_backup_under_way_and_leaves_nothing_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("backup.db");
    let store = open(&dir.path().join("state.db"));
    for number in 0..100 {
        store.commit(Txn::put(format!("bulk-{number}"), Expect::Any, vec![b'x'; 50_000])).wait().unwrap();
    }
    let (backup, closed) = (store.backup(&target), store.close());
    closed.wait().unwrap();
    assert!(matches!(backup.wait(), Err(Error::Closed)));
    let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.into_iter().all(|name| name.starts_with("state.db")));
}

#[test]
fn a_restore_leaps_ahead_sets_the_old_aside_and_can_be_undone() {
    let dir = tempfile::tempdir().unwrap();
    let (path, backup) = (dir.path().join("state.db"), dir.path().join("backup.db"));
    let store = open(&path);
    store.commit(Txn::put("kept", Expect::Any, "1")).wait().unwrap();
    store.commit(Txn::put("kept", Expect::Any, "2")).wait().unwrap();
    store.backup(&backup).wait().unwrap();
    let last = store.commit(Txn::put("later", Expect::Any, "3")).wait().unwrap();
    store.close().wait().unwrap();
    let bytes = fs::read(&backup).unwrap();

    let options = sqlite::Options::default();
    let restored = sqlite::restore(&backup, &path, &options).unwrap();
    assert!(restored.revision > last, "{restored:?}");
    assert_eq!(restored.live_keys, 1);
    assert_eq!(fs::read(&backup).unwrap(), bytes, "the backup is as it was");
    let inspection = sqlite::inspect(&path, &options).unwrap();
    assert_eq!((inspection.revision, inspection.live_keys, inspection.format), (restored.revision, 1, 1));

    let store = open(&path);
    assert_eq!(store.get("kept").wait().unwrap().unwrap().value, "2");
    assert_eq!(store.get("later").wait().unwrap(), None);
    assert!(matches!(store.events(last).wait(), Err(Error::Compacted { .. })), "a client of the old one starts over");
    let mut load = store.load().wait().unwrap();
    assert_eq!((load.revision(), load.next_blocking().unwrap().len()), (restored.revision, 1));
    let mut events = store.events(load.revision()).wait().unwrap();
    let next = store.commit(Txn::put("new", Expect::Any, "4")).wait().unwrap();
    assert_eq!(next, Revision(restored.revision.0 + 1));
    assert_eq!(events.next_blocking().unwrap().revision, next);
    drop(load);
    store.close().wait().unwrap();

    let undone = sqlite::restore(&restored.set_aside.unwrap(), &path, &options).unwrap();
    assert!(undone.revision > next, "{undone:?}");
    assert_eq!(open(&path).get("later").wait().unwrap().unwrap().value, "3");
}

#[test]
fn a_damaged_backup_is_not_restored_and_nothing_changes() {
    let dir = tempfile::tempdir().unwrap();
    let (path, backup) = (dir.path().join("state.db"), dir.path().join("backup.db"));
    let store = open(&path);
    store.commit(Txn::put("kept", Expect::Any, vec![b'x'; 20_000])).wait().unwrap();
    store.backup(&backup).wait().unwrap();
    store.close().wait().unwrap();
    let before = fs::read(&path).unwrap();
    let mut bytes = fs::read(&backup).unwrap();
    let place = bytes.windows(8).rposition(|window| window == b"xxxxxxxx").unwrap();
    bytes[place] = b'y';
    fs::write(&backup, &bytes).unwrap();
    let error = sqlite::restore(&backup, &path, &sqlite::Options::default()).unwrap_err().to_string();
    assert!(error.contains("backup.db is damaged"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(fs::read(&backup).unwrap(), bytes);
    assert_eq!(open(&path).status().live_keys, 1);
}
