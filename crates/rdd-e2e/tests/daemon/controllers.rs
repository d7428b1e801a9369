//! Controllers in the daemon and beside it: ready means usable, and whoever dies is replaced.

use std::{
    os::unix::fs::symlink,
    process::{Child, Command},
    time::Duration,
};

use rdd_stdx::process::{Process, Signal, background};
use rdd_testkit::{
    Daemon, Sandbox,
    api::{Server, Wire},
    eventually,
};
use serde_json::{Value, json};

use crate::support::{SOON, stderr_log};

const MANAGERS: &str = "/api/v1/namespaces/rdd-system/configmaps/rdd-controller-manager";
const NOTARIES: &str = "/apis/rdd.rancherdesktop.io/v1alpha1/namespaces/default/notaries";
const MAP: &str = "/api/v1/namespaces/default/configmaps/history";

fn notary(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "rdd.rancherdesktop.io/v1alpha1", "kind": "Notary", "metadata": {"name": name},
        "spec": {"configMapName": "history", "value": value},
    })
}

/// A manager's entry.
fn entry(api: &Wire, manager: &str) -> Option<Value> {
    let map = api.try_ask(&rdd_testkit::api::Ask::new("GET", MANAGERS)).ok()?;
    serde_json::from_str(map.json()["data"][manager].as_str()?).ok()
}

fn start_with(sandbox: &Sandbox, controllers: &str) {
    sandbox.rdd(&["svc", "start", "--controllers", controllers]).expect_success();
}

/// Finding O-1
#[test]
fn when_start_returns_every_kind_can_be_written_and_is_guarded() {
    let daemon = Daemon::start();
    let api = Wire::of(&daemon);
    let map = api.get(MANAGERS).expect(200);
    assert_eq!(map["metadata"]["annotations"]["rdd.rancherdesktop.io/ready"], "true");
    let refused = api.post(NOTARIES, &notary("bad", "invalid"));
    assert!(
        refused.text().contains("admission webhook \\\"notary.rdd.rancherdesktop.io\\\" denied the request"),
        "{refused:?}"
    );
    api.post(NOTARIES, &notary("good", "1")).expect(201);
    eventually("the record", SOON, || (api.get(MAP).code == 200).then_some(()));
    // Finding O-8
    let entry = entry(&api, "embedded").unwrap();
    let metrics = entry["metricsEndpoint"].as_str().unwrap();
    assert!(metrics.starts_with("https://127.0.0.1:") && metrics.ends_with("/metrics"), "{metrics}");
    eventually("its figures", SOON, || {
        let figures = api.get("/metrics").text().into_owned();
        figures.contains("controller_runtime_reconcile_total{controller=\"notary\"").then_some(()).ok_or(figures)
    });
    assert!(api.get("/passthrough/demo/hello/rest").text().contains("Path = \"/rest\""));
}

#[test]
fn without_controllers_there_is_a_list_of_managers_all_the_same() {
    let sandbox = Sandbox::new();
    start_with(&sandbox, "");
    let daemon = Daemon::start_in(sandbox);
    let api = Wire::of(&daemon);
    let entry = entry(&api, "embedded").unwrap();
    assert!(entry["enabledControllers"].is_null(), "{entry}");
    assert_eq!(api.get("/apis/rdd.rancherdesktop.io").code, 404, "no kinds of ours");
}

/// A program that runs controllers in a process of its own.
struct External(Child);

impl External {
    fn command(sandbox: &Sandbox, name: &str) -> Command {
        let program = sandbox.home().join(name);
        if !program.exists() {
            symlink(sandbox.binary(), &program).unwrap();
        }
        let mut command = background(&program, std::path::Path::new("/"));
        sandbox.dress(&mut command);
        // No `rdd` is on this PATH: it is found beside the program that the link names.
        command.env("PATH", "/nonexistent");
        command
    }

    fn start(sandbox: &Sandbox, name: &str) -> Self {
        Self(Self::command(sandbox, name).spawn().unwrap())
    }

    fn ended(&mut self) -> Option<Option<i32>> {
        self.0.try_wait().unwrap().map(|status| status.code())
    }
}

impl Drop for External {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_manager_beside_the_daemon_works_fails_closed_comes_back_reconnects_and_goes_with_it() {
    let sandbox = Sandbox::new();
    start_with(&sandbox, "*,-rdd");
    let registered = |api: &Wire| {
        eventually("the registration", SOON, || {
            entry(api, "rdd").filter(|entry| entry["enabledControllers"].as_array().is_some_and(|all| all.len() == 3))
        })
    };
    let daemon = Daemon::start_in(sandbox);
    let api = Wire::of(&daemon);
    let mut first = External::start(&daemon, "rdd-controller");
    registered(&api);
    eventually("the webhook", SOON, || (api.post(NOTARIES, &notary("bad", "invalid")).code == 403).then_some(()));
    api.post(NOTARIES, &notary("one", "1")).expect(201);
    eventually("the record", SOON, || (api.get(MAP).code == 200).then_some(()));

    // A second one finds nothing to do; neither do those whose controllers the daemon runs.
    for name in ["rdd-controller", "app-controller", "containers-controller"] {
        let output = daemon.run(External::command(&daemon, name));
        assert_eq!(output.code, Some(0), "{name}: {}", output.stderr);
    }

    // Gone without a word: what it judged cannot be written, and the answer says why.
    Process::open(first.0.id()).unwrap().unwrap().signal(Signal::KILL).unwrap();
    eventually("its end", SOON, || first.ended());
    let closed = api.post(NOTARIES, &notary("two", "2"));
    assert_eq!(closed.code, 500, "{closed:?}");
    assert!(closed.text().contains("failed calling webhook \\\"notary.rdd.rancherdesktop.io\\\""), "{closed:?}");
    let mut second = External::start(&daemon, "rdd-controller");
    eventually("recovery", SOON, || (api.post(NOTARIES, &notary("two", "2")).code == 201).then_some(()));

    // The daemon starts anew, with other credentials.
    let sandbox = daemon.stop();
    start_with(&sandbox, "*,-rdd");
    let daemon = Daemon::start_in(sandbox);
    let api = Wire::of(&daemon);
    let entry = registered(&api);
    assert_eq!(second.ended(), None, "the same process goes on: {entry}");
    eventually("its webhook", SOON, || (api.post(NOTARIES, &notary("three", "3")).code == 201).then_some(()));

    let _sandbox = daemon.stop();
    assert_eq!(eventually("its end", Duration::from_secs(30), || second.ended()), Some(0));
}

#[test]
fn a_daemon_that_died_in_the_middle_of_a_plan_goes_on_with_it() {
    for point in ["notary/ensure-finalizer:after", "notary/record", "notary/record:after", "notary/report"] {
        let sandbox = Sandbox::new();
        let mut start = sandbox.command(&["svc", "start"]);
        start.env("RDD_TEST_KILL_AT", point);
        sandbox.run(start).expect_success();
        let daemon = Daemon::start_in(sandbox);
        let api = Wire::of(&daemon);
        let pid = daemon.pid();
        api.post(NOTARIES, &notary("one", "1")).expect(201);
        // Whoever has to reap it may take their time.
        let lives = || daemon.processes().iter().any(|process| process.pid == pid && !process.is_zombie());
        eventually("its death", SOON, || (!lives()).then_some(()));
        let daemon = Daemon::start_in(daemon.release());
        let api = Wire::of(&daemon);
        eventually(point, SOON, || {
            let count = api.get(&format!("{NOTARIES}/one")).json()["status"]["changeCount"].as_i64();
            (count == Some(1)).then_some(()).ok_or_else(|| format!("{count:?}; see {}", stderr_log(&daemon).display()))
        });
    }
}
