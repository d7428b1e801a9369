//! Runs a test with its own dockerd in its own namespaces, isolated from other engines.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::Duration,
};

use rdd_stdx::process::{self, Process, Signal};
use rdd_testkit::{
    bounded::{self, Outcome},
    capability::require,
    eventually,
};

/// The variable that is set inside the namespaces.
const INSIDE: &str = "RDD_TEST_ROOM";
const TEST_TAKES: Duration = Duration::from_secs(300);
const COMMAND_TAKES: Duration = Duration::from_secs(60);

/// Whether the test can continue. Outside of the namespaces it cannot: this runs the whole test again, alone and inside them.
pub(crate) fn enter(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        run("mount", &["-t", "tmpfs", "tmpfs", "/run"]);
        run("ip", &["link", "set", "lo", "up"]);
        return true;
    }
    if !require("own-engine") {
        return false;
    }
    let mut command = process::background("unshare", Path::new("/"));
    command.args(["--net", "--mount", "--propagation", "private", "--"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads", "1"]).env(INSIDE, "1");
    match bounded::run(&mut command, TEST_TAKES, |_| ()).unwrap() {
        Outcome::Ended(output) => {
            let output = output.expect_success();
            assert!(output.stdout.contains("1 passed"), "{}", output.stdout);
        }
        Outcome::TimedOut(output) => panic!("{test} took too long\n{}\n{}", output.stdout, output.stderr),
    }
    false
}

#[track_caller]
fn run(program: &str, arguments: &[&str]) -> String {
    let mut command = process::background(program, Path::new("/"));
    match bounded::run(command.args(arguments), COMMAND_TAKES, |_| ()).unwrap() {
        Outcome::Ended(output) => output.expect_success().stdout,
        Outcome::TimedOut(output) => panic!("{command:?} hangs\n{}\n{}", output.stdout, output.stderr),
    }
}

/// A running dockerd. Dropping it stops it.
pub(crate) struct Dockerd {
    folder: tempfile::TempDir,
    socket: PathBuf,
    child: Child,
}

impl Dockerd {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("docker.sock");
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut command = process::background("dockerd", Path::new("/"));
        command.arg("--data-root").arg(folder.path().join("data"));
        command.args(["--exec-root", "/run/exec", "--pidfile", "/run/docker.pid", "--bridge=none", "--iptables=false"]);
        command.args(["--ip6tables=false", "-H"]).arg(format!("unix://{}", socket.display()));
        command.stdout(Stdio::null()).stderr(log);
        let child = command.spawn().unwrap();
        let started = Self { folder, socket, child };
        eventually("dockerd's socket", Duration::from_secs(60), || {
            let log = || fs::read_to_string(started.folder.path().join("log")).unwrap_or_default();
            std::os::unix::net::UnixStream::connect(&started.socket).map_err(|error| format!("{error}\n{}", log()))
        });
        started
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        if let Ok(Some(process)) = Process::open(self.child.id()) {
            let _ = process.signal(Signal::TERM);
            if !process.wait(Duration::from_secs(20)).unwrap_or(false) {
                let _ = process.signal(Signal::KILL);
            }
        }
        let _ = self.child.wait();
    }
}

/// An archive of a root folder with a static busybox under several names.
pub(crate) fn archive() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("root/bin");
    fs::create_dir_all(&bin).unwrap();
    let busybox = run("sh", &["-c", "command -v busybox"]);
    fs::copy(busybox.trim(), bin.join("busybox")).unwrap();
    for name in ["sh", "sleep", "true", "false"] {
        std::os::unix::fs::symlink("busybox", bin.join(name)).unwrap();
    }
    let (root, tar) = (folder.path().join("root"), folder.path().join("image.tar"));
    run("tar", &["-C", root.to_str().unwrap(), "-cf", tar.to_str().unwrap(), "."]);
    fs::read(tar).unwrap()
}
