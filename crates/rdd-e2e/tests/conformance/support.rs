//! Helpers of the conformance tests: they build the Go programs, run them with a timeout, and pass them the daemon's address.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use rdd_client::kubeconfig::{self, Kubeconfig};
use rdd_stdx::process::background;
use rdd_testkit::{
    Daemon, Output,
    bounded::{Outcome, run},
};

/// The timeout of a build. With an empty cache it takes minutes, with a full one seconds.
const BUILD_TAKES: Duration = Duration::from_secs(900);

/// The folder `conformance`.
pub(crate) fn conformance() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance").canonicalize().unwrap()
}

/// Runs a program to its end and requires success; otherwise panics with its output.
#[track_caller]
pub(crate) fn judge(mut command: Command, within: Duration) -> Output {
    match run(&mut command, within, |_| ()).unwrap_or_else(|error| panic!("{command:?}: {error}")) {
        Outcome::Ended(output) => output.expect_success(),
        Outcome::TimedOut(output) => {
            panic!("{command:?} did not end within {within:?}\n{}\n{}", output.stdout, output.stderr)
        }
    }
}

/// A command in a folder of `conformance`.
pub(crate) fn command(program: impl AsRef<OsStr>, folder: &str) -> Command {
    background(program, &conformance().join(folder))
}

/// Builds a Go program of this repository: `folder` contains the module, and `package` is in it.
#[track_caller]
pub(crate) fn build_go(folder: &str, package: &str, name: &str) -> PathBuf {
    // One build at a time: two would only compete for the CPUs.
    static BUILDING: Mutex<()> = Mutex::new(());
    let _building = BUILDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let binary = conformance().join("../target/conformance").join(name);
    let mut build = command("go", folder);
    build.args(["build", "-o"]).arg(&binary).arg(package).env("GOTOOLCHAIN", "local");
    judge(build, BUILD_TAKES);
    binary
}

/// The pinned kubectl, built once.
#[track_caller]
pub(crate) fn pinned_kubectl() -> PathBuf {
    static BUILDING: Mutex<()> = Mutex::new(());
    let _building = BUILDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut build = command("./build.sh", "kubernetes");
    build.arg("kubectl");
    let output = judge(build, BUILD_TAKES);
    PathBuf::from(output.stdout.lines().last().unwrap())
}

/// What a client needs to reach a daemon without a kubeconfig.
pub(crate) struct Address {
    pub(crate) server: String,
    pub(crate) authority: PathBuf,
    pub(crate) admin_token: String,
    pub(crate) user_token: String,
}

/// Reads a daemon's kubeconfig and writes its certificate to a file.
pub(crate) fn address(daemon: &Daemon) -> Address {
    let config = Kubeconfig::parse(&fs::read_to_string(daemon.config_path()).unwrap()).unwrap();
    let admin = config.resolve(None).unwrap();
    let user = config.resolve(Some(kubeconfig::USER)).unwrap();
    let authority = daemon.home().join("authority.pem");
    fs::write(&authority, STANDARD.decode(&admin.cluster.certificate_authority_data).unwrap()).unwrap();
    Address {
        server: admin.cluster.server.clone(),
        authority,
        admin_token: admin.user.token.clone(),
        user_token: user.user.token.clone(),
    }
}
