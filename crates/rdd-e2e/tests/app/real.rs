//! Tests the whole product, with its own controllers and a container engine of this machine.

use std::{fs, path::Path};

use rdd_docker::fake::FakeEngine;
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

fn machine(sandbox: &Sandbox) -> Value {
    let output = sandbox.rdd(&["ctl", "get", "limavm", "x", "-o", "json"]).expect_success();
    serde_json::from_str(&output.stdout).unwrap()
}

// Finding A-13
#[test]
fn values_of_a_machine_are_changed_and_a_reset_makes_it_anew() {
    let sandbox = talkative().build();
    let socket = sandbox.home().join("engine.sock");
    // The VM uses an existing engine, so only files and a link are created.
    let _engine = FakeEngine::start(&socket).unwrap();
    let file = sandbox.home().join("x.yaml");
    fs::write(&file, format!("vmType: host\nparam:\n  HOST_ENGINE_SOCKET: {}\n", socket.display())).unwrap();
    sandbox.rdd(&["limavm", "create", "x", file.to_str().unwrap(), "--start"]).expect_success();
    let lima_home = sandbox.rdd(&["svc", "paths", "lima_home"]).expect_success().stdout;
    let folder = Path::new(lima_home.trim()).join("x");
    let values = || sandbox.rdd(&["limavm", "params", "x"]).expect_success().stdout;
    let in_effect = || fs::read_to_string(folder.join("lima.yaml")).unwrap();

    assert_eq!(values(), "");
    let starts = machine(&sandbox)["status"]["restartCount"].as_i64().unwrap_or_default();
    sandbox.rdd(&["limavm", "params", "x", "CITY=Oslo", "COLOUR=red"]).expect_success();
    assert_eq!(values(), "CITY=Oslo\nCOLOUR=red\n");
    assert!(in_effect().contains("Oslo"), "{}", in_effect());
    let vm = machine(&sandbox);
    assert!(vm["status"]["restartCount"].as_i64() > Some(starts), "it was started with them: {vm}");
    sandbox.rdd(&["limavm", "params", "x", "COLOUR-"]).expect_success();
    assert_eq!(values(), "CITY=Oslo\n");
    assert!(!in_effect().contains("COLOUR"), "{}", in_effect());
    let refused = sandbox.rdd(&["limavm", "params", "x", "CITY"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("use NAME=VALUE to set a parameter"), "{}", refused.stderr);
    assert_eq!(values(), "CITY=Oslo\n", "what was refused changed nothing");

    fs::write(folder.join("left"), "").unwrap();
    let unasked = sandbox.rdd(&["limavm", "reset", "x"]);
    assert_ne!(unasked.code, Some(0), "nobody said yes: {}", unasked.stderr);
    assert!(folder.join("left").exists());
    let output = sandbox.rdd(&["limavm", "reset", "x", "--yes"]).expect_success();
    let messages = messages_of(&output.stderr);
    assert_eq!(messages.last().unwrap(), "LimaVM \"x\" reset in namespace \"default\"");
    assert!(!folder.join("left").exists(), "the folder is another one");
    assert!(in_effect().contains("Oslo"), "and its values are the same: {}", in_effect());
    let vm = machine(&sandbox);
    let conditions = vm["status"]["conditions"].as_array().unwrap();
    let runs = conditions.iter().any(|found| found["type"] == "Running" && found["status"] == "True");
    assert!(runs, "{vm}");
    let annotations = &vm["metadata"]["annotations"];
    assert!(annotations["lima.rancherdesktop.io/resetRequested"].is_null(), "{annotations}");
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
