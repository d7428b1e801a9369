//! What the release profile's `strip` leaves in a program: a small one is built with it, because the shipped one takes minutes.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::{fs, path::Path};

use rdd_stdx::process::background;

/// Panics two functions deep and prints the stack, as the daemon's log does.
const PROGRAM: &str = r#"
fn main() {
    std::panic::set_hook(Box::new(|_| eprintln!("{}", std::backtrace::Backtrace::force_capture())));
    let _ = std::thread::spawn(task_of_the_watcher).join();
}
#[inline(never)]
fn task_of_the_watcher() {
    panic!("{}", std::env::args().count());
}
"#;

/// The stack that the program prints when it is built with this setting of `strip`.
fn stack_with(strip: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("panics.rs"), PROGRAM).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut build = background(rustc, folder.path());
    build.args(["--edition=2024", "-Copt-level=s", "-Cdebuginfo=0", "-Cpanic=unwind", "panics.rs"]);
    let built = build.arg(format!("-Cstrip={strip}")).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let ran = background(folder.path().join("panics"), folder.path()).output().unwrap();
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

// Finding 295-I1
#[test]
fn a_program_stripped_as_the_release_profile_says_names_functions_in_the_stack_of_a_panic() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml")).unwrap();
    let manifest: serde_json::Value = basic_toml::from_str(&manifest).unwrap();
    let release = &manifest["profile"]["release"];
    assert_eq!(release["panic"], "unwind", "a task that panics is logged and replaced");
    let stack = stack_with(release["strip"].as_str().unwrap());
    assert!(stack.contains("task_of_the_watcher"), "{stack}");
    // The judge can tell: without symbols there is no name in it.
    assert!(!stack_with("symbols").contains("task_of_the_watcher"));
}
