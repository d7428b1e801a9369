//! Tests of Notary.

use rdd_controllers::notary::Controller;
use rdd_runtime::Registered;
use rdd_testkit::{api::Server, controllers::Stage};
use serde_json::{Value, json};

use crate::hands::{MAPS, NOTARIES, Scene, delete, event, get, merge, object, post};

pub(crate) fn controllers() -> Vec<Registered> {
    vec![Registered::new(Controller::default())]
}

pub(crate) fn make(stage: &Stage, value: &str, map: &str) {
    let spec = json!({"value": value, "configMapName": map});
    post(stage, NOTARIES, &object("rdd.rancherdesktop.io", "Notary", "n", spec)).expect("a Notary is made");
}

pub(crate) fn set(stage: &Stage, spec: Value) {
    merge(stage, &format!("{NOTARIES}/n"), &json!({"spec": spec})).expect("a Notary is changed");
}

fn value_of(text: &Value) -> &str {
    let text = text.as_str().unwrap_or_default();
    let (time, value) = text.split_once(",value=").expect("a record has a value");
    assert!(time.strip_prefix("timestamp=").is_some_and(|time| time.len() == 20 && time.ends_with('Z')), "{text}");
    value
}

#[test]
fn every_change_is_recorded() {
    let mut scene = Scene::of(controllers);
    make(&scene.stage, "a", "history");
    scene.stage.settle();
    set(&scene.stage, json!({"value": "b"}));
    scene.stage.settle();

    let map = get(&scene.stage, &format!("{MAPS}/history")).unwrap();
    let data = &map["data"];
    assert_eq!((value_of(&data["change_000"]), value_of(&data["change_001"])), ("a", "b"));
    assert_eq!((&data["latest_change"], &data["change_count"]), (&data["change_001"], &json!("1")));
    let labels = json!({"app.kubernetes.io/managed-by": "notary-controller", "app.kubernetes.io/instance": "n"});
    assert_eq!(map["metadata"]["labels"], labels);

    let notary = get(&scene.stage, &format!("{NOTARIES}/n")).unwrap();
    let status = json!({"changeCount": 2, "configMapStatus": "Updated", "lastRecordedValue": "b"});
    assert_eq!(notary["status"], status);
    assert_eq!(notary["metadata"]["finalizers"], json!(["rdd.rancherdesktop.io/cleanup"]));

    let told = event(&mut scene.stage, "Notary", "Reconcile", "SpecUpdate");
    assert_eq!(told[3..], ["Normal", "notary-controller"]);
    let recorded = event(&mut scene.stage, "Notary", "ValueRecorded", "SyncValue");
    assert_eq!(recorded[2], "Value change recorded in ConfigMap:  -> a");
}

#[test]
fn a_change_of_something_else_is_told_and_an_empty_first_value_is_no_change() {
    let mut scene = Scene::of(controllers);
    make(&scene.stage, "", "history");
    scene.stage.settle();
    assert_eq!(get(&scene.stage, &format!("{MAPS}/history")), None);
    let told = event(&mut scene.stage, "Notary", "NoChange", "SyncValue");
    assert_eq!(told[2], "Spec update received but value unchanged, no ConfigMap update needed");
}

#[test]
fn deleting_it_deletes_its_records() {
    let mut scene = Scene::of(controllers);
    make(&scene.stage, "a", "history");
    scene.stage.settle();
    delete(&scene.stage, &format!("{NOTARIES}/n")).unwrap();
    scene.stage.settle();
    assert_eq!(get(&scene.stage, &format!("{NOTARIES}/n")), None);
    assert_eq!(get(&scene.stage, &format!("{MAPS}/history")), None);
}

#[test]
fn a_map_that_was_there_before_is_written_to_and_left_there() {
    let mut scene = Scene::of(controllers);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "history"}, "data": {"mine": "1"}});
    post(&scene.stage, MAPS, &map).unwrap();
    make(&scene.stage, "a", "history");
    scene.stage.settle();
    let found = get(&scene.stage, &format!("{MAPS}/history")).unwrap();
    assert_eq!((value_of(&found["data"]["change_000"]), &found["data"]["mine"]), ("a", &json!("1")));
    delete(&scene.stage, &format!("{NOTARIES}/n")).unwrap();
    scene.stage.settle();
    assert_eq!(get(&scene.stage, &format!("{MAPS}/history")).unwrap()["data"]["mine"], "1");
}

#[test]
fn a_map_that_cannot_be_written_is_complained_about_and_tried_again() {
    let mut scene = Scene::of(controllers);
    make(&scene.stage, "a", "No Name");
    let complaint = event(&mut scene.stage, "Notary", "ConfigMapError", "SyncValue");
    assert_eq!(complaint[3], "Warning");
    assert!(complaint[2].contains("No Name"), "{complaint:?}");
    set(&scene.stage, json!({"configMapName": "history"}));
    scene.stage.settle();
    assert!(get(&scene.stage, &format!("{MAPS}/history")).is_some());
}

#[test]
fn some_values_are_refused_and_some_warned_about() {
    let scene = Scene::of(controllers);
    let notary =
        |value: &str| object("rdd.rancherdesktop.io", "Notary", "n", json!({"value": value, "configMapName": "m"}));
    let wanted = r#"admission webhook "notary.rdd.rancherdesktop.io" denied the request: spec.value cannot start with 'invalid' (case-insensitive): "INVALID one""#;
    assert_eq!(post(&scene.stage, NOTARIES, &notary("INVALID one")), Err((403, wanted.to_owned())));
    let reply = scene.api().post(NOTARIES, &notary(&"x".repeat(25)));
    let warning = reply.header("warning").unwrap_or_default().to_owned();
    reply.expect(201);
    let text =
        "spec.value is longer than 24 characters (25 chars) - consider using a shorter value for better readability";
    assert!(warning.contains(text), "{warning}");
}
