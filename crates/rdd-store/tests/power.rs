//! Tests of power loss at any moment, on a simulated disk that keeps no more than fsync guarantees.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

mod disk;
mod history;

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Instant,
};

use disk::{Disk, Random, SharedStore, seed};
use history::{Changed, History, changes, is_gone};
use rdd_store::{Action, Error, Expect, Limits, Revision, Txn, sqlite};

const SEED: &str = "RDD_STORE_POWER_SEED";
const WRITERS: usize = 3;

fn open(disk: &Disk, synchronous_off: bool) -> Result<SharedStore, sqlite::Error> {
    // Short history and small pieces, so that removal and catching up are in progress when power fails.
    let limits = Limits { history_rows: 400, piece_bytes: 4_000, subscriber_batches: 1 << 16, ..Limits::default() };
    let testing = sqlite::Testing { vfs: Some(disk.vfs()), synchronous_off };
    let options = sqlite::Options { limits, testing, ..sqlite::Options::default() };
    Ok(Arc::new(sqlite::open(Path::new("/state.db"), options)?))
}

/// A random transaction with its changes if it succeeds; each writer has its own keys.
fn transaction(writer: usize, random: &mut Random, live: &mut Vec<String>) -> (Txn, Vec<Changed>) {
    let (mut txn, mut changed) = (Txn::default(), Vec::new());
    for op in 0..=random.below(3) {
        let key = format!("w{writer}/{op}/{}", random.below(10));
        if random.below(4) == 0 && live.contains(&key) {
            live.retain(|known| *known != key);
            txn = txn.with(key.clone(), Expect::Any, Action::Delete);
            changed.push((key, None));
        } else {
            let size = if random.below(20) == 0 { 9_000 } else { random.below(300) };
            let value: Vec<u8> = (0..size).map(|_| random.next() as u8).collect();
            if !live.contains(&key) {
                live.push(key.clone());
            }
            txn = txn.with(key.clone(), Expect::Any, Action::Put { value: value.clone().into(), ttl: None });
            changed.push((key, Some(value)));
        }
    }
    (txn, changed)
}

/// Writes from several threads and watches until power fails.
fn live(store: &SharedStore, disk: &Disk, history: &Mutex<History>, random: &mut Random) -> Result<(), String> {
    let after = Revision(history.lock().unwrap().head());
    let mut events = store.events(after).wait().map_err(|error| error.to_string())?;
    let problem = Mutex::new(None);
    let say = |result: Result<(), String>| {
        if let Err(text) = result {
            problem.lock().unwrap().get_or_insert(text);
        }
    };
    // Power fails inside a disk call, or right after an acknowledgement.
    let right_after = (random.below(3) == 0).then(|| random.below(30));
    disk.fail_after(if right_after.is_some() { 100_000 } else { 1 + random.below(150) });
    let seeds: Vec<_> = (0..WRITERS).map(|_| random.next()).collect();
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while let Ok(batch) = events.next_blocking() {
                say(history.lock().unwrap().tell(batch.revision.0, changes(&batch)));
            }
        });
        let writers: Vec<_> = seeds
            .into_iter()
            .enumerate()
            .map(|(writer, seed)| {
                let say = &say;
                scope.spawn(move || {
                    let mut random = Random(seed);
                    let mut live = Vec::new();
                    for number in 0.. {
                        let (txn, changed) = transaction(writer, &mut random, &mut live);
                        match store.commit(txn).wait() {
                            Ok(revision) => {
                                say(history.lock().unwrap().acknowledge(revision.0, changed));
                                if writer == 0 && right_after == Some(number) {
                                    disk.fail_now();
                                }
                            }
                            Err(error) if is_gone(&error) => break,
                            Err(error) => {
                                say(Err(format!("commit: {error:?}")));
                                break;
                            }
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        store.close().wait().unwrap();
        watcher.join().unwrap();
    });
    problem.into_inner().unwrap().map_or(Ok(()), Err)
}

/// Runs many stores that each end by power loss; returns the first violation and how many images were checked.
fn run(images: usize, synchronous_off: bool, random: &mut Random) -> (Result<(), String>, usize) {
    let (mut made, mut checked) = (0, 0);
    while made < images {
        let mut disk = Disk::new(random.next());
        let history = Mutex::new(History::default());
        for life in 0..25 {
            // Creating the file may be interrupted, too.
            if life == 0 && random.below(4) == 0 {
                disk.fail_after(1 + random.below(12));
            }
            let lived = match open(&disk, synchronous_off) {
                Ok(store) => {
                    let compared = history.lock().unwrap().check(&*store);
                    compared.and_then(|()| live(&store, &disk, &history, random))
                }
                Err(_) if life == 0 => Ok(()),
                Err(error) => Err(format!("open: {}", history::chain(&error))),
            };
            made += 1;
            if let Err(problem) = lived {
                return (Err(problem), made);
            }
            disk = disk.after_failure();
            if life == 0 && history.lock().unwrap().head() == 0 {
                break;
            }
        }
        disk.discard();
        checked += history.lock().unwrap().acknowledged();
    }
    println!("{made} losses of power, {checked} acknowledged transactions checked");
    (Ok(()), made)
}

#[test]
fn what_was_acknowledged_or_told_survives_loss_of_power() {
    let started = Instant::now();
    let mut random = Random(seed(SEED));
    let images = std::env::var("RDD_STORE_POWER_IMAGES").ok().and_then(|count| count.parse().ok()).unwrap_or(1_000);
    let (outcome, made) = run(images, false, &mut random);
    println!("took {:?}", started.elapsed());
    assert!(made >= images || outcome.is_err());
    outcome.unwrap();
}

#[test]
fn the_same_check_finds_out_a_store_that_does_not_wait_for_its_disk() {
    let mut random = Random(seed(SEED));
    let (outcome, made) = run(1_000, true, &mut random);
    let problem = outcome.expect_err("without syncs something must get lost");
    println!("found after {made} losses of power: {problem:.200}");
}

#[test]
fn a_full_disk_refuses_writes_keeps_reads_and_heals() {
    let disk = Disk::new(1);
    let store = open(&disk, false).unwrap();
    let mut events = store.events(Revision(0)).wait().unwrap();
    store.commit(Txn::put("before", Expect::Any, "1")).wait().unwrap();
    disk.set_full(true);
    let mut refused = 0;
    // The log file has free space from before its last truncation; a large value exceeds it.
    for _ in 0..3 {
        let error = store.commit(Txn::put("large", Expect::Any, vec![7; 100_000])).wait().unwrap_err();
        assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
        assert!(history::chain(&error).contains("no space is left"), "{}", history::chain(&error));
        refused += 1;
    }
    assert_eq!(refused, 3);
    history::eventually("the status tells", || matches!(store.status().writable, Err(Error::DiskFull { .. })));
    assert_eq!(store.get("before").wait().unwrap().unwrap().value, "1");
    assert_eq!(events.next_blocking().unwrap().revision, Revision(1));
    store.events(Revision(0)).wait().unwrap().next_blocking().unwrap();
    disk.set_full(false);
    assert_eq!(store.commit(Txn::put("after", Expect::Any, "2")).wait().unwrap(), Revision(2));
    history::eventually("the status tells", || store.status().writable.is_ok());
    assert_eq!(events.next_blocking().unwrap().revision, Revision(2));
    store.close().wait().unwrap();
    let store = open(&disk.after_failure(), false).unwrap();
    assert_eq!(store.status().head, Revision(2));
    assert_eq!(store.get("large").wait().unwrap(), None);
}

#[test]
fn after_a_failed_sync_writes_are_refused_until_a_restart_and_reads_go_on() {
    let disk = Disk::new(2);
    let store = open(&disk, false).unwrap();
    store.commit(Txn::put("before", Expect::Any, "1")).wait().unwrap();
    disk.fail_next_sync();
    // Only the first write gets the disk error. The disk would accept the others, but its content is unknown by now.
    for _ in 0..3 {
        let error = store.commit(Txn::put("k", Expect::Any, "2")).wait().unwrap_err();
        assert!(matches!(error, Error::Poisoned { .. }), "{error:?}");
        assert!(error.to_string().contains("restart the service"), "{error}");
    }
    assert!(matches!(store.status().writable, Err(Error::Poisoned { .. })));
    assert_eq!(store.get("before").wait().unwrap().unwrap().value, "1");
    store.events(Revision(0)).wait().unwrap().next_blocking().unwrap();
    store.close().wait().unwrap();
    let store = open(&disk.after_failure(), false).unwrap();
    assert_eq!(store.get("before").wait().unwrap().unwrap().value, "1");
    store.commit(Txn::put("k", Expect::Any, "3")).wait().unwrap();
}
