//! Tests images, volumes and container namespaces in the GUI.

use rdd_testkit::{api::Server, eventually};
use serde_json::{Value, json};

use crate::{
    client::{SOON, mirrors},
    containers::delete,
    engine::{self, IMAGE},
};

fn path_of(plural: &str, object: &Value) -> String {
    format!("{}/{}", mirrors(plural), object["metadata"]["name"].as_str().unwrap())
}

#[test]
fn images_volumes_and_namespaces_are_listed_watched_and_deleted() {
    let Some(gui) = engine::running() else { return };
    let (_, mut images) = gui.follow(&mirrors("images"), "");
    let (_, mut volumes) = gui.follow(&mirrors("volumes"), "");
    gui.docker(&["tag", IMAGE, "rdd-test/box:2"]);
    let image = images.shown(|image| image["status"]["repoTag"] == "rdd-test/box:2");
    assert!(image["status"]["id"].as_str().unwrap().starts_with("sha256:"));
    assert!(image["status"]["size"].as_i64().unwrap() > 0);
    gui.docker(&["volume", "create", "data"]);
    let volume = volumes.shown(|volume| volume["status"]["name"] == "data");
    let status = &volume["status"];
    assert!(status["mountpoint"].is_string() && status["createdAt"].is_string() && status["driver"] == "local");

    let (namespaces, _) = gui.follow(&mirrors("containernamespaces"), "");
    assert_eq!(namespaces.iter().map(|one| &one["metadata"]["name"]).collect::<Vec<_>>(), [&json!("moby")]);
    let (selected, _) = gui.follow(&mirrors("images"), "fieldSelector=status.namespace%3Dmoby");
    assert_eq!(selected.len(), 2);

    delete(&gui, &path_of("images", &image));
    delete(&gui, &path_of("volumes", &volume));
    assert_eq!(gui.docker(&["image", "ls", "--format", "{{.Tag}}", "rdd-test/box"]), "1");
    assert_eq!(gui.docker(&["volume", "ls", "-q"]), "");
}

#[test]
fn requests_to_push_and_to_scan_are_taken() {
    let Some(gui) = engine::running() else { return };
    let image = eventually("the image", SOON, || gui.list(&mirrors("images")).into_iter().next());
    let image = image["metadata"]["name"].as_str().unwrap().to_owned();
    for (plural, kind, prefix) in [
        ("imagepushrequests", "ImagePushRequest", "image-push"),
        ("imagescanrequests", "ImageScanRequest", "image-scan"),
    ] {
        let request = json!({"apiVersion": "containers.rancherdesktop.io/v1alpha1", "kind": kind,
            "metadata": {"generateName": format!("{prefix}-{image}-")}, "spec": {"imageRef": image}});
        let made = gui.wire.post(&mirrors(plural), &request).expect(201);
        assert!(made["metadata"]["name"].as_str().unwrap().starts_with(prefix), "{made}");
    }
}
