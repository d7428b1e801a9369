//! Compares hundreds of replies with those that kube-apiserver gave to the same requests.

use std::time::Duration;

use rdd_testkit::{Daemon, capability::require};

use crate::support::{address, build_go, command, judge};

#[test]
fn raw_requests_are_answered_as_kube_apiserver_answers_them() {
    if !require("go") {
        return;
    }
    let mirror = build_go(".", "./mirror", "mirror");
    let daemon = Daemon::start();
    let address = address(&daemon);
    let mut ask = command(mirror, "mirror");
    ask.args(["-server", &address.server, "-ca"]).arg(&address.authority);
    ask.env("MIRROR_TOKEN", &address.admin_token).env("MIRROR_USER_TOKEN", &address.user_token);
    judge(ask, Duration::from_secs(300));
}
