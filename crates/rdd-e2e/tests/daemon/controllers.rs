//! Tests controllers in the daemon and in other processes: ready means usable, and a killed manager is replaced.

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

use crate::support::SOON;

const MANAGERS: &str = "/api/v1/namespaces/rdd-system/configmaps/rdd-controller-manager";
const NOTARIES: &str = "/apis/rdd.rancherdesktop.io/v1alpha1/namespaces/default/notaries";
const MAP: &str = "/api/v1/namespaces/default/configmaps/history";

fn notary(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "rdd.rancherdesktop.io/v1alpha1", "kind": "Notary", "metadata": {"name": name},
        "spec": {"configMapName": "history", "value": value},
    })
}

/// The entry of a manager in the discovery ConfigMap.
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

/// A program that runs controllers in its own process.
struct External(Child);

impl External {
    fn command(sandbox: &Sandbox, name: &str) -> Command {
        let program = sandbox.home().join(name);
        if !program.exists() {
            symlink(sandbox.binary(), &program).unwrap();
        }
        let mut command = background(&program, std::path::Path::new("/"));
        sandbox.dress(&mut command);
        // This PATH has no `rdd`: the program finds it next to the link's target.
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

    // A second one has no controllers left to run, and neither have those whose controllers the daemon runs.
    for name in ["rdd-controller", "app-controller", "containers-controller"] {
        let output = daemon.run(External::command(&daemon, name));
        assert_eq!(output.code, Some(0), "{name}: {}", output.stderr);
    }

    // Killed: writes that its webhook validates fail, and the error explains why.
    Process::open(first.0.id()).unwrap().unwrap().signal(Signal::KILL).unwrap();
    eventually("its end", SOON, || first.ended());
    let closed = api.post(NOTARIES, &notary("two", "2"));
    assert_eq!(closed.code, 500, "{closed:?}");
    assert!(closed.text().contains("failed calling webhook \\\"notary.rdd.rancherdesktop.io\\\""), "{closed:?}");
    let mut second = External::start(&daemon, "rdd-controller");
    eventually("recovery", SOON, || (api.post(NOTARIES, &notary("two", "2")).code == 201).then_some(()));

    // The daemon restarts with other credentials.
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

const CONFIGURATION: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/notary-validator";

fn manager_of(api: &Wire, configuration: &str) -> Option<String> {
    let found = api.get(configuration);
    Some(found.json()["metadata"]["labels"]["rdd.rancherdesktop.io/manager"].as_str()?.to_owned())
}

#[test]
fn what_is_deleted_by_hand_comes_back_while_the_daemon_runs() {
    let daemon = Daemon::start();
    let api = Wire::of(&daemon);
    let before = api.get(CONFIGURATION).expect(200);
    api.delete(CONFIGURATION).expect(200);
    api.delete(MANAGERS).expect(200);
    eventually("the configuration", SOON, || {
        let found = api.get(CONFIGURATION);
        (found.code == 200 && found.json()["webhooks"] == before["webhooks"]).then_some(())
    });
    eventually("the list of managers", SOON, || entry(&api, "embedded"));
    let map = api.get(MANAGERS).expect(200);
    assert_eq!(map["metadata"]["annotations"]["rdd.rancherdesktop.io/ready"], "true");
    assert_eq!(api.post(NOTARIES, &notary("bad", "invalid")).code, 403);
    daemon.rdd(&["svc", "start", "--timeout=20s"]).expect_success();
}

#[test]
fn webhooks_of_a_manager_that_is_gone_for_good_go_and_the_daemon_takes_over_those_of_what_it_runs() {
    let sandbox = Sandbox::new();
    start_with(&sandbox, "*,-rdd");
    let daemon = Daemon::start_in(sandbox);
    let api = Wire::of(&daemon);
    let guarded = || (api.post(NOTARIES, &notary("bad", "invalid")).code == 403).then_some(());
    let mut first = External::start(&daemon, "rdd-controller");
    eventually("the webhook", SOON, guarded);
    assert_eq!(manager_of(&api, CONFIGURATION).as_deref(), Some("rdd"));

    // It stops. It might return at once, so writes fail closed; it does not, so after a while they succeed.
    Process::open(first.0.id()).unwrap().unwrap().signal(Signal::TERM).unwrap();
    eventually("its end", SOON, || first.ended());
    let closed = api.post(NOTARIES, &notary("one", "1"));
    assert_eq!(closed.code, 500, "{closed:?}");
    assert!(closed.text().contains("notary.rdd.rancherdesktop.io"), "{closed:?}");
    eventually("writes without it", SOON, || (api.post(NOTARIES, &notary("one", "1")).code == 201).then_some(()));
    assert_eq!(api.get(CONFIGURATION).code, 404);

    // Another one is killed, and the daemon restarts with its controllers: the webhook works at once.
    let mut second = External::start(&daemon, "rdd-controller");
    eventually("the webhook", SOON, guarded);
    Process::open(second.0.id()).unwrap().unwrap().signal(Signal::KILL).unwrap();
    eventually("its end", SOON, || second.ended());
    let sandbox = daemon.stop();
    start_with(&sandbox, "*");
    let daemon = Daemon::start_in(sandbox);
    let api = Wire::of(&daemon);
    assert_eq!(manager_of(&api, CONFIGURATION).as_deref(), Some("embedded"));
    assert_eq!(api.post(NOTARIES, &notary("bad", "invalid")).code, 403);
    api.post(NOTARIES, &notary("two", "2")).expect(201);

    // The same again, but the daemon runs without these controllers: no process serves the webhook.
    let sandbox = daemon.stop();
    start_with(&sandbox, "*,-rdd");
    let daemon = Daemon::start_in(sandbox);
    let api = Wire::of(&daemon);
    assert_eq!(api.get(CONFIGURATION).code, 404, "the daemon's own earlier webhooks go at its start");
    api.post(NOTARIES, &notary("three", "3")).expect(201);
}

#[test]
fn controllers_that_cannot_start_say_why_everywhere_and_start_when_they_can() {
    let sandbox = Sandbox::new();
    start_with(&sandbox, "");
    let daemon = Daemon::start_in(sandbox);
    // A CRD of the same name that cannot be updated to ours, since its scope cannot change.
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let theirs = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "notaries.rdd.rancherdesktop.io"},
        "spec": {
            "group": "rdd.rancherdesktop.io", "scope": "Cluster",
            "names": {"plural": "notaries", "singular": "notary", "kind": "Notary", "listKind": "NotaryList"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    Wire::of(&daemon).post(definitions, &theirs).expect(201);
    daemon.rdd(&["svc", "stop"]).expect_success();
    let failed = daemon.rdd(&["svc", "start", "--timeout=5s"]);
    assert_eq!(failed.code, Some(4), "{}", failed.stderr);
    let why = "start the controllers: install the definition notaries.rdd.rancherdesktop.io";
    assert!(failed.stderr.matches(why).count() >= 2, "at once and at the end: {}", failed.stderr);
    assert!(failed.stderr.contains("immutable"), "{}", failed.stderr);

    let api = Wire::of(&daemon);
    let status = daemon.rdd(&["status"]);
    assert_eq!(status.code, Some(2), "{}", status.stderr);
    assert!(status.stdout.contains(why), "{}", status.stdout);
    let told = api.get(MANAGERS).expect(200);
    let problem =
        told["metadata"]["annotations"]["rdd.rancherdesktop.io/problem"].as_str().unwrap_or_default().to_owned();
    assert!(problem.starts_with(why), "{told}");

    // A user can still repair it: commands that need only the API are not blocked.
    let helped = daemon.rdd(&["ctl", "delete", "crd", "notaries.rdd.rancherdesktop.io"]).expect_success();
    assert!(helped.stderr.contains(why), "{}", helped.stderr);
    daemon.rdd(&["svc", "start", "--timeout=60s"]).expect_success();
    let told = api.get(MANAGERS).expect(200);
    assert!(told["metadata"]["annotations"]["rdd.rancherdesktop.io/problem"].is_null(), "{told}");
    api.post(NOTARIES, &notary("one", "1")).expect(201);
}
