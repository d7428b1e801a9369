//! Tests the wait for Settled: what it prints, and which interruptions it survives.

use std::time::Duration;

use rdd_stdx::process::{Process, Signal};

use crate::support::{APP, Manner, Product, messages_of};

const STARTING: &str = "Running=False: Lima instance is starting (Starting)";

// Finding O-10: a timeout has the code 4 in every phase.
#[test]
fn a_deadline_has_its_code_before_during_and_after_the_first_look() {
    let product = Product::start(Manner::Idle);
    for (manner, timeout, said) in [
        (Manner::Idle, "1ns", "no condition of the change has been reported yet"),
        (Manner::Idle, "300ms", "no condition of the change has been reported yet"),
        (Manner::Dawdle, "2s", STARTING),
        (Manner::Fail, "2s", "Settled=False: no such kernel (StartFailed)"),
    ] {
        product.manner(manner);
        let output = product.rdd(&["set", "running=true", "--timeout", timeout]);
        assert_eq!(output.code, Some(4), "{manner:?}: {}", output.stderr);
        let last = messages_of(&output.stderr).pop().unwrap();
        assert_eq!(last, format!("timed out waiting for App state: {said}: context deadline exceeded"));
        assert!(output.stderr.contains("level=error") && !output.stderr.contains("level=fatal"), "{}", output.stderr);
    }
    assert_eq!(product.app().unwrap()["spec"]["running"], true, "the change is stored all the same");
}

#[test]
fn each_change_of_a_condition_is_told_once() {
    let product = Product::start(Manner::Dawdle);
    let command = product.spawn(&["start"]);
    command.until_it_says(STARTING);
    product.manner(Manner::Fail);
    command.until_it_says("Running=False: no such kernel (StartFailed)");
    product.manner(Manner::Settle);
    let (code, messages) = command.end();
    assert_eq!(code, Some(0));
    let expected = [
        "App created",
        "Waiting for App to settle",
        STARTING,
        "Settled=False: LimaVM has not yet reached Started (Starting)",
        "Running=False: no such kernel (StartFailed)",
        "Settled=False: no such kernel (StartFailed)",
        "Running=True: Lima instance is running (Started)",
        "Settled=True: App has reached the desired state (Settled)",
    ];
    assert_eq!(messages, expected);
}

#[test]
fn the_wait_survives_a_restart_of_the_daemon() {
    let product = Product::start(Manner::Dawdle);
    let command = product.spawn(&["start"]);
    command.until_it_says(STARTING);
    let config = || std::fs::read_to_string(product.rdd(&["svc", "paths", "config"]).stdout.trim()).unwrap();
    let before = config();
    product.rdd(&["svc", "stop"]).expect_success();
    product.rdd(&["svc", "start"]).expect_success();
    assert_ne!(config(), before, "its credentials are new");
    product.manner(Manner::Settle);
    let (code, messages) = command.end();
    assert_eq!(code, Some(0), "{messages:?}");
    assert_eq!(messages.last().unwrap(), "Settled=True: App has reached the desired state (Settled)");
    assert_eq!(
        messages.iter().filter(|message| *message == STARTING).count(),
        1,
        "nothing is told twice: {messages:?}"
    );
}

#[test]
fn the_wait_survives_a_daemon_that_is_killed() {
    let product = Product::start(Manner::Dawdle);
    let command = product.spawn(&["start"]);
    command.until_it_says(STARTING);
    let pid = std::fs::read_to_string(product.rdd(&["svc", "paths", "pid_file"]).stdout.trim()).unwrap();
    let daemon = Process::open(pid.trim().parse().unwrap()).unwrap().unwrap();
    daemon.signal(Signal::KILL).unwrap();
    assert!(daemon.wait(Duration::from_secs(10)).unwrap());
    product.rdd(&["svc", "start"]).expect_success();
    product.manner(Manner::Settle);
    assert_eq!(command.end().0, Some(0));
}

#[test]
fn an_app_that_is_deleted_meanwhile_will_not_settle() {
    let product = Product::start(Manner::Dawdle);
    let command = product.spawn(&["start"]);
    command.until_it_says(STARTING);
    product.api().call("DELETE", APP, None).unwrap();
    let (code, messages) = command.end();
    assert_eq!((code, messages.last().unwrap().as_str()), (Some(1), "App was deleted while waiting for it to settle"));
}

#[test]
fn ctrl_c_ends_the_wait_and_the_change_stays() {
    let product = Product::start(Manner::Dawdle);
    let command = product.spawn(&["start"]);
    command.until_it_says(STARTING);
    Process::open(command.child.id()).unwrap().unwrap().signal(Signal::INT).unwrap();
    command.until_it_says("goes on without this command");
    let (code, messages) = command.end();
    assert_eq!((code, messages.last().unwrap().as_str()), (Some(130), "stopped waiting for App to settle"));
    assert_eq!(product.app().unwrap()["spec"]["running"], true);
}
