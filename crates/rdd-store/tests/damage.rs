//! Tests of truncated, corrupted, foreign and newer files: the store refuses them unchanged, or reads them exactly.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

mod disk;
mod history;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use disk::{Random, seed};
use rdd_store::{Change, Expect, Limits, Store, Txn, sqlite};
use rusqlite::Connection;

type Contents = BTreeMap<String, Vec<u8>>;

fn options() -> sqlite::Options {
    sqlite::Options { limits: Limits { history_rows: 60, ..Limits::default() }, ..sqlite::Options::default() }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

fn contents(store: &dyn Store) -> Contents {
    let mut load = store.load().wait().unwrap();
    let mut events = store.events(load.revision()).wait().unwrap();
    let mut found = Contents::new();
    loop {
        let entries = load.next_blocking().unwrap();
        if entries.is_empty() {
            break;
        }
        found.extend(entries.into_iter().map(|entry| (entry.key.to_string(), entry.value.to_vec())));
    }
    let (mut reached, head) = (load.revision(), store.status().head);
    while reached < head {
        let batch = events.next_blocking().unwrap();
        reached = batch.revision;
        for event in &batch.events {
            match &event.change {
                Change::Put(value) => found.insert(event.key.to_string(), value.to_vec()),
                Change::Delete => found.remove(&*event.key),
            };
        }
    }
    found
}

/// The files of a datastore, and its content after each revision.
struct Original {
    main: Vec<u8>,
    wal: Option<Vec<u8>>,
    after: Vec<Contents>,
}

/// A datastore with enough writes that old rows were removed and the log was checkpointed and restarted; its files after closing,
/// or while it is open.
fn original(random: &mut Random, closed: bool, commits: u64) -> Original {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    let store = sqlite::open(&path, options()).unwrap();
    let mut after = vec![Contents::new()];
    for _ in 0..commits {
        let key = format!("key-{}", random.below(25));
        let mut now = after.last().unwrap().clone();
        let txn = if random.below(4) == 0 && now.contains_key(&key) {
            now.remove(&key);
            Txn::delete(key, Expect::Any)
        } else {
            let value: Vec<u8> = (0..random.below(6_000)).map(|_| random.next() as u8).collect();
            now.insert(key.clone(), value.clone());
            Txn::put(key, Expect::Any, value)
        };
        assert_eq!(store.commit(txn).wait().unwrap().0 as usize, after.len());
        after.push(now);
    }
    if closed {
        store.close().wait().unwrap();
    }
    Original { main: fs::read(&path).unwrap(), wal: fs::read(beside(&path, "-wal")).ok(), after }
}

fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    let place = random.below(bytes.len() as u64) as usize;
    match random.below(6) {
        0 => bytes.truncate(place),
        1 => bytes.truncate(place / 4_096 * 4_096),
        // Headers are more important than their size suggests.
        2 => bytes[place % 100] ^= 1 << random.below(8),
        3 => bytes[place / 4_096 * 4_096 + place % 24] ^= 1 << random.below(8),
        4 => {
            let end = (place + 512).min(bytes.len());
            bytes[place..end].fill(0);
        }
        _ => bytes[place] ^= 1 << random.below(8),
    }
}

/// Opens the datastore. An error must leave every file unchanged, and name the file and a remedy.
fn open_or_refuse(path: &Path) -> Option<Box<dyn Store>> {
    let read = |suffix| fs::read(beside(path, suffix)).ok();
    let before = (read(""), read("-wal"));
    match sqlite::open(path, options()) {
        Ok(store) => Some(Box::new(store)),
        Err(error) => {
            let text = history::chain(&error);
            assert!(text.contains(&path.display().to_string()), "{text}");
            assert!(text.contains("rdd svc restore"), "{text}");
            assert!(before == (read(""), read("-wal")), "a refused file was changed: {text}");
            let names: Vec<_> =
                fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            let expected = 2 + usize::from(before.1.is_some());
            assert_eq!(names.len(), expected, "nothing but the lock is added: {names:?}");
            None
        }
    }
}

#[test]
fn a_damaged_datastore_is_refused_untouched_or_read_exactly() {
    let mut random = Random(seed("RDD_STORE_DAMAGE_SEED"));
    let (mut refused, mut read, mut shorter) = (0, 0, 0);
    let originals = [
        original(&mut random, true, 300),
        original(&mut random, false, 40),
        original(&mut random, false, 1_500),
        original(&mut random, false, 1_800),
    ];
    for case in 0..600 {
        let original = &originals[case % originals.len()];
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        let (mut main, mut wal) = (original.main.clone(), original.wal.clone());
        let in_log = wal.is_some() && random.below(2) == 0;
        for _ in 0..=random.below(2) {
            match &mut wal {
                Some(wal) if in_log && !wal.is_empty() => damage(wal, &mut random),
                _ if main.is_empty() => {}
                _ => damage(&mut main, &mut random),
            }
        }
        fs::write(&path, &main).unwrap();
        if let Some(wal) = &wal {
            fs::write(beside(&path, "-wal"), wal).unwrap();
        }
        let Some(store) = open_or_refuse(&path) else {
            refused += 1;
            continue;
        };
        let head = store.status().head.0 as usize;
        let newest = original.after.len() - 1;
        assert!(head == newest || in_log, "case {case}: damage of the main file lost revisions {head} to {newest}");
        assert!(contents(&*store) == original.after[head], "case {case}: the content is not that of revision {head}");
        read += 1;
        shorter += usize::from(head < newest);
    }
    println!("{refused} refused, {read} read exactly, {shorter} of them as of an earlier revision");
    assert!(refused > 30 && read > 20 && shorter > 0, "{refused} {read} {shorter}");
}

/// SQLite first reads the schema of a file, so the log must be protected before that.
#[test]
fn a_schema_that_cannot_be_read_leaves_the_log_beside_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    let store = sqlite::open(&path, options()).unwrap();
    store.commit(Txn::put("key".to_owned(), Expect::Any, vec![1; 100])).wait().unwrap();
    store.close().wait().unwrap();
    let store = sqlite::open(&path, options()).unwrap();
    store.commit(Txn::put("key".to_owned(), Expect::Any, vec![2; 100])).wait().unwrap();
    let damaged = tempfile::tempdir().unwrap();
    let copy = damaged.path().join("state.db");
    let mut main = fs::read(&path).unwrap();
    // The cells of the first page are the schema; they follow the file header and the page header.
    main[108..512].fill(0xff);
    fs::write(&copy, main).unwrap();
    fs::copy(beside(&path, "-wal"), beside(&copy, "-wal")).unwrap();
    assert!(open_or_refuse(&copy).is_none(), "a schema of nothing was read");
}

/// Asserts that opening fails with this text and changes nothing.
fn refused(path: &Path, expected: &str) {
    let snapshot = || {
        let entries = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
        let files = entries.filter(|path| path.extension().is_none_or(|extension| extension != "lock"));
        files.map(|path| (path.clone(), fs::read(path).unwrap())).collect::<BTreeMap<_, _>>()
    };
    let before = snapshot();
    let error = sqlite::open(path, options()).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
    assert!(error.contains(&path.display().to_string()), "{error}");
    assert!(before == snapshot(), "a file was changed");
}

#[test]
fn the_originals_file_is_recognised_and_left_alone() {
    let table = "PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS kine(id INTEGER PRIMARY KEY AUTOINCREMENT, name INTEGER);
                 CREATE INDEX kine_name ON kine(name); INSERT INTO kine(name) VALUES('/registry/x')";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    Connection::open(&path).unwrap().execute_batch(table).unwrap();
    assert!(!beside(&path, "-wal").exists(), "all of it is in the main file");
    refused(&path, "written by the Go version of rdd");

    let other = tempfile::tempdir().unwrap();
    let living = Connection::open(other.path().join("state.db")).unwrap();
    living.execute_batch(table).unwrap();
    let copied = tempfile::tempdir().unwrap();
    let path = copied.path().join("state.db");
    for suffix in ["", "-wal"] {
        fs::copy(beside(&other.path().join("state.db"), suffix), beside(&path, suffix)).unwrap();
    }
    assert!(!fs::read(&path).unwrap().windows(4).any(|window| window == b"kine"), "it is in the log only");
    refused(&path, "written by the Go version of rdd");
    refused(&path, "apply them here");
}

#[test]
fn what_is_not_ours_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    fs::write(&path, "").unwrap();
    refused(&path, "it is empty");
    fs::write(&path, "a text\n".repeat(1_000)).unwrap();
    refused(&path, "does not begin as SQLite files do");
    fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE t(x)").unwrap();
    refused(&path, "is not an rdd datastore");
    fs::remove_file(&path).unwrap();
    fs::write(beside(&path, "-wal"), "left over").unwrap();
    refused(&path, "was interrupted");
}

#[test]
fn a_newer_format_is_refused_also_when_only_the_log_knows_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    drop(sqlite::open(&path, options()).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 7).unwrap();
    refused(&path, "has format 7, newer than format 1");

    let other = tempfile::tempdir().unwrap();
    let original = other.path().join("state.db");
    drop(sqlite::open(&original, options()).unwrap());
    let living = Connection::open(&original).unwrap();
    living.pragma_update(None, "user_version", 8).unwrap();
    for suffix in ["", "-wal"] {
        fs::copy(beside(&original, suffix), beside(&path, suffix)).unwrap();
    }
    refused(&path, "has format 8, newer than format 1");
}

#[test]
fn a_row_that_was_lost_or_came_back_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    let store = sqlite::open(&path, options()).unwrap();
    for number in 0..10 {
        store.commit(Txn::put(format!("key-{number}"), Expect::Any, "value")).wait().unwrap();
    }
    store.close().wait().unwrap();
    // The file is otherwise valid; only the set of rows differs from the one that was written.
    let change = |sql: &str| Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    change("CREATE TABLE kept AS SELECT * FROM log WHERE id = 5 << 7; DELETE FROM log WHERE id = 5 << 7");
    change("ALTER TABLE kept RENAME TO aside");
    let aside = fs::read(&path).unwrap();
    change("DROP TABLE aside");
    refused(&path, "its 9 rows are not the 10 that were written");
    fs::write(&path, aside).unwrap();
    change("INSERT INTO log SELECT * FROM aside; DROP TABLE aside");
    assert_eq!(sqlite::open(&path, options()).unwrap().status().live_keys, 10);
}

#[test]
fn a_free_list_that_is_wrong_is_found_before_it_does_harm() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    let store = sqlite::open(&path, options()).unwrap();
    store.commit(Txn::put("bulk", Expect::Any, vec![b'x'; 400_000])).wait().unwrap();
    let last = store.commit(Txn::put("bulk", Expect::Any, "small")).wait().unwrap();
    store.compact(last).wait().unwrap();
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while store.status().dead_rows > 0 {
        assert!(std::time::Instant::now() < patience, "what is dead is removed: {:?}", store.status());
        std::thread::yield_now();
    }
    store.close().wait().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    assert!(u32::from_be_bytes([bytes[36], bytes[37], bytes[38], bytes[39]]) > 50, "there are free pages");
    bytes[39] ^= 1;
    fs::write(&path, bytes).unwrap();
    refused(&path, "is damaged");
}
