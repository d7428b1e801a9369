//! Tests of ConfigMapReplicaSet.

use std::time::Instant;

use rdd_controllers::configmap_replicaset::Controller;
use rdd_runtime::Registered;
use rdd_testkit::controllers::Stage;
use serde_json::{Value, json};

use crate::hands::{MAPS, SETS, Scene, delete, get, merge, object, post};

pub(crate) fn controllers() -> Vec<Registered> {
    vec![Registered::new(Controller)]
}

pub(crate) fn make(stage: &Stage, spec: Value) {
    post(stage, SETS, &object("rdd.rancherdesktop.io", "ConfigMapReplicaSet", "s", spec)).expect("a set is made");
}

pub(crate) fn scale(stage: &Stage, replicas: i32) {
    merge(stage, &format!("{SETS}/s"), &json!({"spec": {"replicas": replicas}})).expect("a set is changed");
}

pub(crate) fn names(stage: &Stage) -> Vec<String> {
    let path = format!("{MAPS}?labelSelector=app.kubernetes.io%2Finstance%3Ds");
    let list = get(stage, &path).expect("maps are served");
    let items = list["items"].as_array().into_iter().flatten();
    items.filter_map(|map| map["metadata"]["name"].as_str()).map(str::to_owned).collect()
}

pub(crate) fn ready(stage: &Stage) -> Value {
    get(stage, &format!("{SETS}/s")).map(|set| set["status"]["readyReplicas"].clone()).unwrap_or_default()
}

#[test]
fn there_are_as_many_as_asked_for_each_with_its_index() {
    let mut scene = Scene::of(controllers);
    make(&scene.stage, json!({"replicas": 3, "data": {"key": "value"}}));
    scene.stage.settle();
    assert_eq!(names(&scene.stage), ["s-0", "s-1", "s-2"]);
    assert_eq!(ready(&scene.stage), 3);
    let map = get(&scene.stage, &format!("{MAPS}/s-2")).unwrap();
    assert_eq!(map["data"], json!({"key": "value", "index": "2"}));
    let labels = json!({
        "app.kubernetes.io/name": "configmap",
        "app.kubernetes.io/instance": "s",
        "app.kubernetes.io/component": "controller",
        "app.kubernetes.io/managed-by": "rdd-configmapreplicaset",
    });
    assert_eq!(map["metadata"]["labels"], labels);
    let owner = &map["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["controller"], &owner["blockOwnerDeletion"]), (&json!(true), &json!(true)));
}

#[test]
fn the_highest_go_and_the_lost_come_back() {
    let mut scene = Scene::of(controllers);
    make(&scene.stage, json!({"replicas": 4}));
    scene.stage.settle();
    scale(&scene.stage, 2);
    scene.stage.settle();
    assert_eq!((names(&scene.stage), ready(&scene.stage)), (vec!["s-0".to_owned(), "s-1".to_owned()], json!(2)));
    delete(&scene.stage, &format!("{MAPS}/s-0")).unwrap();
    scene.stage.settle();
    assert_eq!(names(&scene.stage), ["s-0", "s-1"]);
    scale(&scene.stage, 0);
    scene.stage.settle();
    assert_eq!((names(&scene.stage).len(), ready(&scene.stage)), (0, json!(0)));
}

#[test]
fn without_a_number_there_is_one_and_new_data_changes_none_that_is_there() {
    let mut scene = Scene::of(controllers);
    make(&scene.stage, json!({"data": {"key": "old"}}));
    scene.stage.settle();
    merge(&scene.stage, &format!("{SETS}/s"), &json!({"spec": {"data": {"key": "new"}, "replicas": 2}})).unwrap();
    scene.stage.settle();
    let value = |name: &str| get(&scene.stage, &format!("{MAPS}/{name}")).unwrap()["data"]["key"].clone();
    assert_eq!((value("s-0"), value("s-1")), (json!("old"), json!("new")));
}

#[test]
fn thousands_are_made_and_go_with_the_set_in_seconds() {
    let mut scene = Scene::of(controllers);
    let begun = Instant::now();
    make(&scene.stage, json!({"replicas": 3_000}));
    scene.stage.settle();
    assert_eq!((names(&scene.stage).len(), ready(&scene.stage)), (3_000, json!(3_000)));
    let made = begun.elapsed();
    let begun = Instant::now();
    delete(&scene.stage, &format!("{SETS}/s")).unwrap();
    scene.stage.settle();
    assert_eq!((names(&scene.stage).len(), get(&scene.stage, &format!("{SETS}/s"))), (0, None));
    println!("3,000 ConfigMaps were made in {made:?} and went in {:?}", begun.elapsed());
}

#[test]
fn a_name_that_another_has_is_left_to_it() {
    let mut scene = Scene::of(controllers);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s-0"}, "data": {"mine": "1"}});
    post(&scene.stage, MAPS, &map).unwrap();
    make(&scene.stage, json!({"replicas": 2}));
    crate::hands::until(&mut scene.stage, "the other replica", |stage| get(stage, &format!("{MAPS}/s-1")));
    assert_eq!(get(&scene.stage, &format!("{MAPS}/s-0")).unwrap()["data"], json!({"mine": "1"}));
    delete(&scene.stage, &format!("{MAPS}/s-0")).unwrap();
    scene.stage.settle();
    assert_eq!(ready(&scene.stage), 2);
}
