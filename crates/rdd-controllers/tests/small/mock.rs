//! Tests of the mock.

use rdd_controllers::mock::Controller;
use rdd_runtime::Registered;
use rdd_testkit::controllers::Stage;
use serde_json::{Value, json};

use crate::hands::{APPS, HOSTS, NAMESPACES, Scene, delete, get, merge, object, post};

const HERE: &str = "/apis/containers.rancherdesktop.io/v1alpha1/namespaces/rancher-desktop";

pub(crate) fn controllers() -> Vec<Registered> {
    vec![Registered::new(Controller::default())]
}

pub(crate) fn make_app(stage: &Stage) {
    let spec = json!({"running": false, "namespace": "rancher-desktop"});
    post(stage, APPS, &object("app.rancherdesktop.io", "App", "app", spec)).expect("an App is made");
}

pub(crate) fn settled(stage: &Stage) -> [Value; 4] {
    let app = get(stage, &format!("{APPS}/app")).expect("there is an App");
    assert_eq!(app["status"]["conditions"].as_array().map(Vec::len), Some(1), "{app}");
    let condition = &app["status"]["conditions"][0];
    let is_current = condition["observedGeneration"] == app["metadata"]["generation"];
    [condition["type"].clone(), condition["status"].clone(), condition["message"].clone(), json!(is_current)]
}

fn items(stage: &Stage, kind: &str) -> Vec<Value> {
    let list = get(stage, &format!("{HERE}/{kind}")).expect("the kind is served");
    list["items"].as_array().cloned().unwrap_or_default()
}

#[test]
fn there_is_something_of_every_kind_and_all_of_it_belongs_to_the_mock() {
    let scene = Scene::of(controllers);
    let home = get(&scene.stage, &format!("{NAMESPACES}/rdd-mocks")).unwrap();
    for (kind, count) in [("containers", 4), ("images", 4), ("volumes", 2), ("containernamespaces", 1)] {
        let items = items(&scene.stage, kind);
        assert_eq!(items.len(), count, "{kind}");
        for item in items {
            let owner = &item["metadata"]["ownerReferences"][0];
            assert_eq!((&owner["kind"], &owner["uid"]), (&json!("Namespace"), &home["metadata"]["uid"]), "{item}");
            assert!(kind == "containernamespaces" || item["status"]["namespace"] == "buildkit", "{item}");
        }
    }
    let host = get(&scene.stage, &format!("{HOSTS}/system")).unwrap();
    assert_eq!(host["status"], json!({"cpus": 32, "memory": "12Gi"}));
}

#[test]
fn what_is_deleted_or_changed_comes_back() {
    let mut scene = Scene::of(controllers);
    let name = items(&scene.stage, "containers")[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let path = format!("{HERE}/containers/{name}");
    delete(&scene.stage, &path).unwrap();
    merge(&scene.stage, &format!("{HOSTS}/system/status"), &json!({"status": {"cpus": 1}})).unwrap();
    scene.stage.settle();
    assert_eq!(get(&scene.stage, &path).unwrap()["status"]["name"], "web");
    assert_eq!(get(&scene.stage, &format!("{HOSTS}/system")).unwrap()["status"]["cpus"], 32);
    delete(&scene.stage, &format!("{HOSTS}/system")).unwrap();
    scene.stage.settle();
    assert_eq!(get(&scene.stage, &format!("{HOSTS}/system")).unwrap()["status"]["cpus"], 32);
}

#[test]
fn an_app_is_settled_as_soon_as_it_asks_and_has_the_versions() {
    let mut scene = Scene::of(controllers);
    make_app(&scene.stage);
    scene.stage.settle();
    assert_eq!(
        settled(&scene.stage),
        [json!("Settled"), json!("False"), json!("app.running set to false"), json!(true)]
    );
    merge(&scene.stage, &format!("{APPS}/app"), &json!({"spec": {"running": true}})).unwrap();
    scene.stage.settle();
    assert_eq!(settled(&scene.stage), [json!("Settled"), json!("True"), json!("app.running set to true"), json!(true)]);
    let list = get(&scene.stage, "/api/v1/namespaces/rancher-desktop/configmaps/k3s-versions").unwrap();
    assert!(list["data"]["channels"].as_str().is_some_and(|text| text.contains("stable")), "{list}");
    // The mock does not register the guard of the list.
    delete(&scene.stage, "/api/v1/namespaces/rancher-desktop/configmaps/k3s-versions").unwrap();
}

#[test]
fn its_namespace_stays() {
    let scene = Scene::of(controllers);
    let wanted = r#"admission webhook "mock-namespace-no-delete.mock.rancherdesktop.io" denied the request: deletion of mock namespace is not allowed"#;
    assert_eq!(delete(&scene.stage, &format!("{NAMESPACES}/rdd-mocks")), Err((403, wanted.to_owned())));
    let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    post(&scene.stage, NAMESPACES, &other).unwrap();
    delete(&scene.stage, &format!("{NAMESPACES}/other")).unwrap();
}
