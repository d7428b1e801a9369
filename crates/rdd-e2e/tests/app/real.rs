//! The whole chain, with the product's own controllers and a container engine of this machine.

use std::path::Path;

use rdd_stdx::process::background;
use rdd_testkit::{Sandbox, capability::require};
use serde_json::Value;

use crate::support::{messages_of, talkative};

fn status(sandbox: &Sandbox) -> (Option<i32>, Value) {
    let output = sandbox.rdd(&["status", "-o", "json"]);
    (output.code, serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}")))
}

fn state<'r>(report: &'r Value, id: &str) -> &'r str {
    fn find<'n>(node: &'n Value, id: &str) -> Option<&'n Value> {
        let below = || node["children"].as_array()?.iter().find_map(|child| find(child, id));
        if node["id"] == id { Some(node) } else { below() }
    }
    find(&report["tree"], id).unwrap_or_else(|| panic!("{id} in {report}"))["state"].as_str().unwrap()
}

fn engines(sandbox: &Sandbox) -> usize {
    let is_engine = |line: &str| line.contains("dockerd") || line.contains("containerd");
    sandbox.processes().iter().filter(|process| !process.is_zombie() && is_engine(&format!("{process:?}"))).count()
}

#[test]
fn from_nothing_to_containers_and_back() {
    if !require("own-engine") {
        return;
    }
    let sandbox = talkative().build();
    let output = sandbox.rdd(&["set", "backend=host", "running=true"]).expect_success();
    let messages = messages_of(&output.stderr);
    assert_eq!(messages.last().unwrap(), "Settled=True: App has reached the desired state (Settled)");
    let (code, report) = status(&sandbox);
    assert_eq!((code, &report["ready"]), (Some(0), &true.into()), "{report}");
    assert_eq!((state(&report, "machine"), state(&report, "engine")), ("ready", "ready"));
    sandbox.rdd(&["status", "--wait-for=engine", "--timeout=1s"]).expect_success();
    assert!(engines(&sandbox) > 0);

    sandbox.rdd(&["set", "containerEngine.name=containerd"]).expect_success();
    assert_eq!(status(&sandbox).0, Some(0));

    let output = sandbox.rdd(&["reset", "--yes"]).expect_success();
    assert_eq!(messages_of(&output.stderr).last().unwrap(), "App has been reset");
    assert_eq!(status(&sandbox).0, Some(0), "a new machine, as wanted");

    sandbox.rdd(&["stop"]).expect_success();
    let (code, report) = status(&sandbox);
    assert_eq!((code, state(&report, "machine"), &report["settled"]), (Some(2), "off", &true.into()), "{report}");
    assert_eq!(engines(&sandbox), 0);

    sandbox.rdd(&["delete", "--yes"]).expect_success();
    assert_eq!(state(&status(&sandbox).1, "app"), "off");
    sandbox.rdd(&["svc", "delete"]).expect_success();
}

#[test]
fn deleting_the_service_removes_an_engine_that_a_killed_daemon_left() {
    if !require("own-engine") {
        return;
    }
    let sandbox = talkative().build();
    sandbox.rdd(&["set", "backend=host", "running=true"]).expect_success();
    let daemon = sandbox.processes().into_iter().find(|process| process.name == "rdd").expect("a daemon");
    let killed = background("kill", Path::new("/")).args(["-KILL", &daemon.pid.to_string()]).status().unwrap();
    assert!(killed.success());
    assert!(engines(&sandbox) > 0, "it goes on without the daemon");
    sandbox.rdd(&["svc", "delete"]).expect_success();
    assert_eq!(engines(&sandbox), 0);
    let short = sandbox.rdd(&["svc", "paths", "short_dir"]).expect_success().stdout;
    assert!(!Path::new(short.trim()).exists(), "{short}");
}
