//! Kill scenarios of the App controller, from the App's namespace to its LimaVM and back.

use rdd_controllers::app;
use serde_json::{Value, json};

use crate::{
    Scenario,
    life::{Life, object, says},
    remains,
};

const APPS: &str = "/apis/app.rancherdesktop.io/v1alpha1/apps";
const APP: &str = "/apis/app.rancherdesktop.io/v1alpha1/apps/app";
const NAMESPACE: &str = "/api/v1/namespaces/desk";

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "an App starts and stops",
            controller: app::NAME,
            steps: &["start-vm", "stop-vm"],
            needs_engine: true,
            machine: Some("rd"),
            live: live_running,
            ..Scenario::PLAIN
        },
        Scenario {
            name: "an App is made, changed and deleted, and never runs",
            controller: app::NAME,
            steps: &[
                "ensure-finalizer",
                "create-namespace",
                "apply-input",
                "create-vm",
                "delete-input",
                "patch-template",
                "write-status",
                "release-vm",
                "delete-vm",
                "sweep",
                "delete-namespace",
                "release",
            ],
            machine: Some("rd"),
            live: live_stopped,
            ..Scenario::PLAIN
        },
    ]
}

fn make(life: &mut Life<'_>, engine: &str) {
    let engine = json!({ "name": engine });
    let spec = json!({"running": false, "backend": "host", "namespace": "desk", "containerEngine": engine});
    life.make(APPS, &object("app.rancherdesktop.io", "App", "app", &spec));
    settle(life);
}

fn set(life: &mut Life<'_>, spec: &Value) {
    life.merge(APP, &json!({ "spec": spec }));
    settle(life);
}

/// Waits until the App has settled at its newest generation.
fn settle(life: &mut Life<'_>) {
    life.until("the App to settle", |api| says(&api.get(APP)?, "Settled", "True"));
}

/// Deletes the App with everything that belongs to it.
fn delete(life: &mut Life<'_>) {
    life.delete(APP);
    life.until("the end of its namespace", |api| api.is_gone(NAMESPACE));
}

fn live_stopped(life: &mut Life<'_>) {
    make(life, "moby");
    life.mark("made");
    set(life, &json!({"containerEngine": {"name": "containerd"}}));
    let template = life.until("its template", |api| api.get(&format!("{NAMESPACE}/configmaps/rd-template")));
    assert!(template["data"]["template"].as_str().is_some_and(|text| text.contains("containerd")), "{template}");
    life.mark("changed");
    delete(life);
}

fn live_running(life: &mut Life<'_>) {
    make(life, "containerd");
    set(life, &json!({"running": true}));
    life.mark("running");
    assert_eq!(remains::programs(&life.engine()), ["containerd"]);
    set(life, &json!({"running": false}));
    life.mark("stopped");
    assert_eq!(remains::programs(&life.engine()), [""; 0]);
    delete(life);
}
