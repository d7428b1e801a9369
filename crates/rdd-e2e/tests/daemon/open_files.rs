//! Tests the daemon's limit of open files.

use std::{fs, path::Path};

use rdd_stdx::process;
use rdd_testkit::Daemon;

use crate::support::talkative;

/// A soft limit that is lower than those of login sessions.
const LOW_SOFT_LIMIT: &str = "256";

/// The soft and the hard limit of open files of a process, from the kernel.
fn open_files_limits(pid: u32) -> [String; 2] {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let mut values = line.split_whitespace().map(str::to_owned);
    [values.next().unwrap(), values.next().unwrap()]
}

/// Finding A-8. At the level `info`, the default of users: the fields of a record that is not logged are not evaluated.
#[test]
fn a_daemon_that_logs_at_info_raises_its_limit_of_open_files_to_the_hard_limit() {
    let sandbox = talkative().build();
    // The limit belongs to the process, so a shell lowers its own and then execs the program.
    let mut start = process::background("/bin/sh", Path::new("/"));
    start.args(["-c", &format!("ulimit -S -n {LOW_SOFT_LIMIT}; exec \"$0\" \"$@\"")]).arg(sandbox.binary());
    start.args(["svc", "start"]);
    sandbox.dress(&mut start);
    sandbox.run(start).expect_success();
    let daemon = Daemon::of(sandbox);

    let [soft, hard] = open_files_limits(daemon.pid());
    assert_ne!(hard, LOW_SOFT_LIMIT, "only the soft limit was lowered");
    assert_eq!(soft, hard);
}
