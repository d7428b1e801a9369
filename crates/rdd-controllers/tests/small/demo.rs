//! Tests of Demo.

use rdd_controllers::demo::Controller;
use rdd_runtime::Registered;
use rdd_testkit::controllers::Stage;
use serde_json::{Value, json};

use crate::hands::{DEFINITIONS, DEMOS, Scene, define, event, get, merge, object, post};

pub(crate) fn controllers() -> Vec<Registered> {
    vec![Registered::new(Controller::default())]
}

pub(crate) fn make(stage: &Stage, name: &str, count: i32) {
    let spec = json!({"message": "hi", "count": count});
    post(stage, DEMOS, &object("app.rancherdesktop.io", "Demo", name, spec)).expect("a Demo is made");
}

/// Allows any name for Demos until the next start restores the definition.
pub(crate) fn loosen(stage: &Stage) {
    let name = "demos.app.rancherdesktop.io";
    let mut found = get(stage, &format!("{DEFINITIONS}/{name}")).expect("the definition is there");
    let schema = &mut found["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema.as_object_mut().expect("a schema is an object").remove("x-kubernetes-validations");
    merge(stage, &format!("{DEFINITIONS}/{name}"), &json!({"spec": found["spec"]})).expect("it is taken");
}

pub(crate) fn condition(demo: &Value, kind: &str) -> [String; 3] {
    let conditions = demo["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.into_iter().find(|condition| condition["type"] == kind).cloned().unwrap_or_default();
    ["status", "reason", "message"].map(|field| found[field].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_message_is_processed_as_often_as_asked_and_every_time_is_told() {
    let mut scene = Scene::of(controllers);
    make(&scene.stage, "demo", 3);
    scene.stage.settle();
    let demo = get(&scene.stage, &format!("{DEMOS}/demo")).unwrap();
    assert_eq!(demo["status"]["processedCount"], 3);
    assert!(demo["status"]["lastProcessed"].as_str().is_some_and(|time| time.ends_with('Z')), "{demo}");
    assert_eq!(condition(&demo, "Ready"), ["True", "Ready", "Demo controller is ready"]);
    assert_eq!(condition(&demo, "Processing"), ["False", "Completed", "Processing has completed"]);
    let done = ["True", "Completed", "All messages have been processed successfully"];
    assert_eq!(condition(&demo, "Completed"), done);

    let completed = event(&mut scene.stage, "Demo", "Completed", "Process");
    assert_eq!(completed[2..], ["Demo processing completed successfully", "Normal", "demo-controller"]);
    // Further events of the same kind only increase a count, as usual for this API.
    let processed = event(&mut scene.stage, "Demo", "Processing", "Process");
    assert_eq!(processed[2..], ["Processed message 1 of 3: hi", "Normal", "demo-controller"]);
    let changed = event(&mut scene.stage, "Demo", "ConditionChanged", "Completed");
    assert_eq!(changed[3..], ["Normal", "demo-controller"]);

    // The core v1 view of the same events, which scripts use.
    let path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.kind%3DDemo";
    let core = get(&scene.stage, path).unwrap();
    assert!(core["items"].as_array().is_some_and(|items| items.len() >= 4), "{core}");
    let instance = core["items"][0]["reportingInstance"].as_str().unwrap_or_default();
    assert!(instance.starts_with("demo-controller-"), "{instance}");
}

#[test]
fn more_can_be_asked_for_later() {
    let mut scene = Scene::of(controllers);
    make(&scene.stage, "demo", 1);
    scene.stage.settle();
    merge(&scene.stage, &format!("{DEMOS}/demo"), &json!({"spec": {"count": 2}})).unwrap();
    scene.stage.settle();
    let demo = get(&scene.stage, &format!("{DEMOS}/demo")).unwrap();
    assert_eq!(demo["status"]["processedCount"], 2);
    assert_eq!(condition(&demo, "Completed")[0], "True");
}

#[test]
fn a_demo_of_another_name_is_refused_and_one_that_got_in_is_deleted() {
    let scene = Scene::prepared(controllers, |stage| {
        define(stage, &["demo"]);
        loosen(stage);
        make(stage, "other", 1);
    });
    assert_eq!(get(&scene.stage, &format!("{DEMOS}/other")), None);
    let refused = post(&scene.stage, DEMOS, &object("app.rancherdesktop.io", "Demo", "other", json!({})));
    let (code, text) = refused.unwrap_err();
    assert!(code == 422 && text.contains("Demo resource must be named 'demo'"), "{code} {text}");
}
