//! Tests the App's settings, and the host information and Kubernetes versions that the preferences dialog shows.

use rdd_testkit::api::Server;
use serde_json::{Value, json};

use crate::client::{APP, APPS, Gui, NAMESPACE};

#[test]
fn the_app_is_made_once_and_a_second_time_is_a_conflict() {
    let gui = Gui::connect();
    let made = gui.create_app();
    assert_eq!(made["metadata"]["generation"], 1);
    let again = gui.wire.post(
        APPS,
        &json!({"apiVersion": "app.rancherdesktop.io/v1alpha1", "kind": "App",
        "metadata": {"name": "app"}, "spec": {"namespace": NAMESPACE, "running": false}}),
    );
    assert_eq!((again.code, again.reason().as_str()), (409, "AlreadyExists"));
    let (apps, _) = gui.follow(APPS, "");
    let spec = &apps[0]["spec"];
    assert_eq!((&spec["namespace"], &spec["running"]), (&json!(NAMESPACE), &json!(false)));
    for pointer in [
        "/kubernetes/enabled",
        "/containerEngine/name",
        "/virtualMachine/cpus",
        "/virtualMachine/memory",
        "/application/updates/enabled",
    ] {
        assert!(spec.pointer(pointer).is_some_and(|value| !value.is_null()), "{pointer} in {spec}");
    }
}

#[test]
fn settings_are_checked_without_being_written() {
    let gui = Gui::connect();
    let made = gui.create_app();
    let checked = gui.set(&json!([{"op": "add", "path": "/spec/virtualMachine/cpus", "value": 2}]), true);
    assert_eq!(checked.expect(200)["spec"]["virtualMachine"]["cpus"], 2);
    assert_eq!(gui.wire.get(APP).expect(200)["spec"], made["spec"], "nothing was written");

    let refused = gui.set(&json!([{"op": "add", "path": "/spec/containerEngine/name", "value": "rkt"}]), true);
    let status = refused.expect(422);
    let cause = |field: &str, reason: &str| {
        let causes = status["details"]["causes"].as_array().unwrap().iter();
        causes.filter(|cause| cause["field"] == field && cause["reason"] == reason).count()
    };
    assert_eq!(cause("spec.containerEngine.name", "FieldValueNotSupported"), 1, "{status}");
    assert!(status["details"]["causes"][0]["message"].is_string());

    let unknown = gui.set(&json!([{"op": "add", "path": "/spec/nothing", "value": 1}]), true);
    assert_eq!(unknown.code, 422, "strict: {}", unknown.text());
    let orphan = gui.set(&json!([{"op": "add", "path": "/spec/no/parent", "value": 1}]), true);
    assert_eq!(orphan.code, 422, "{}", orphan.text());
}

#[test]
fn settings_that_are_written_read_back_as_they_were_sent() {
    let gui = Gui::connect();
    gui.create_app();
    let (_, mut followed) = gui.follow(APPS, "");
    let operations = json!([
        {"op": "add", "path": "/spec/virtualMachine/cpus", "value": 2},
        {"op": "add", "path": "/spec/virtualMachine/memory", "value": "3Gi"},
        {"op": "add", "path": "/spec/application/updates/enabled", "value": false},
    ]);
    let written = gui.set(&operations, false).expect(200);
    let generation = written["metadata"]["generation"].as_i64().unwrap();
    assert!(generation > 1);
    let seen = followed.until("MODIFIED", |app| app["metadata"]["generation"] == generation);
    assert_eq!(seen["spec"]["virtualMachine"], json!({"cpus": 2, "memory": "3Gi"}));
    assert_eq!(seen["spec"]["application"]["updates"]["enabled"], false);
    let reset = gui.set(&json!([{"op": "remove", "path": "/spec/virtualMachine/memory"}]), false).expect(200);
    assert!(reset["spec"]["virtualMachine"]["memory"].is_string(), "the default is back: {reset}");
}

#[test]
fn the_machine_and_the_versions_of_kubernetes_are_told() {
    let gui = Gui::connect();
    gui.create_app();
    let hosts = "/apis/rdd.rancherdesktop.io/v1alpha1/hostinfos/system";
    let host = gui.until(hosts, "what the machine has", |host| host["status"]["memory"].is_string());
    assert!(host["status"]["cpus"].as_i64().unwrap() > 0);
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/k3s-versions");
    let map = gui.until(&path, "the versions of Kubernetes", |map| map["data"]["versions"].is_string());
    let json = |key: &str| serde_json::from_str::<Value>(map["data"][key].as_str().unwrap()).unwrap();
    assert!(!json("versions").is_null() && json("channels").get("stable").is_some(), "{map}");
}
