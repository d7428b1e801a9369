//! Finding A-1: files that another user put into the folders of an instance are rejected before they are used.

use std::{
    fs,
    os::unix::fs::{chown, lchown, symlink},
    path::{Path, PathBuf},
};

use rdd_testkit::{Sandbox, capability::require};

use crate::support::{dir, expect_error, fingerprint, talkative};

/// A UID without a user on this machine.
const STRANGER: u32 = 4_242;
const OWNER_AND_FIX: [&str; 2] =
    ["it belongs to user uid 4242, and rdd runs as root (uid 0)", "run rdd as 4242, or set HOME to a folder of root's"];

fn short_dir(sandbox: &Sandbox) -> PathBuf {
    sandbox.home().join(format!(".rd{}", sandbox.instance()))
}

fn give_away(path: &Path) {
    lchown(path, Some(STRANGER), Some(STRANGER)).unwrap();
}

#[track_caller]
fn expect_refusal(sandbox: &Sandbox, command: &[&str], path: &Path) {
    let path = format!("refusing to use {}: ", path.display());
    expect_error(&sandbox.rdd(command), 1, &[&path, OWNER_AND_FIX[0], OWNER_AND_FIX[1]]);
}

#[test]
fn root_does_not_use_the_home_of_another_user() {
    if !require("root") {
        return;
    }
    let sandbox = talkative().build();
    let tls = dir(&sandbox).join("tls");
    fs::create_dir_all(&tls).unwrap();
    for file in ["ca.key", "ca.crt"] {
        fs::write(tls.join(file), "planted").unwrap();
        give_away(&tls.join(file));
    }
    for folder in tls.ancestors().take_while(|folder| folder.starts_with(sandbox.home())) {
        give_away(folder);
    }
    let before = fingerprint(sandbox.home());
    let commands: [&[&str]; 9] = [
        &["svc", "start"],
        &["svc", "create"],
        &["svc", "serve"],
        &["svc", "status"],
        &["svc", "config"],
        &["svc", "stop"],
        &["svc", "delete"],
        &["ctl", "get", "namespaces"],
        &["set", "containerEngine.name=moby"],
    ];
    for command in commands {
        expect_refusal(&sandbox, command, sandbox.home());
    }
    assert_eq!(fingerprint(sandbox.home()), before, "nothing was written");
    assert!(sandbox.processes().is_empty(), "no daemon was left");
    for command in [&["version"][..], &["--help"], &["svc", "--help"], &["svc", "paths"]] {
        sandbox.rdd(command).expect_success();
    }
}

#[test]
fn every_kind_of_file_of_another_user_is_refused() {
    if !require("root") {
        return;
    }
    let sandbox = talkative().build();
    let (state, short) = (dir(&sandbox), short_dir(&sandbox));
    let logs = sandbox.home().join(".local/state").join(state.file_name().unwrap());
    let files = [
        state.join("tls/ca.key"),
        state.join("tls/serving.key"),
        state.join("config.yaml"),
        state.join("args.json"),
        state.join("rdd.lock"),
        state.join("db/state.db"),
        state.join("db/state.db-wal"),
        short.join("kube.config"),
        short.join("docker.sock"),
        short.join("controllers/other.sock"),
        logs.join("rdd.stderr.log"),
    ];
    for file in &files {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "planted").unwrap();
        give_away(file);
        expect_refusal(&sandbox, &["svc", "start"], file);
        assert_eq!(fs::read_to_string(file).unwrap(), "planted");
        fs::remove_file(file).unwrap();
    }
    let folders = [&state, &short, &state.join("tls"), &state.join("db"), &short.join("lima"), &short.join("bin")];
    for folder in folders {
        fs::create_dir_all(folder).unwrap();
        give_away(folder);
        expect_refusal(&sandbox, &["svc", "start"], folder);
        chown(folder, Some(0), Some(0)).unwrap();
    }
    assert!(!state.join("args.json").exists(), "nothing was created");
}

#[test]
fn a_link_in_the_place_of_a_folder_or_a_file_is_not_followed() {
    let sandbox = talkative().build();
    let (state, short) = (dir(&sandbox), short_dir(&sandbox));
    let elsewhere = sandbox.home().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for folder in [&state, &short] {
        fs::create_dir_all(folder).unwrap();
    }
    for link in [state.join("tls"), state.join("db"), short.join("lima"), short.join("controllers")] {
        symlink(&elsewhere, &link).unwrap();
        let refused = format!("refusing to use {}: it is a symbolic link; remove it", link.display());
        expect_error(&sandbox.rdd(&["svc", "start"]), 1, &[&refused]);
        fs::remove_file(&link).unwrap();
    }
    let victim = elsewhere.join("victim");
    // In the order in which they are locked, so that no attempt creates the next one.
    for link in [state.join("command.lock"), state.join("rdd.lock")] {
        symlink(&victim, &link).unwrap();
        let output = sandbox.rdd(&["svc", "start"]);
        assert_eq!(output.code, Some(1), "{}: {}", link.display(), output.stderr);
        assert!(!victim.exists(), "{}", link.display());
        fs::remove_file(&link).unwrap();
    }
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn folders_that_the_user_keeps_elsewhere_work() {
    let sandbox = talkative().build();
    let (state, short) = (dir(&sandbox), short_dir(&sandbox));
    let disk = sandbox.home().join("disk");
    for (folder, target) in [(&state, disk.join("state")), (&short, disk.join("short"))] {
        fs::create_dir_all(&target).unwrap();
        fs::create_dir_all(folder.parent().unwrap()).unwrap();
        symlink(&target, folder).unwrap();
    }
    sandbox.rdd(&["svc", "start"]).expect_success();
    sandbox.rdd(&["svc", "stop"]).expect_success();
    assert!(disk.join("state/db/state.db").exists());
}
