//! Tests a hostile environment: each fault leads to a clear message and the documented exit code, and leaves nothing half-written.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use rdd_client::kubeconfig::Kubeconfig;
use rdd_testkit::{Daemon, Sandbox, capability::require};

use crate::support::{dir, expect_error, fingerprint, mode, status, talkative, walk};

#[test]
fn files_are_private_and_usable_under_any_umask() {
    for umask in [0o000, 0o777, 0o077] {
        let sandbox = Sandbox::builder().umask(umask).build();
        sandbox.rdd(&["svc", "start"]).expect_success();
        assert_eq!(status(&sandbox)["ready"], true);
        sandbox.rdd(&["svc", "backup", sandbox.home().join("copy.db").to_str().unwrap()]).expect_success();
        let ours = walk(sandbox.home()).into_iter().skip(1);
        let mut seen = 0;
        for path in ours {
            let meta = fs::symlink_metadata(&path).unwrap();
            let parent_is_ours = path.starts_with(sandbox.home().join(".local"))
                || path.starts_with(sandbox.home().join(format!(".rd{}", sandbox.instance())))
                || path.ends_with("copy.db");
            if meta.file_type().is_symlink() || !parent_is_ours {
                continue;
            }
            let expected = if meta.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode(&path), expected, "{} under umask {umask:04o}", path.display());
            seen += 1;
        }
        assert!(seen > 10, "the walk saw {seen} files");
        sandbox.rdd(&["svc", "stop"]).expect_success();
        sandbox.rdd(&["svc", "delete"]).expect_success();
    }
}

#[test]
fn a_missing_home_is_named() {
    let sandbox = Sandbox::builder().without_home().build();
    for command in [&["svc", "start"][..], &["svc", "status"], &["svc", "paths"]] {
        expect_error(&sandbox.rdd(command), 1, &["HOME is not set"]);
    }
    sandbox.rdd(&["version"]).expect_success();
    sandbox.rdd(&["--help"]).expect_success();
}

#[test]
fn a_read_only_home_is_named_and_left_as_it_was() {
    if !require("root") {
        return;
    }
    let sandbox = Sandbox::builder().as_nobody().build();
    fs::set_permissions(sandbox.home(), fs::Permissions::from_mode(0o555)).unwrap();
    let before = walk(sandbox.home());
    for command in [&["svc", "create"][..], &["svc", "start"], &["svc", "config"], &["svc", "serve"]] {
        let output = sandbox.rdd(command);
        expect_error(&output, 1, &[sandbox.home().to_str().unwrap(), "ermission denied", "check who owns"]);
    }
    assert_eq!(walk(sandbox.home()), before);
    fs::set_permissions(sandbox.home(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn an_unwritable_log_folder_is_named() {
    if !require("root") {
        return;
    }
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let sandbox = Sandbox::builder().as_nobody().log_dir(folder.path()).build();
    let output = sandbox.rdd(&["svc", "start"]);
    expect_error(&output, 1, &[folder.path().to_str().unwrap()]);
    assert_eq!(status(&sandbox)["running"], false);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_unprivileged_user_can_do_everything() {
    if !require("root") {
        return;
    }
    let daemon = Daemon::start_in(Sandbox::builder().as_nobody().build());
    assert_eq!(status(&daemon)["ready"], true);
    let sandbox = daemon.stop();
    sandbox.rdd(&["svc", "delete"]).expect_success();
}

#[test]
fn garbage_in_the_stored_arguments_is_named_and_kept() {
    for garbage in ["", "{", "{\"a\": 1}", "[1, 2]", "[\"--no-such-flag\"]", "\u{0}\u{1}"] {
        let sandbox = talkative().build();
        sandbox.rdd(&["svc", "create"]).expect_success();
        let file = dir(&sandbox).join("args.json");
        fs::write(&file, garbage).unwrap();
        let output = sandbox.rdd(&["svc", "start"]);
        expect_error(&output, 1, &["args.json"]);
        assert_eq!(fs::read_to_string(&file).unwrap(), garbage);
        assert_eq!(status(&sandbox)["running"], false, "{garbage:?}");
        sandbox.rdd(&["svc", "delete"]).expect_success();
    }
}

#[test]
fn a_temporary_folder_that_is_missing_does_not_stand_in_the_way() {
    let sandbox = talkative().env("TMPDIR", "/nonexistent").build();
    let output = sandbox.rdd(&["svc", "start"]).expect_success();
    assert!(!output.stderr.contains("level=warning"), "{}", output.stderr);
    assert_eq!(status(&sandbox)["ready"], true);
    let left = walk(sandbox.home()).into_iter().find(|path| path.to_string_lossy().contains("rdd-notify"));
    assert_eq!(left, None, "the socket went with the command");
}

#[test]
fn where_no_socket_can_be_made_the_daemon_is_asked_until_it_is_ready_or_dead() {
    let outer = Sandbox::new();
    let home = outer.home().join("x".repeat(90));
    fs::create_dir(&home).unwrap();
    let run = |words: &[&str]| {
        let mut command = outer.command(words);
        command.env("HOME", &home).env("TMPDIR", "/nonexistent").env("RDD_LOG_LEVEL", "info");
        outer.run(command)
    };
    let output = run(&["svc", "start"]).expect_success();
    for part in ["make a socket in /nonexistent", "its path is too long", "control plane is ready"] {
        assert!(output.stderr.contains(part), "{part:?} is missing in {}", output.stderr);
    }
    run(&["svc", "stop"]).expect_success();
    let database = walk(&home).into_iter().find(|path| path.ends_with("state.db")).expect("a datastore");
    fs::write(&database, "garbage").unwrap();
    expect_error(&run(&["svc", "start"]), 1, &["ended while starting", "state.db"]);
}

/// A small file system of the test's own, unmounted on drop.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(at: &Path, size: &str) -> Self {
        fs::create_dir_all(at).unwrap();
        let options = format!("size={size},mode=700");
        run(rdd_stdx::process::foreground("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at));
        Self(at.to_owned())
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        run(rdd_stdx::process::foreground("umount").arg("--lazy").arg(&self.0));
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_full_disk_is_named_nothing_is_half_written_and_room_heals_it() {
    if !require("tmpfs") {
        return;
    }
    let sandbox = talkative().build();
    let local = sandbox.home().join(".local");
    let _disk = Tmpfs::mount(&local, "2m");
    let ballast = local.join("ballast");
    fs::write(&ballast, vec![0; 4 << 20]).expect_err("the disk is smaller than that");

    let output = sandbox.rdd(&["svc", "start"]);
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    assert!(output.stderr.contains("No space left on device"), "{}", output.stderr);
    assert_eq!(status(&sandbox)["running"], false);
    let halves: Vec<_> = walk(&local).into_iter().filter(|path| path.to_string_lossy().ends_with(".tmp")).collect();
    assert!(halves.is_empty(), "{halves:?}");

    fs::remove_file(&ballast).unwrap();
    sandbox.rdd(&["svc", "start"]).expect_success();
    assert_eq!(status(&sandbox)["ready"], true);
    sandbox.rdd(&["svc", "stop"]).expect_success();
}

#[test]
fn a_disk_that_fills_up_under_a_running_daemon_does_not_end_it() {
    if !require("tmpfs") {
        return;
    }
    let sandbox = talkative().build();
    let local = sandbox.home().join(".local");
    let disk = Tmpfs::mount(&local, "4m");
    let daemon = Daemon::start_in(sandbox);
    let ballast = local.join("ballast");
    fs::write(&ballast, vec![0; 8 << 20]).expect_err("the disk is smaller than that");
    // Whether it is ready depends on whether it had to write meanwhile.
    assert_eq!(status(&daemon)["running"], true);
    let config = Kubeconfig::parse(&fs::read_to_string(daemon.config_path()).unwrap()).unwrap();
    assert_eq!(crate::wire::request(&config, "/api/v1/namespaces/default"), 200, "reads go on");
    daemon.rdd(&["svc", "stop"]).expect_success();
    fs::remove_file(&ballast).unwrap();
    daemon.rdd(&["svc", "start"]).expect_success();
    daemon.rdd(&["svc", "stop"]).expect_success();
    drop(disk);
}

#[test]
fn a_bad_instance_name_is_refused_before_any_file_is_touched() {
    let sandbox = Sandbox::new();
    for name in ["../../etc", "UPPER", "a/b", "ä", "-x-", &"a".repeat(33)] {
        for command in [&["svc", "start"][..], &["svc", "delete"], &["svc", "paths"]] {
            let mut args = vec![format!("--instance={name}")];
            args.extend(command.iter().map(|word| (*word).to_owned()));
            expect_error(&sandbox.rdd(&args), 1, &["invalid instance name", "at most 32"]);
        }
    }
    assert_eq!(fs::read_dir(sandbox.home()).unwrap().count(), 0, "no file was touched");
}

#[test]
fn a_state_folder_that_is_a_link_is_not_deleted_through() {
    let sandbox = talkative().build();
    sandbox.rdd(&["svc", "create"]).expect_success();
    let precious = sandbox.home().join("precious");
    fs::rename(dir(&sandbox), &precious).unwrap();
    std::os::unix::fs::symlink(&precious, dir(&sandbox)).unwrap();
    let before = fingerprint(&precious);
    let output = sandbox.rdd(&["svc", "delete"]);
    expect_error(&output, 1, &["link"]);
    assert_eq!(fingerprint(&precious).len(), before.len());
}
