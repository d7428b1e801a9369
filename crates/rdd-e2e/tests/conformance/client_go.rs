//! Tests with client-go, the library of most Kubernetes controllers.

use std::time::Duration;

use rdd_testkit::{Daemon, capability::require};

use crate::support::{build_go, command, judge};

#[track_caller]
fn make_all_checks(arguments: &[&str]) {
    if !require("go") {
        return;
    }
    let program = build_go("client-go", ".", "client-go");
    let daemon = Daemon::start();
    let mut check = command(program, "client-go");
    check.args(arguments).arg("-kubeconfig").arg(daemon.config_path());
    judge(check, Duration::from_secs(180));
}

#[test]
fn informers_clients_and_elections_of_client_go_work() {
    make_all_checks(&[]);
}

#[test]
fn they_work_over_protobuf_too() {
    make_all_checks(&["-protobuf"]);
}
