//! When `scripts/advisories.sh` fails and when it only tells, with a stand-in for `cargo`.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use rdd_stdx::process;

/// Runs the script where `cargo deny` has these exit codes for `--version`, `fetch db` and the check; its code and output.
fn run(version: i32, fetch: &str, check: i32) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let cargo = folder.path().join("cargo");
    let words = format!(
        "#!/bin/sh\ncase \"$2\" in\n--version) exit {version} ;;\nfetch) {fetch} ;;\n*) exit {check} ;;\nesac\n"
    );
    fs::write(&cargo, words).unwrap();
    fs::set_permissions(&cargo, Permissions::from_mode(0o755)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/advisories.sh");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let mut command = process::background("sh", folder.path());
    let output = command.arg(script).env("PATH", path).env("RDD_ADVISORIES_TIMEOUT", "1").output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

// Finding A-10
#[test]
fn a_missing_tool_or_database_is_told_and_only_an_advisory_fails() {
    for (version, fetch, check, code, told) in [
        (1, "exit 0", 0, 0, "NOT CHECKED: cargo-deny is not installed"),
        (0, "exit 1", 1, 0, "NOT CHECKED: the advisory database could not be fetched"),
        (0, "sleep 60", 1, 0, "NOT CHECKED: the advisory database could not be fetched"),
        (0, "exit 0", 1, 1, "FAILED"),
        (0, "exit 0", 0, 0, "none applies"),
    ] {
        let (found, output) = run(version, fetch, check);
        assert_eq!(found, Some(code), "{output}");
        assert!(output.contains(told), "{output}");
        let is_unchecked = told.starts_with("NOT CHECKED");
        for part in
            ["no version in Cargo.lock was compared", "to check, on a machine that reaches crates.io and github.com"]
        {
            assert_eq!(output.contains(part), is_unchecked, "{part} in {output}");
        }
    }
}
