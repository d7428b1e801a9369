//! Tests across processes: writers that are killed, a second opener, a permissive umask.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

mod disk;
mod history;

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use disk::{Random, SharedStore, seed};
use history::{Changed, History, changes};
use rdd_stdx::process;
use rdd_store::{Action, Error, Expect, Limits, Revision, Txn, sqlite};
use rdd_testkit::capability::skip;

const ROLE: &str = "RDD_STORE_TEST_ROLE";
const PLACE: &str = "RDD_STORE_TEST_PLACE";
const AFTER: &str = "RDD_STORE_TEST_AFTER";
const SEED: &str = "RDD_STORE_KILL_SEED";

/// This test binary in another role; does nothing when run as a test.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let place = PathBuf::from(std::env::var(PLACE).unwrap());
    match role.as_str() {
        "write" => write_until_killed(&place),
        "hold" => {
            let _store = open(&place).unwrap();
            say("ready");
            // The test kills this process; if the test died first, the process ends by itself.
            std::thread::sleep(Duration::from_secs(60));
        }
        "umask" => {
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o777));
            let store = open(&place.join("new/state.db")).unwrap();
            store.commit(Txn::put("k", Expect::Any, "v")).wait().unwrap();
            store.backup(&place.join("new/backup.db")).wait().unwrap();
            say("ready");
            std::thread::sleep(Duration::from_secs(60));
        }
        other => panic!("no role {other}"),
    }
}

fn start(role: &str, place: &Path, variables: &[(&str, String)]) -> Child {
    let program = std::env::current_exe().unwrap();
    let mut command = process::background(program, Path::new("/"));
    command.args(["--exact", "role", "--nocapture"]).env(ROLE, role).env(PLACE, place);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command.stdout(Stdio::piped()).spawn().unwrap()
}

/// Kills and reaps a child, also when a test fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_and_wait_until_ready(role: &str, place: &Path) -> Killed {
    let mut child = Killed(start(role, place, &[]));
    let output = BufReader::new(child.0.stdout.take().unwrap());
    assert!(output.lines().map_while(Result::ok).any(|line| line.ends_with("ready")), "the child gets ready");
    child
}

/// Prints a line in a single write, so that a kill either keeps or loses it whole.
fn say(line: &str) {
    let line = format!("{line}\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

fn open(path: &Path) -> Result<SharedStore, sqlite::Error> {
    let limits = Limits { history_rows: 6_000, subscriber_batches: 2_000, ..Limits::default() };
    Ok(Arc::new(sqlite::open(path, sqlite::Options { limits, ..sqlite::Options::default() })?))
}

fn encode(what: &str, revision: u64, changes: &[Changed]) -> String {
    let mut line = format!("{what} {revision}");
    for (key, value) in changes {
        let value = value.as_deref().map_or("-".into(), String::from_utf8_lossy);
        line.push_str(&format!(" {key}={value}"));
    }
    line
}

fn decode(line: &str) -> Option<(&str, u64, Vec<Changed>)> {
    let mut words = line.split(' ');
    let (what, revision) = (words.next()?, words.next()?.parse().ok()?);
    let changes = words.map(|word| {
        let (key, value) = word.split_once('=').unwrap();
        (key.to_owned(), (value != "-").then(|| value.as_bytes().to_vec()))
    });
    matches!(what, "ack" | "event").then(|| (what, revision, changes.collect()))
}

/// Runs several writers, some with expiring keys, and a watcher that resumes where its predecessor stopped.
fn write_until_killed(place: &Path) {
    let after = std::env::var(AFTER).unwrap().parse().unwrap();
    let mut random = Random(std::env::var(SEED).unwrap().parse().unwrap());
    let store = open(place).unwrap();
    let mut events = store.events(Revision(after)).wait().unwrap();
    let watcher = std::thread::spawn(move || {
        while let Ok(batch) = events.next_blocking() {
            say(&encode("event", batch.revision.0, &changes(&batch)));
        }
    });
    for writer in 0..4 {
        let (store, mut random) = (Arc::clone(&store), Random(random.next()));
        std::thread::spawn(move || {
            let mut live = Vec::new();
            loop {
                let (mut txn, mut changed) = (Txn::default(), Vec::new());
                for op in 0..=random.below(3) {
                    let (action, change);
                    let mut key = format!("w{writer}/{op}/{}", random.below(20));
                    if random.below(4) == 0 && live.contains(&key) {
                        live.retain(|known| *known != key);
                        (action, change) = (Action::Delete, None);
                    } else {
                        let value = format!("{:x}", random.next()).repeat(1 + random.below(20) as usize);
                        let brief = random.below(5) == 0;
                        // Expiring keys are never deleted explicitly: whether such a deletion changes anything would be unknown.
                        let ttl = brief.then(|| Duration::from_millis(random.below(30)));
                        if brief {
                            key.push_str("/brief");
                        } else if !live.contains(&key) {
                            live.push(key.clone());
                        }
                        action = Action::Put { value: value.clone().into(), ttl };
                        change = Some(value.into_bytes());
                    }
                    txn = txn.with(key.clone(), Expect::Any, action);
                    changed.push((key, change));
                }
                match store.commit(txn).wait() {
                    Ok(revision) => say(&encode("ack", revision.0, &changed)),
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
    watcher.join().unwrap();
}

#[test]
fn what_was_acknowledged_or_told_survives_kill_9() {
    let started = Instant::now();
    let kills = std::env::var("RDD_STORE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(200);
    let mut random = Random(seed(SEED));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    let mut history = History::default();
    for kill in 0..kills {
        let variables = [(AFTER, history.head().to_string()), (SEED, random.next().to_string())];
        let mut child = Killed(start("write", &path, &variables));
        let output = BufReader::new(child.0.stdout.take().unwrap());
        let reader = std::thread::spawn(move || {
            // A line without its newline does not count.
            let lines = output.split(b'\n').map_while(Result::ok);
            lines.filter_map(|line| String::from_utf8(line).ok()).collect::<Vec<_>>()
        });
        // Any moment is valid: the child may be opening, recovering, writing, compacting or checkpointing.
        std::thread::sleep(Duration::from_micros(3_000 + random.below(120_000)));
        assert!(child.0.try_wait().unwrap().is_none(), "it ends only when it is killed");
        drop(child);
        let lines = reader.join().unwrap();
        for (what, revision, changes) in lines.iter().filter_map(|line| decode(line)) {
            let noted = match what {
                "ack" => history.acknowledge(revision, changes),
                _ => history.tell(revision, changes),
            };
            noted.unwrap_or_else(|problem| panic!("life {kill}: {problem}"));
        }
        // Not each time: the next child must also find what the kill left.
        if random.below(3) == 0 || kill + 1 == kills {
            let store = open(&path).unwrap_or_else(|error| panic!("life {kill}: {}", history::chain(&error)));
            history.check(&*store).unwrap_or_else(|problem| panic!("life {kill}: {problem}"));
        }
    }
    let (writes, head) = (history.acknowledged(), history.head());
    println!("{kills} kills, {writes} acknowledged writes and {head} revisions checked in {:?}", started.elapsed());
    assert!(writes > kills, "there was something to lose");
}

#[test]
fn a_second_opener_is_refused_and_told_who_holds_it_until_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    let child = start_and_wait_until_ready("hold", &path);
    let pid = child.0.id();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, sqlite::Error::InUse { holder: Some(holder), .. } if holder == pid), "{error}");
    assert_eq!(error.to_string(), format!("datastore {} is in use by process {pid}", path.display()));
    assert!(matches!(sqlite::inspect(&path, &sqlite::Options::default()), Err(sqlite::Error::InUse { .. })));
    assert!(matches!(sqlite::restore(&path, &path, &sqlite::Options::default()), Err(sqlite::Error::InUse { .. })));
    drop(child);
    let store = open(&path).unwrap();
    assert!(matches!(open(&path), Err(sqlite::Error::InUse { .. })), "this process is no exception");
    assert!(matches!(open(&path), Err(sqlite::Error::InUse { .. })), "and the attempt did not free the lock");
    store.close().wait().unwrap();
    open(&path).unwrap();
}

#[test]
fn files_are_private_and_usable_under_a_hostile_umask() {
    let dir = tempfile::tempdir().unwrap();
    let child = start_and_wait_until_ready("umask", dir.path());
    let mode = |name: &str| dir.path().join(name).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode("new"), 0o700);
    for name in ["new/state.db", "new/state.db-wal", "new/state.db.lock", "new/backup.db"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    drop(child);
    assert!(open(&dir.path().join("new/state.db")).unwrap().get("k").wait().unwrap().is_some());
}

#[test]
fn laxer_modes_are_tightened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    drop(open(&path).unwrap());
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let _store = open(&path).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(dir.path()), mode(&path)), (0o700, 0o600));
}

/// A small file system, unmounted on drop.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = process::foreground("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(dir.path()).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then_some(Self(dir))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = process::foreground("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_real_full_disk_refuses_writes_keeps_reads_and_heals() {
    let Some(mounted) = Mounted::new("4m") else {
        skip("no file system can be mounted");
        return;
    };
    let path = mounted.0.path().join("data/state.db");
    let store = open(&path).unwrap();
    store.commit(Txn::put("before", Expect::Any, "1")).wait().unwrap();
    let mut events = store.events(Revision(0)).wait().unwrap();
    assert_eq!(events.next_blocking().unwrap().revision, Revision(1));
    let filler = mounted.0.path().join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while file.write_all(&[1; 4_096]).is_ok() {}
    let mut acknowledged = vec![Revision(1)];
    let error = loop {
        match store.commit(Txn::put(format!("k{}", acknowledged.len()), Expect::Any, vec![7; 50_000])).wait() {
            Ok(revision) => acknowledged.push(revision),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::DiskFull { .. }), "{}", history::chain(&error));
    assert_eq!(store.get("before").wait().unwrap().unwrap().value, "1");
    store.events(Revision(0)).wait().unwrap().next_blocking().unwrap();
    drop(file);
    std::fs::remove_file(&filler).unwrap();
    history::eventually("it notices the space without being asked", || store.status().writable.is_ok());
    let healed = store.commit(Txn::put("after", Expect::Any, vec![8; 50_000])).wait().unwrap();
    assert_eq!(healed.0, acknowledged.last().unwrap().0 + 1);
    for revision in &acknowledged[1..] {
        assert_eq!(events.next_blocking().unwrap().revision, *revision);
    }
    drop(store);
    let store = open(&path).unwrap();
    assert_eq!(store.status().head, healed);
    assert_eq!(store.status().live_keys as usize, acknowledged.len() + 1);
}
