//! Tests commands that wait while the daemon dies.

use std::{process::Stdio, time::Duration};

use rdd_stdx::process::Process;
use rdd_testkit::{Daemon, Sandbox, eventually};

use crate::life::SOON;

/// A daemon that dies before the App controller creates the LimaVM, and a command that waits for the App.
fn wait_for_an_app(timeout: &str) -> (Daemon, std::process::Child) {
    let sandbox = Sandbox::builder().env("RDD_LOG_LEVEL", "info").build();
    let mut start = sandbox.command(&["svc", "start"]);
    start.env("RDD_TEST_KILL_AT", "app/create-vm");
    sandbox.run(start).expect_success();
    let daemon = Daemon::of(sandbox);
    let process = Process::open(daemon.pid()).unwrap().unwrap();
    let mut set = daemon.command(&["set", "backend=host", "running=false", "--timeout", timeout]);
    let command = set.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    assert!(process.wait(SOON).unwrap(), "it dies");
    (daemon, command)
}

fn end(mut command: std::process::Child) -> (Option<i32>, String) {
    eventually("the end of the command", SOON, || command.try_wait().unwrap());
    let output = command.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_command_that_waits_goes_on_with_the_next_daemon() {
    let (daemon, command) = wait_for_an_app("60s");
    daemon.rdd(&["svc", "start"]).expect_success();
    let (code, said) = end(command);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("Settled=True"), "{said}");
}

#[test]
fn a_command_that_waits_for_a_daemon_that_stays_away_ends_at_its_time_limit() {
    let (_daemon, command) = wait_for_an_app("3s");
    let (code, said) = end(command);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("timed out waiting for App state"), "{said}");
}

/// Exit code 1, at once and with the reason, instead of a timeout.
#[test]
fn a_command_that_starts_a_daemon_which_dies_says_so() {
    let sandbox = Sandbox::new();
    let mut start = sandbox.command(&["svc", "start"]);
    start.env("RDD_TEST_KILL_AT", "manager/announce");
    let begun = std::time::Instant::now();
    let output = sandbox.run(start).expect_code(1);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(output.stderr.contains("dying as told"), "its last words are shown: {}", output.stderr);
}
