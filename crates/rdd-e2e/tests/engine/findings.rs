//! Tests for findings of the reviews of the original, with a real engine.

use std::fs;

use rdd_testkit::{Daemon, capability::require, eventually};
use serde_json::{Value, json};

use crate::{
    agree::{image_name, until_they_agree, volume_name},
    docker::Docker,
    product::{APP, Product, SOON, talkative},
};

/// Waits until a mirror exists or does not exist.
#[track_caller]
fn until_there(product: &Product, kind: &str, name: &str, there: bool) {
    eventually(&format!("{kind}/{name} to be {}", if there { "there" } else { "gone" }), SOON, || {
        let seen = product.mirror(kind, name);
        if seen.is_some() == there { Ok(()) } else { Err(format!("{seen:?}")) }
    });
}

/// An engine with a container whose mirror is running; `None` if no engine can run here.
fn with_one() -> Option<(Product, Docker, String)> {
    if !require("own-engine") {
        return None;
    }
    let product = Product::start();
    let docker = product.docker();
    docker.import("box:1");
    let id = docker.run("one", "box:1");
    product.until_status(&id, "running");
    Some((product, docker, id))
}

fn mirrors_left(product: &Product) -> Vec<String> {
    let kinds = ["containers", "images", "volumes", "containernamespaces"];
    let left = kinds.iter().flat_map(|kind| {
        let all = product.api.list(&product.mirrors(kind)).expect("the API answers");
        all.into_iter().map(move |object| format!("{kind}/{}", object["metadata"]["name"]))
    });
    left.collect()
}

// Finding 295-T7
#[test]
fn an_image_in_use_lingers_until_its_container_is_gone_and_states_follow_both_ways() {
    if !require("own-engine") {
        return;
    }
    let product = Product::start();
    let docker = product.docker();
    let image = docker.import("used:1");
    let id = docker.run("user", "used:1");
    product.until_status(&id, "running");

    // Pauses and unpauses, each from either side.
    docker.post(&format!("/containers/{id}/pause")).expect(204);
    product.until_status(&id, "paused");
    product.ask_for(&id, "unpause");
    product.until_status(&id, "running");
    product.ask_for(&id, "pause");
    product.until_status(&id, "paused");
    docker.post(&format!("/containers/{id}/unpause")).expect(204);
    product.until_status(&id, "running");

    // Tagged and dangling images, in both directions. The second import takes the tag of the first image, and no event reports that.
    let (tagged, dangling) = (image_name(&image, Some("used:1")), image_name(&image, None));
    until_there(&product, "images", &tagged, true);
    let other = docker.import("used:1");
    until_there(&product, "images", &image_name(&other, Some("used:1")), true);
    until_there(&product, "images", &dangling, true);
    until_there(&product, "images", &tagged, false);
    docker.post(&format!("/images/{image}/tag?repo=used&tag=1")).expect(201);
    until_there(&product, "images", &tagged, true);
    until_there(&product, "images", &dangling, false);
    until_there(&product, "images", &image_name(&other, None), true);

    // The image is in use: its mirror stays, with its finalizer, and is deleted once it is unused.
    product.api.delete(&format!("{}/{tagged}", product.mirrors("images")));
    until_they_agree(&docker, &product.api, &product.namespace, SOON);
    let lingering = product.mirror("images", &tagged).expect("it is still there");
    assert!(lingering["metadata"]["deletionTimestamp"].is_string(), "{lingering}");
    assert_eq!(lingering["metadata"]["finalizers"], json!(["engine.rancherdesktop.io/mirror"]));
    docker.get(&format!("/images/{image}/json")).expect(200);
    docker.delete(&format!("/containers/{id}?force=1")).expect(204);
    until_there(&product, "images", &tagged, false);
    docker.get(&format!("/images/{image}/json")).expect(404);
    until_they_agree(&docker, &product.api, &product.namespace, SOON);
    product.rdd(&["svc", "delete"]).expect_success();
}

// Finding 295-T8, 295-S5
#[test]
fn with_containerd_nothing_is_mirrored_and_nothing_of_moby_is_left() {
    let Some((product, _, id)) = with_one() else { return };
    product.rdd(&["set", "containerEngine.name=containerd", "running=true"]).expect_success();
    assert_eq!(mirrors_left(&product), Vec::<String>::new());
    let said = product.condition("ContainerEngineReady");
    assert_eq!(said, Some(("Unknown".to_owned(), "NotApplicable".to_owned())));
    assert_eq!(product.condition("Settled").map(|(status, _)| status), Some("True".to_owned()));
    // Back to moby: the existing objects are mirrored again.
    product.rdd(&["set", "containerEngine.name=moby"]).expect_success();
    product.until_condition("ContainerEngineReady", "True");
    until_there(&product, "containers", &id, true);
    product.rdd(&["set", "running=false"]).expect_success();
    assert_eq!(mirrors_left(&product), Vec::<String>::new());
    let again = product.rdd(&["set", "running=false", "--timeout=5s"]);
    again.expect_success();
    product.rdd(&["svc", "delete"]).expect_success();
}

// Finding O-6
#[test]
fn deleting_the_app_while_the_engine_is_connected_leaves_nothing() {
    let Some((product, docker, _)) = with_one() else { return };
    docker.send("POST", "/volumes/create", Some(&json!({"Name": "kept"}))).expect(201);
    until_there(&product, "volumes", &volume_name("kept"), true);
    let context = format!("rancher-desktop-{}", product.instance());
    let contexts = product.home().join(".docker/contexts/meta");
    product.rdd(&["delete", "--yes"]).expect_success();
    eventually("the App to be gone", SOON, || match product.api.call("GET", APP, None) {
        Some((404, _)) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    eventually("all mirrors to be gone", SOON, || {
        let left = mirrors_left(&product);
        if left.is_empty() { Ok(()) } else { Err(left.join(", ")) }
    });
    let spaces = product.api.list("/api/v1/namespaces").unwrap();
    let is_stuck = |space: &&Value| space["metadata"]["deletionTimestamp"].is_string();
    eventually("no namespace to be stuck", SOON, || {
        let spaces = product.api.list("/api/v1/namespaces").ok_or_else(|| "no answer".to_owned())?;
        spaces.iter().find(is_stuck).map_or(Ok(()), |space| Err(space.to_string()))
    });
    assert!(!spaces.is_empty());
    let left = fs::read_dir(&contexts).into_iter().flatten().flatten();
    let texts = left.filter_map(|entry| fs::read_to_string(entry.path().join("meta.json")).ok());
    let ours: Vec<String> = texts.filter(|text| text.contains(&context)).collect();
    assert_eq!(ours, Vec::<String>::new());
    product.rdd(&["svc", "delete"]).expect_success();
}

// Finding O-11
#[test]
fn what_others_made_in_the_namespace_stays() {
    let Some((product, ..)) = with_one() else { return };
    let foreign = |kind: &str, plural: &str, status: Value| {
        let object = json!({"apiVersion": "containers.rancherdesktop.io/v1alpha1", "kind": kind, "metadata": {"name": "theirs"}});
        product.api.create(&product.mirrors(plural), &object);
        if !status.is_null() {
            let path = format!("{}/theirs/status", product.mirrors(plural));
            product.api.merge(&path, &json!({"status": status}));
        }
    };
    foreign("Volume", "volumes", Value::Null);
    foreign("Image", "images", Value::Null);
    foreign("ContainerNamespace", "containernamespaces", Value::Null);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs"}});
    let maps = format!("/api/v1/namespaces/{}/configmaps", product.namespace);
    product.api.create(&maps, &map);
    product.rdd(&["set", "running=false"]).expect_success();
    let mut left = mirrors_left(&product);
    left.sort();
    let theirs = ["containernamespaces", "images", "volumes"].map(|kind| format!("{kind}/\"theirs\""));
    assert_eq!(left, theirs);
    product.api.get(&format!("{maps}/theirs"));
    product.rdd(&["svc", "delete"]).expect_success();
}

// Finding 295-T8
#[test]
fn stopping_what_is_stopped_returns_at_once() {
    if !require("own-engine") {
        return;
    }
    let sandbox = talkative().build();
    sandbox.rdd(&["set", "backend=host", "running=false"]).expect_success();
    let daemon = Daemon::start_in(sandbox);
    let began = std::time::Instant::now();
    daemon.rdd(&["set", "running=false"]).expect_success();
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
}
