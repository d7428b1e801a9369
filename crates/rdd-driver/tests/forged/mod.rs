//! Processes that pose as a machine's: each has its mark, and lacks one other thing that would prove it.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use rdd_stdx::process;
use rdd_testkit::eventually;

pub(crate) const NONCE: &str = "RDD_MACHINE_NONCE";

/// The nonce of a machine's last start.
pub(crate) fn read_nonce(launch_file: &Path) -> String {
    let launch: serde_json::Value = serde_json::from_slice(&fs::read(launch_file).unwrap()).unwrap();
    launch["nonce"].as_str().unwrap().to_owned()
}

/// A process that lacks one thing. It ends with this.
pub(crate) struct Forged {
    lacks: &'static str,
    child: Child,
}

impl Forged {
    /// It lives, and nobody stopped it.
    #[track_caller]
    pub(crate) fn expect_alive(&mut self) {
        assert_eq!(self.child.try_wait().unwrap(), None, "the process without {} was ended", self.lacks);
    }
}

impl Drop for Forged {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts one process for each thing that it can lack. All run these words, with the mark (`name=value`) in their environment,
/// and their standard input stays open until the end. Needs root.
pub(crate) fn start_all(mark: &str, nonce: &str, words: &[&str]) -> Vec<Forged> {
    let right = format!("{NONCE}={nonce}");
    let stale = format!("{NONCE}={}", "0".repeat(32));
    // The programs in front of `env` do not have the variables themselves.
    let prefix = |program: &str, arguments: &[&str]| {
        let mut command = process::background(program, Path::new("/"));
        command.args(arguments).arg("env").stdin(Stdio::piped());
        command
    };
    let kinds: [(&'static str, Command, &[&str]); 4] = [
        ("the nonce", prefix("nice", &["-n0"]), &[mark]),
        ("the nonce of this start", prefix("nice", &["-n0"]), &[mark, &stale]),
        ("our user", prefix("setpriv", &["--reuid=65533", "--regid=65533", "--clear-groups"]), &[mark, &right]),
        ("our PID namespace", prefix("unshare", &["--pid", "--fork", "--kill-child", "setsid"]), &[mark, &right]),
    ];
    let before = count_marked(mark);
    let mut forged = Vec::new();
    for (lacks, mut command, variables) in kinds {
        let child = command.args(variables).args(words).spawn().unwrap();
        forged.push(Forged { lacks, child });
    }
    let count = before + forged.len();
    eventually("all forged processes", Duration::from_secs(20), || (count_marked(mark) >= count).then_some(()));
    forged
}

/// How many processes have this variable in their environment.
fn count_marked(mark: &str) -> usize {
    let environments = fs::read_dir("/proc").unwrap().flatten().map(|entry| fs::read(entry.path().join("environ")));
    let has_mark = |environment: &Vec<u8>| environment.split(|byte| *byte == 0).any(|text| text == mark.as_bytes());
    environments.filter(|environment| environment.as_ref().is_ok_and(has_mark)).count()
}
