//! Tests of the kinds of the container engine.

use rdd_controllers::containers::{Containers, Defined};
use rdd_runtime::Registered;
use rdd_testkit::{api::Server, controllers::Stage};
use serde_json::{Value, json};

use crate::hands::{DEFINITIONS, Scene, event, events, get, merge, object, post};

const CONTAINERS: &str = "/apis/containers.rancherdesktop.io/v1alpha1/namespaces/default/containers";
const NAMESPACES: &str = "/apis/containers.rancherdesktop.io/v1alpha1/namespaces/default/containernamespaces";

fn controllers() -> Vec<Registered> {
    vec![
        Registered::new(Containers),
        Registered::new(Defined::container_namespaces()),
        Registered::new(Defined::images()),
        Registered::new(Defined::volumes()),
    ]
}

fn make(stage: &Stage) {
    let container = json!({
        "apiVersion": "containers.rancherdesktop.io/v1alpha1", "kind": "Container", "metadata": {"name": "c"},
    });
    post(stage, CONTAINERS, &container).expect("a container is made");
}

fn say(stage: &Stage, state: &str) {
    let status = json!({"name": "web", "namespace": "moby", "path": "sh", "image": "sha256:0", "status": state});
    merge(stage, &format!("{CONTAINERS}/c/status"), &json!({"status": status})).expect("a status is taken");
}

fn conditions(stage: &Stage) -> Vec<String> {
    let container = get(stage, &format!("{CONTAINERS}/c")).expect("there is a container");
    let all = container["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |one: &Value| {
        format!("{}={}", one["type"].as_str().unwrap_or_default(), one["status"].as_str().unwrap_or_default())
    };
    all.iter().map(text).collect()
}

#[test]
fn every_kind_of_the_group_is_served() {
    let scene = Scene::of(controllers);
    for definition in rdd_types::DEFINITIONS.iter().filter(|one| one.group == rdd_types::containers::GROUP) {
        assert!(get(&scene.stage, &format!("{DEFINITIONS}/{}", definition.crd_name)).is_some(), "{}", definition.kind);
    }
}

#[test]
fn conditions_follow_the_state_and_changes_are_told() {
    let mut scene = Scene::of(controllers);
    make(&scene.stage);
    scene.stage.settle();
    assert_eq!(conditions(&scene.stage).len(), 0);
    say(&scene.stage, "running");
    scene.stage.settle();
    let running = ["Running=True", "Paused=False", "Restarting=False", "Dead=False", "OOMKilled=Unknown"];
    assert_eq!(conditions(&scene.stage), running);
    assert_eq!(events(&scene.stage, "Container").len(), 0, "the first word is no change");
    say(&scene.stage, "paused");
    scene.stage.settle();
    assert_eq!(conditions(&scene.stage)[..2], ["Running=False", "Paused=True"]);
    let told = event(&mut scene.stage, "Container", "ConditionChanged", "Paused");
    assert_eq!(told[2..], ["Container is paused", "Normal", "container-controller"]);
}

#[test]
fn intents_are_checked_in_the_words_of_the_original() {
    let scene = Scene::of(controllers);
    make(&scene.stage);
    let path = format!("{CONTAINERS}/c");
    let asking = |action: &str| json!({"metadata": {"annotations": {"containers.rancherdesktop.io/action": action}}});
    merge(&scene.stage, &path, &asking("restart")).unwrap();
    merge(&scene.stage, &path, &json!({"spec": {"state": "running"}})).unwrap();
    let prefix = r#"admission webhook "container-mutating.containers.rancherdesktop.io" denied the request: "#;
    let wanted = format!(r#"{prefix}invalid containers.rancherdesktop.io/action annotation "explode""#);
    assert_eq!(merge(&scene.stage, &path, &asking("explode")), Err((403, wanted)));
    let mut new = object("containers.rancherdesktop.io", "Container", "d", json!({}));
    new["metadata"]["annotations"] = asking("start")["metadata"]["annotations"].clone();
    let wanted = format!("{prefix}containers.rancherdesktop.io/action annotation is not allowed on create");
    assert_eq!(post(&scene.stage, CONTAINERS, &new), Err((403, wanted)));
}

#[test]
fn a_container_namespace_goes_with_a_warning() {
    let scene = Scene::of(controllers);
    let namespace = json!({
        "apiVersion": "containers.rancherdesktop.io/v1alpha1", "kind": "ContainerNamespace", "metadata": {"name": "moby"},
    });
    post(&scene.stage, NAMESPACES, &namespace).unwrap();
    let reply = scene.api().delete(&format!("{NAMESPACES}/moby"));
    let warning = reply.header("warning").unwrap_or_default().to_owned();
    reply.expect(200);
    assert!(warning.contains("namespace delete validation not implemented"), "{warning}");
}
