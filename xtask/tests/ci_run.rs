//! What `.ci/run` says last and how it ends, with a stand-in for `make`.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use rdd_stdx::process;

/// Runs it where `make test` and `make test-vm` are these lines of shell; its code, and its last line.
fn run(test: &str, test_vm: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let (ci, bin) = (folder.path().join(".ci"), folder.path().join("bin"));
    fs::create_dir(&ci).unwrap();
    fs::create_dir(&bin).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/run");
    fs::copy(script, ci.join("run")).unwrap();
    let make = format!("#!/bin/sh\ncase $1 in\ntest) {test} ;;\ntest-vm) {test_vm} ;;\nesac\n");
    fs::write(bin.join("make"), make).unwrap();
    fs::set_permissions(bin.join("make"), Permissions::from_mode(0o755)).unwrap();
    let mut command = process::background("sh", folder.path());
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let output = command.arg(ci.join("run")).env("PATH", path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    (output.status.code(), said.lines().last().unwrap_or_default().to_owned())
}

const TESTS_PASS: &str = "echo '40 passed, 0 failed' | tee target/test-count";
const MACHINE_PASSES: &str = "echo '1 passed, 0 failed' | tee target/test-count-vm";

#[test]
fn the_last_line_counts_all_tests_and_the_virtual_machine() {
    assert_eq!(run(TESTS_PASS, MACHINE_PASSES), (Some(0), "41 passed, 0 failed".to_owned()));
}

#[test]
fn a_failure_of_either_fails_the_run() {
    let tests_fail = "echo '39 passed, 1 failed' >target/test-count; echo the end; exit 2";
    assert_eq!(run(tests_fail, MACHINE_PASSES), (Some(2), "39 passed, 1 failed".to_owned()));
    let machine_fails = "echo '0 passed, 1 failed' >target/test-count-vm; echo the end; exit 2";
    assert_eq!(run(TESTS_PASS, machine_fails), (Some(2), "40 passed, 1 failed".to_owned()));
}

#[test]
fn a_virtual_machine_that_was_not_come_to_is_counted_as_failed() {
    assert_eq!(run(TESTS_PASS, "echo no image; exit 2"), (Some(2), "40 passed, 1 failed".to_owned()));
}

#[test]
fn what_does_not_build_is_not_counted() {
    assert_eq!(run("echo broken; exit 2", MACHINE_PASSES), (Some(2), "broken".to_owned()));
}
