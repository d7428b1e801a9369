//! Kill scenarios of the engine's mirror, with a fake engine that survives the daemon and records what it was asked to do.

use rdd_controllers::engine;
use rdd_docker::{
    fake::{FakeEngine, NewContainer},
    map::volume_name,
};
use rdd_runtime::Step as _;
use rdd_types::{CustomResourceExt, app::App};
use serde_json::{Value, json};

use crate::{
    Scenario,
    life::{Api, Life, object},
};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const APPS: &str = "/apis/app.rancherdesktop.io/v1alpha1/apps";
const APP: &str = "/apis/app.rancherdesktop.io/v1alpha1/apps/app";
const MIRRORS: &str = "/apis/containers.rancherdesktop.io/v1alpha1/namespaces/default";
const IMAGE: &str = "box:1";
/// The steps of every requested action.
const ACTING: &[&str] = &["claim", "act", "record", "unclaim"];

pub(crate) fn scenarios() -> Vec<Scenario> {
    let plain = || Scenario {
        controller: engine::NAME,
        controllers: Some("containers"),
        prepare: Some(prepare),
        live: live_mirrored,
        ..Scenario::PLAIN
    };
    let another = |name, nth| Scenario { name, nth, steps: ACTING, is_another: true, ..plain() };
    vec![
        // The first request starts a container that ends at once, so its state does not show whether the action was run.
        Scenario {
            name: "containers are mirrored, acted on, and removed from either side",
            steps: engine::plan::Step::ALL,
            ..plain()
        },
        another("the same, killed while a container is stopped for its spec", 2),
        another("the same, killed while a container is restarted", 4),
    ]
}

/// Creates the App and its CRD. The App controller does not run, so only the test reports whether the VM runs.
fn prepare(api: &Api) -> Result<(), String> {
    let definition = serde_json::to_value(App::crd()).map_err(|error| error.to_string())?;
    api.write("POST", DEFINITIONS, &definition, &[201, 409])?;
    let spec = json!({"namespace": "default", "running": true});
    api.write("POST", APPS, &object("app.rancherdesktop.io", "App", "app", &spec), &[201, 409])
}

/// Reports whether the VM runs, and waits for the mirror's condition.
fn say_running(life: &mut Life<'_>, status: &str, expected: &str) {
    let running = json!({"type": "Running", "status": status, "reason": "Told", "message": "The test says so",
                         "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1});
    life.merge(&format!("{APP}/status"), &json!({"status": {"conditions": [running]}}));
    life.until("the mirror to follow the machine", |api| {
        let app = api.get(APP)?;
        let conditions = app["status"]["conditions"].as_array().into_iter().flatten();
        let is_so = |one: &&Value| one["type"] == "ContainerEngineReady" && one["reason"] == expected;
        if conditions.into_iter().any(|one| is_so(&one)) { Ok(()) } else { Err(app["status"].to_string()) }
    });
}

fn until_container(life: &mut Life<'_>, id: &str, what: &str, is_so: impl Fn(&Value) -> bool) {
    life.until(what, |api| {
        let found = api.get(&format!("{MIRRORS}/containers/{id}"))?;
        if is_so(&found) { Ok(()) } else { Err(found.to_string()) }
    });
}

/// Requests an action, and returns its result once no request is left.
fn act(life: &mut Life<'_>, id: &str, action: &str) -> Value {
    let path = format!("{MIRRORS}/containers/{id}");
    life.merge(&path, &json!({"metadata": {"annotations": {"containers.rancherdesktop.io/action": action}}}));
    life.until(&format!("the end of a {action}"), |api| {
        let found = api.get(&path)?;
        let annotations = found["metadata"]["annotations"].as_object();
        let is_asked = annotations.is_some_and(|all| all.keys().any(|key| key.contains("/act")));
        let last = &found["status"]["lastAction"];
        if last["action"] == action && !is_asked { Ok(last.clone()) } else { Err(found.to_string()) }
    })
}

/// The number of events of this kind for a container.
fn happened(engine: &FakeEngine, id: &str, action: &str) -> usize {
    let events = engine.change(|world| world.events());
    events.iter().filter(|event| event.id == id && event.action == action).count()
}

/// Actions that are safe to repeat are still run once; others are run at most once, and the reported result is correct.
fn live_acted_on(life: &mut Life<'_>, engine: &FakeEngine, kept: &str) {
    let make = |new: NewContainer| engine.change(|world| world.create_container(new)).unwrap();
    let command = vec!["true".to_owned()];
    let job = make(NewContainer { command, ..NewContainer::sleeper("job", IMAGE) });
    let restarted = make(NewContainer::sleeper("restarted", IMAGE));
    for id in [&job, &restarted] {
        until_container(life, id, "its mirror", |found| !found["status"].is_null());
    }
    assert_eq!(act(life, &job, "start")["state"], "Succeeded");
    until_container(life, &job, "its end", |found| found["status"]["status"] == "exited");

    life.merge(&format!("{MIRRORS}/containers/{kept}"), &json!({"spec": {"state": "created"}}));
    until_container(life, kept, "its stop", |found| {
        let status = &found["status"];
        status["status"] == "exited" && status["observedGeneration"] == found["metadata"]["generation"]
    });
    assert_eq!(act(life, kept, "start")["state"], "Succeeded");
    until_container(life, kept, "its start", |found| found["status"]["status"] == "running");

    let last = act(life, &restarted, "restart");
    let is_told = last["error"].as_str().is_some_and(|error| error.starts_with("interrupted"));
    match last["state"].as_str() {
        Some("Succeeded") => assert_eq!(happened(engine, &restarted, "restart"), 1, "{last}"),
        _ => assert!(is_told && happened(engine, &restarted, "restart") <= 1, "{last}"),
    }
    assert!(is_told == (last["state"] == "Failed") && happened(engine, &restarted, "start") <= 1, "{last}");
    for id in [&job, &restarted] {
        life.delete(&format!("{MIRRORS}/containers/{id}"));
    }
    let times = (happened(engine, &job, "start"), happened(engine, kept, "start"), happened(engine, kept, "stop"));
    assert_eq!(times, (1, 2, 1), "each request is acted on once");
}

fn live_mirrored(life: &mut Life<'_>) {
    let engine = FakeEngine::start_with(&life.docker_socket(), 7).unwrap();
    let make = |name: &str| engine.change(|world| world.create_container(NewContainer::sleeper(name, IMAGE))).unwrap();
    engine.change(|world| world.import_image(Some(IMAGE), [].into())).unwrap();
    let (kept, lost, deleted) = (make("kept"), make("lost"), make("deleted"));
    engine.change(|world| world.start_container(&kept)).unwrap();
    engine.change(|world| world.create_volume("data", [].into(), [].into())).unwrap();
    say_running(life, "True", "Connected");
    life.mark("mirrored");
    live_acted_on(life, &engine, &kept);
    life.mark("acted on");

    engine.change(|world| world.remove_container(&lost, true, false)).unwrap();
    life.until("the end of a lost mirror", |api| api.is_gone(&format!("{MIRRORS}/containers/{lost}")));
    life.delete(&format!("{MIRRORS}/containers/{deleted}"));
    life.delete(&format!("{MIRRORS}/volumes/{}", volume_name("data")));
    life.mark("removed");
    let left = engine.change(|world| (world.containers().len(), world.volumes().len()));
    assert_eq!(left, (1, 0), "what was deleted here is gone there");

    say_running(life, "False", "Stopped");
    let times = (happened(&engine, &kept, "start"), happened(&engine, &kept, "stop"));
    assert_eq!(times, (2, 1), "nor is anything done again later");
    life.mark("stopped");
    life.delete(APP);
}
