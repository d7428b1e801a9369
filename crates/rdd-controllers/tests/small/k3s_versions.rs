//! Tests of the list of Kubernetes versions.

use std::sync::{Arc, OnceLock};

use kube::Client;
use rdd_controllers::k3s_versions::Controller;
use rdd_runtime::{
    Registered,
    probe::{KillAt, When},
};
use rdd_testkit::{api::TestApi, controllers::Stage};
use serde_json::{Value, json};

use crate::hands::{APPS, NAMESPACES, Scene, define, delete, get, merge, object, post};

const LIST: &str = "/api/v1/namespaces/desk/configmaps/k3s-versions";

/// A scene whose guard gets its client after the server has started.
fn scene(prepare: impl FnOnce(&Stage)) -> Scene {
    let client: Arc<OnceLock<Client>> = Arc::default();
    let own = Arc::clone(&client);
    Scene::prepared(
        move || vec![Registered::new(Controller::new(own.get().expect("it was set").clone()))],
        |stage| {
            assert!(client.set(stage.client()).is_ok(), "it is set once");
            define(stage, &["app"]);
            prepare(stage);
        },
    )
}

fn make_namespace(stage: &Stage) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "desk"}});
    post(stage, NAMESPACES, &namespace).expect("a namespace is made");
}

fn make_app(stage: &Stage) -> Value {
    let spec = json!({"running": false, "namespace": "desk"});
    post(stage, APPS, &object("app.rancherdesktop.io", "App", "app", spec)).expect("an App is made")
}

fn ready() -> Scene {
    scene(|stage| {
        make_namespace(stage);
        make_app(stage);
    })
}

#[test]
fn an_app_has_the_list_in_its_namespace() {
    let scene = ready();
    let app = get(&scene.stage, &format!("{APPS}/app")).unwrap();
    let list = get(&scene.stage, LIST).unwrap();
    let labels = json!({
        "app.kubernetes.io/name": "rdd-k3s-versions",
        "app.kubernetes.io/component": "k3s-versions",
        "app.kubernetes.io/managed-by": "rdd-k3s-versions",
        "app.kubernetes.io/instance": "app",
    });
    assert_eq!(list["metadata"]["labels"], labels);
    let owner = json!([{
        "apiVersion": "app.rancherdesktop.io/v1alpha1", "kind": "App", "name": "app", "uid": app["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }]);
    assert_eq!(list["metadata"]["ownerReferences"], owner);
    let data = |key: &str| serde_json::from_str::<Value>(list["data"][key].as_str().unwrap_or_default()).unwrap();
    assert_eq!(data("versions")["1.32.0"], "v1.32.0+k3s1");
    assert_eq!(data("channels")["stable"], "1.34.6");
}

#[test]
fn it_waits_for_the_namespace() {
    let mut scene = scene(|stage| drop(make_app(stage)));
    assert_eq!(get(&scene.stage, LIST), None);
    make_namespace(&scene.stage);
    scene.stage.settle();
    assert!(get(&scene.stage, LIST).is_some());
}

#[test]
fn what_is_ours_is_put_right_and_what_others_added_stays() {
    let mut scene = ready();
    let right = get(&scene.stage, LIST).unwrap();
    let changes = json!({
        "data": {"versions": "{}", "channels": null, "note": "mine"},
        "metadata": {"labels": {"app.kubernetes.io/instance": "x", "note": "mine"}, "ownerReferences": null},
    });
    merge(&scene.stage, LIST, &changes).unwrap();
    scene.stage.settle();
    let found = get(&scene.stage, LIST).unwrap();
    for key in ["versions", "channels"] {
        assert_eq!(found["data"][key], right["data"][key]);
    }
    assert_eq!((&found["data"]["note"], &found["metadata"]["labels"]["note"]), (&json!("mine"), &json!("mine")));
    assert_eq!(found["metadata"]["labels"]["app.kubernetes.io/instance"], "app");
    assert_eq!(found["metadata"]["ownerReferences"], right["metadata"]["ownerReferences"]);
}

#[test]
fn the_list_cannot_be_deleted_while_its_app_needs_it() {
    let mut scene = ready();
    let wanted = r#"admission webhook "k3s-versions-validator.app.rancherdesktop.io" denied the request: ConfigMap "k3s-versions" is forbidden: refusing to delete *v1.ConfigMap desk/k3s-versions"#;
    assert_eq!(delete(&scene.stage, LIST), Err((403, wanted.to_owned())));
    assert_eq!(delete(&scene.stage, &format!("{LIST}?dryRun=All")), Err((403, wanted.to_owned())));

    // An App that is being deleted needs no list, and the list is not restored.
    merge(&scene.stage, &format!("{APPS}/app"), &json!({"metadata": {"finalizers": ["test.example.com/hold"]}}))
        .unwrap();
    delete(&scene.stage, &format!("{APPS}/app")).unwrap();
    scene.stage.settle();
    delete(&scene.stage, LIST).unwrap();
    scene.stage.settle();
    assert_eq!(get(&scene.stage, LIST), None);
}

#[test]
fn other_maps_with_the_same_labels_are_free_to_go() {
    let scene = ready();
    let list = get(&scene.stage, LIST).unwrap();
    let mut other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}});
    other["metadata"]["labels"] = list["metadata"]["labels"].clone();
    post(&scene.stage, "/api/v1/namespaces/desk/configmaps", &other).unwrap();
    delete(&scene.stage, "/api/v1/namespaces/desk/configmaps/other").unwrap();
}

#[test]
fn killed_before_and_after_every_step_it_converges() {
    for when in [When::Before, When::After] {
        let api = TestApi::start();
        let client: Arc<OnceLock<Client>> = Arc::default();
        let own = Arc::clone(&client);
        let make = move || vec![Registered::new(Controller::new(own.get().expect("it was set").clone()))];
        let mut stage = Stage::over(&api, make);
        assert!(client.set(stage.client()).is_ok());
        define(&stage, &["app"]);
        let probe = Arc::new(KillAt::first("k3s-versions", "write", when));
        stage.probe(Arc::clone(&probe) as _);
        stage.start();
        make_namespace(&stage);
        make_app(&stage);
        stage.settle();
        assert!(probe.has_killed());
        assert!(get(&stage, LIST).is_some(), "{when:?}");
    }
}
