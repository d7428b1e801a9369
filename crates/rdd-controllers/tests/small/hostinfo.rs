//! Tests of HostInfo.

use rdd_controllers::hostinfo::{Controller, Host};
use rdd_runtime::Registered;
use serde_json::{Value, json};

use crate::hands::{HOSTS, Scene, delete, get, merge, object, post};

pub(crate) fn controllers() -> Vec<Registered> {
    vec![Registered::new(Controller::new(|| Host { cpus: 8, memory_bytes: 16 << 30 }))]
}

fn status(scene: &Scene, name: &str) -> Value {
    get(&scene.stage, &format!("{HOSTS}/{name}")).map(|host| host["status"].clone()).unwrap_or_default()
}

#[test]
fn the_one_object_is_made_and_says_what_the_machine_has() {
    let scene = Scene::of(controllers);
    assert_eq!(status(&scene, "system"), json!({"cpus": 8, "memory": "16Gi"}));
}

#[test]
fn a_status_that_somebody_edits_is_put_right() {
    let mut scene = Scene::of(controllers);
    let path = format!("{HOSTS}/system/status");
    for wrong in [json!({"cpus": 64}), json!({"memory": null}), json!({"cpus": null, "memory": "1Ki"})] {
        merge(&scene.stage, &path, &json!({"status": wrong})).unwrap();
        scene.stage.settle();
        assert_eq!(status(&scene, "system"), json!({"cpus": 8, "memory": "16Gi"}));
    }
}

#[test]
fn it_comes_back_when_it_is_deleted_and_others_say_the_same() {
    let mut scene = Scene::of(controllers);
    let first = get(&scene.stage, &format!("{HOSTS}/system")).unwrap();
    delete(&scene.stage, &format!("{HOSTS}/system")).unwrap();
    scene.stage.settle();
    let second = get(&scene.stage, &format!("{HOSTS}/system")).unwrap();
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert_eq!(second["status"], first["status"]);

    post(&scene.stage, HOSTS, &object("rdd.rancherdesktop.io", "HostInfo", "other", json!({}))).unwrap();
    scene.stage.settle();
    assert_eq!(status(&scene, "other"), first["status"]);
}

#[test]
fn nothing_is_written_while_nothing_changes() {
    let mut scene = Scene::of(controllers);
    let version = |scene: &Scene| get(&scene.stage, &format!("{HOSTS}/system")).map(|host| host["metadata"].clone());
    let before = version(&scene);
    scene.stage.start();
    scene.stage.settle();
    assert_eq!(version(&scene), before);
}
