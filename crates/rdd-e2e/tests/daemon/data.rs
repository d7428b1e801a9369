//! Tests the datastore's commands: backup, restore, reset, and files that are rejected.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rdd_stdx::lock::ProcessLock;
use rdd_store::{Expect, Store as _, Txn, sqlite};
use rdd_testkit::{Daemon, Sandbox, eventually};

use crate::support::{SOON, dir, expect_error, fingerprint, mode, status, talkative, walk};

/// Writes keys into the datastore of a stopped instance.
fn write(sandbox: &Sandbox, keys: &[&str]) -> u64 {
    let store = sqlite::open(&dir(sandbox).join("db/state.db"), sqlite::Options::default()).unwrap();
    let mut revision = 0;
    for key in keys {
        revision = store.commit(Txn::put(*key, Expect::Any, "value")).wait().unwrap().0;
    }
    store.close().wait().unwrap();
    revision
}

fn has(path: &Path, key: &str) -> bool {
    let store = sqlite::open(path, sqlite::Options::default()).unwrap();
    let found = store.get(key).wait().unwrap().is_some();
    store.close().wait().unwrap();
    found
}

#[test]
fn a_backup_taken_while_it_runs_is_restored_and_the_revision_leaps() {
    let sandbox = Daemon::start_in(talkative().build()).stop();
    let before = write(&sandbox, &["/registry/a", "/registry/b"]);
    let daemon = Daemon::start_in(sandbox);
    let copy = daemon.home().join("copy.db");
    let copy_text = copy.to_str().unwrap().to_owned();
    daemon.rdd(&["svc", "backup", &copy_text]).expect_success();
    assert_eq!(mode(&copy), 0o600);
    expect_error(&daemon.rdd(&["svc", "backup", &copy_text]), 1, &["copy.db", "exists"]);
    expect_error(&daemon.rdd(&["svc", "restore", &copy_text, "--yes"]), 1, &["running"]);

    let sandbox = daemon.stop();
    let after = write(&sandbox, &["/registry/c"]);
    assert!(after > before);
    sandbox.rdd(&["svc", "restore", &copy_text, "--yes"]).expect_success();
    let database = dir(&sandbox).join("db/state.db");
    assert!(has(&database, "/registry/a") && !has(&database, "/registry/c"));
    assert!(write(&sandbox, &["/registry/d"]) > after, "a revision never goes back, also not over a restore");
    let aside =
        walk(&dir(&sandbox).join("db")).into_iter().find(|path| path.to_string_lossy().contains("before-restore"));
    assert!(aside.is_some(), "what was replaced is kept");
    let daemon = Daemon::start_in(sandbox);
    assert_eq!(status(&daemon)["ready"], true);
}

#[test]
fn a_backup_of_a_stopped_instance_works_too() {
    let sandbox = Daemon::start().stop();
    write(&sandbox, &["/registry/a"]);
    let copy = sandbox.home().join("copy.db");
    sandbox.rdd(&["svc", "backup", copy.to_str().unwrap()]).expect_success();
    assert!(has(&copy, "/registry/a"));
}

/// A running backup command, and its output so far.
struct Backup {
    child: std::process::Child,
    said: PathBuf,
}

impl Backup {
    fn spawn(sandbox: &Sandbox, copy: &Path) -> Self {
        let said = sandbox.home().join("said");
        let mut command = sandbox.command(&["svc", "backup", copy.to_str().unwrap()]);
        command.stdout(std::process::Stdio::null()).stderr(fs::File::create(&said).unwrap());
        Self { child: command.spawn().unwrap(), said }
    }

    #[track_caller]
    fn until_it_says(&self, text: &str) {
        eventually(text, SOON, || fs::read_to_string(&self.said).unwrap().contains(text).then_some(()));
    }

    #[track_caller]
    fn expect_success(mut self) {
        assert!(self.child.wait().unwrap().success(), "{}", fs::read_to_string(&self.said).unwrap());
    }
}

#[test]
fn a_backup_of_a_daemon_that_is_starting_waits_until_it_is_ready() {
    let daemon = Daemon::start_in(talkative().build());
    // The kubeconfig is moved away, as if the daemon had not published it yet.
    let (config, later) = (dir(&daemon).join("config.yaml"), dir(&daemon).join("later"));
    fs::rename(&config, &later).unwrap();
    let copy = daemon.home().join("copy.db");
    let backup = Backup::spawn(&daemon, &copy);
    backup.until_it_says("waiting for API server");
    fs::rename(&later, &config).unwrap();
    backup.expect_success();
    assert!(copy.exists());
}

#[test]
fn a_backup_that_waited_for_another_command_leaves_the_datastore_to_the_daemon_which_that_one_started() {
    let sandbox = Daemon::start_in(talkative().build()).stop();
    let command = ProcessLock::acquire(&dir(&sandbox).join("command.lock")).unwrap();
    let copy = sandbox.home().join("copy.db");
    let backup = Backup::spawn(&sandbox, &copy);
    backup.until_it_says("which is changing");
    let daemon = ProcessLock::acquire(&dir(&sandbox).join("rdd.lock")).unwrap();
    drop(command);
    backup.until_it_says("waiting for API server");
    assert!(!copy.exists(), "the datastore was not opened under the daemon");
    drop(daemon);
    backup.expect_success();
    assert!(copy.exists(), "the daemon is gone, so the files are copied");
}

#[test]
fn what_is_not_a_backup_is_refused_and_the_datastore_is_untouched() {
    let sandbox = Daemon::start_in(talkative().build()).stop();
    write(&sandbox, &["/registry/a"]);
    let database = dir(&sandbox).join("db");
    let before = fingerprint(&database);
    let garbage = sandbox.home().join("garbage");
    fs::write(&garbage, "this is not a backup").unwrap();
    expect_error(&sandbox.rdd(&["svc", "restore", garbage.to_str().unwrap(), "--yes"]), 1, &["garbage"]);
    expect_error(&sandbox.rdd(&["svc", "restore", "/nonexistent", "--yes"]), 1, &["/nonexistent"]);
    assert_eq!(fingerprint(&database), before);
    let copy = sandbox.home().join("copy.db");
    sandbox.rdd(&["svc", "backup", copy.to_str().unwrap()]).expect_success();
    let before = fingerprint(&database);
    expect_error(&sandbox.rdd(&["svc", "restore", copy.to_str().unwrap()]), 1, &["--yes"]);
    assert_eq!(fingerprint(&database), before);
}

#[test]
fn reset_asks_and_then_empties_the_datastore_only() {
    let sandbox = Daemon::start_in(talkative().build()).stop();
    write(&sandbox, &["/registry/a"]);
    expect_error(&sandbox.rdd(&["svc", "reset"]), 1, &["--yes"]);
    assert!(has(&dir(&sandbox).join("db/state.db"), "/registry/a"));
    let daemon = Daemon::start_in(sandbox);
    let certificate = fs::read(dir(&daemon).join("tls/apiserver.crt")).unwrap();
    daemon.rdd(&["svc", "reset", "--yes"]).expect_success();
    assert_eq!(status(&daemon)["ready"], true, "it was running, so it runs again");
    assert_eq!(fs::read(dir(&daemon).join("tls/apiserver.crt")).unwrap(), certificate);
    let sandbox = daemon.stop();
    assert!(!has(&dir(&sandbox).join("db/state.db"), "/registry/a"));
}

#[test]
fn a_datastore_of_the_original_is_recognised_and_left_untouched() {
    let sandbox = talkative().build();
    sandbox.rdd(&["svc", "create"]).expect_success();
    let database = dir(&sandbox).join("db");
    fs::create_dir(&database).unwrap();
    let connection = rusqlite::Connection::open(database.join("state.db")).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode=WAL;
             CREATE TABLE kine (id INTEGER PRIMARY KEY AUTOINCREMENT, name INTEGER, created INTEGER, deleted INTEGER,
                create_revision INTEGER, prev_revision INTEGER, lease INTEGER, value BLOB, old_value BLOB);
             INSERT INTO kine (name, value) VALUES ('compact_rev_key', x'');",
        )
        .unwrap();
    drop(connection);
    let before = fingerprint(&database);
    let output = sandbox.rdd(&["svc", "start"]);
    expect_error(&output, 1, &["state.db", "Go version of rdd", "svc reset"]);
    let after: Vec<_> =
        fingerprint(&database).into_iter().filter(|print| !print.0.ends_with("state.db.lock")).collect();
    assert_eq!(after, before);
    sandbox.rdd(&["svc", "reset", "--yes"]).expect_success();
    sandbox.rdd(&["svc", "start"]).expect_success();
}

#[test]
fn a_damaged_datastore_is_named_with_the_way_to_restore_and_left_untouched() {
    let sandbox = Daemon::start_in(talkative().build()).stop();
    write(&sandbox, &["/registry/a", "/registry/b"]);
    let copy = sandbox.home().join("copy.db");
    sandbox.rdd(&["svc", "backup", copy.to_str().unwrap()]).expect_success();
    let file = dir(&sandbox).join("db/state.db");
    let content = fs::read(&file).unwrap();
    fs::write(&file, &content[..content.len() / 2]).unwrap();
    let before = fingerprint(&dir(&sandbox).join("db"));
    expect_error(&sandbox.rdd(&["svc", "start"]), 1, &["state.db", "svc restore"]);
    assert_eq!(fingerprint(&dir(&sandbox).join("db")), before);
    sandbox.rdd(&["svc", "restore", copy.to_str().unwrap(), "--yes"]).expect_success();
    assert!(has(&file, "/registry/b"));
    let daemon = Daemon::start_in(sandbox);
    assert_eq!(status(&daemon)["ready"], true);
}
