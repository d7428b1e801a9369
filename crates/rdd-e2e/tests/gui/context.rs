//! Tests the Docker context of an instance, from its first start to its end.

use std::fs;

use rdd_stdx::process::{Process, Signal};
use rdd_testkit::{Sandbox, capability::require, eventually};
use serde_json::Value;

use crate::client::SOON;

const THEIRS: &str =
    "{\r\n  \"detachKeys\" : \"ctrl-x\",\r\n  \"currentContext\": \"gone\",\r\n  \"unknown\": {\"a\":[1,  2]}\r\n}";

struct Case {
    sandbox: Sandbox,
}

impl Case {
    /// A running engine, and a user whose current context is broken.
    fn new() -> Option<Self> {
        if !(require("own-engine") && require("docker")) {
            return None;
        }
        let case = Self { sandbox: Sandbox::new() };
        fs::create_dir(case.sandbox.home().join(".docker")).unwrap();
        case.write(THEIRS);
        case.sandbox.rdd(&["set", "backend=host", "running=true"]).expect_success();
        Some(case)
    }

    fn name(&self) -> String {
        format!("rancher-desktop-{}", self.sandbox.instance())
    }

    fn write(&self, text: &str) {
        fs::write(self.sandbox.home().join(".docker/config.json"), text).unwrap();
    }

    fn text(&self) -> String {
        fs::read_to_string(self.sandbox.home().join(".docker/config.json")).unwrap_or_default()
    }

    fn contexts(&self) -> usize {
        fs::read_dir(self.sandbox.home().join(".docker/contexts/meta")).map_or(0, Iterator::count)
    }

    #[track_caller]
    fn until_switched(&self) {
        let expected = THEIRS.replace("gone", &self.name());
        eventually("the switch", SOON, || if self.text() == expected { Ok(()) } else { Err(self.text()) });
        eventually("the context", SOON, || (self.contexts() == 1).then_some(()));
    }

    /// Expects that nothing of the instance is left, and everything of the user.
    #[track_caller]
    fn is_as_before(&self) {
        let expected = THEIRS.replace("\r\n  \"currentContext\": \"gone\",", "");
        assert_eq!((self.text(), self.contexts()), (expected, 0));
    }
}

// Finding O-6
#[test]
fn it_comes_with_the_engine_and_goes_with_a_stop_an_engine_of_another_kind_the_app_and_the_daemon() {
    let Some(case) = Case::new() else { return };
    case.until_switched();
    let info = case.sandbox.rdd(&["run", "docker", "info", "--format", "{{.ServerVersion}}"]).expect_success();
    assert!(!info.stdout.trim().is_empty());
    let endings: [&[&[&str]]; 4] =
        [&[&["stop"]], &[&["set", "containerEngine.name=containerd"]], &[&["delete", "--yes"]], &[&["svc", "stop"]]];
    for ending in endings {
        for command in ending {
            case.sandbox.rdd(command).expect_success();
        }
        eventually("its end", SOON, || if case.contexts() == 0 { Ok(()) } else { Err(case.text()) });
        case.is_as_before();
        case.write(THEIRS);
        case.sandbox.rdd(&["set", "containerEngine.name=moby", "running=true"]).expect_success();
        case.until_switched();
    }
    case.sandbox.rdd(&["svc", "delete"]).expect_success();
    case.is_as_before();
}

#[test]
fn what_a_killed_daemon_left_goes_with_the_next_stop_or_with_the_instance() {
    let Some(case) = Case::new() else { return };
    case.until_switched();
    let kill = || {
        let pid_file = case.sandbox.rdd(&["svc", "paths", "pid_file"]).expect_success().stdout;
        let pid = fs::read_to_string(pid_file.trim()).unwrap().trim().parse().unwrap();
        let daemon = Process::open(pid).unwrap().unwrap();
        daemon.signal(Signal::KILL).unwrap();
        assert!(daemon.wait(SOON).unwrap());
    };
    kill();
    assert_eq!(case.contexts(), 1, "nobody was there to remove it");
    case.sandbox.rdd(&["stop"]).expect_success();
    case.is_as_before();
    case.write(THEIRS);
    case.sandbox.rdd(&["start"]).expect_success();
    case.until_switched();
    kill();
    case.sandbox.rdd(&["svc", "delete"]).expect_success();
    case.is_as_before();
}

#[test]
fn a_daemon_that_was_told_where_docker_goes_switches_nothing() {
    if !(require("own-engine") && require("docker")) {
        return;
    }
    let sandbox = Sandbox::builder().env("DOCKER_HOST", "unix:///nowhere").build();
    fs::create_dir(sandbox.home().join(".docker")).unwrap();
    let config = sandbox.home().join(".docker/config.json");
    fs::write(&config, THEIRS).unwrap();
    sandbox.rdd(&["set", "backend=host", "running=true"]).expect_success();
    let said = || sandbox.rdd(&["svc", "log"]).expect_success().stdout;
    eventually("a word on it", SOON, || {
        let log = said();
        if log.contains("a variable says where docker goes") { Ok(()) } else { Err(log) }
    });
    assert_eq!(fs::read_to_string(&config).unwrap(), THEIRS);
    let run = sandbox.rdd(&["run", "sh", "-c", "docker info -f '{{json .Name}}' && echo \"${DOCKER_HOST-none}\""]);
    let stdout = run.expect_success().stdout;
    let (name, host) = stdout.trim().split_once('\n').unwrap();
    assert!(serde_json::from_str::<Value>(name).unwrap().is_string() && host == "none", "{stdout}");
}
