//! Builds the stand-in for K3s.

use std::{
    path::{Path, PathBuf},
    sync::Mutex,
    time::Duration,
};

use rdd_stdx::process::background;
use rdd_testkit::{
    Output,
    bounded::{Outcome, run},
};

/// The program that is used as K3s, built once.
pub(crate) fn program() -> PathBuf {
    static BUILDING: Mutex<()> = Mutex::new(());
    if let Some(real) = real_k3s() {
        return real;
    }
    let _building = BUILDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let binary = root.join("target/conformance/k3s-standin");
    let mut build = background("go", &root.join("conformance/k3s-standin"));
    build.args(["build", "-o"]).arg(&binary).arg(".").env("GOTOOLCHAIN", "local");
    finish(&mut build, Duration::from_secs(300)).expect_success();
    binary
}

/// A real K3s, if `RDD_TEST_K3S` names one.
pub(crate) fn real_k3s() -> Option<PathBuf> {
    std::env::var_os("RDD_TEST_K3S").map(PathBuf::from)
}

/// Runs a command to its end.
#[track_caller]
pub(crate) fn finish(command: &mut std::process::Command, within: Duration) -> Output {
    match run(command, within, |_| ()).unwrap_or_else(|error| panic!("{command:?}: {error}")) {
        Outcome::Ended(output) => output,
        Outcome::TimedOut(output) => panic!("{command:?} took too long\n{}\n{}", output.stdout, output.stderr),
    }
}
