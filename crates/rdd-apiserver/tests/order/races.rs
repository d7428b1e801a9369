//! Tests of writes that race with the deletion of their namespace or definition.

use std::sync::atomic::Ordering;

use rdd_apiserver::admission::Operation;
use rdd_meta::options::DeleteOptions;
use serde_json::json;

use crate::support::{World, abandon, bounded, definition, definitions, eventually, maps, namespaces, widget, widgets};

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_ends_though_whoever_deleted_it_did_not_wait() {
    let world = World::open().await;
    for round in 0..40 {
        let name = format!("short-{round}");
        world.namespace(&name).await;
        let is_active = || world.client.get(namespaces(&name)).is_ok_and(|found| found["status"]["phase"] == "Active");
        while is_active() {
            abandon(world.client.delete(namespaces(&name), &DeleteOptions::default()), round % 8).await;
            tokio::task::yield_now().await;
        }
        eventually("the namespace goes", || world.client.get(namespaces(&name)).is_err()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_made_in_a_namespace_that_went_meanwhile() {
    let world = World::open().await;
    world.namespace("short").await;
    world.meddler.meddle(Operation::Create, "late", |client| async move {
        client.delete(namespaces("short"), &DeleteOptions::default()).await.unwrap();
        eventually("the namespace goes", || client.get(namespaces("short")).is_err()).await;
    });
    let late = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late", "namespace": "short"}});
    let at = rdd_apiserver::rest::local::Named { namespace: Some("short"), ..maps("late") };
    let refused = bounded(world.client.create(at, late)).await.unwrap_err();
    assert_eq!(refused.message, "namespaces \"short\" not found");
    assert!(world.client.get(at).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generated_name_that_somebody_took_meanwhile_is_generated_anew() {
    let world = World::open().await;
    let make = async || {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
            "metadata": {"generateName": "made-", "namespace": "default", "labels": {"a": "b"}},
        });
        bounded(world.client.create(maps(""), object)).await
    };
    // Removes what differs between the objects: identity and time of creation.
    let same = |mut made: serde_json::Value| {
        let metadata = made["metadata"].as_object_mut().unwrap();
        metadata.retain(|field, _| !["name", "uid", "resourceVersion", "creationTimestamp"].contains(&&**field));
        metadata["managedFields"][0]["time"].take();
        made
    };
    let alone = same(make().await.unwrap());
    for rivals in [1, 7] {
        world.meddler.rivals.store(rivals, Ordering::SeqCst);
        assert_eq!(same(make().await.unwrap()), alone, "{rivals} rivals");
        assert_eq!(world.meddler.rivals.load(Ordering::SeqCst), 0);
    }
    world.meddler.rivals.store(100, Ordering::SeqCst);
    let refused = make().await.unwrap_err();
    assert_eq!((refused.code, world.meddler.rivals.load(Ordering::SeqCst)), (409, 92), "{refused:?}");
    assert!(refused.message.contains("the server was not able to generate a unique name"), "{}", refused.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_made_of_a_definition_that_went_meanwhile() {
    let world = World::open().await;
    world.define(json!({"size": {"type": "integer"}})).await;
    world.meddler.meddle(Operation::Create, "late", |client| async move {
        client.delete(definitions("widgets.example.dev"), &DeleteOptions::default()).await.unwrap();
        eventually("the definition goes", || client.get(definitions("widgets.example.dev")).is_err()).await;
    });
    let made = bounded(world.client.create(widgets(""), widget("late", json!({"size": 1})))).await;
    assert!(made.is_err(), "{made:?}");
    world.define(json!({"size": {"type": "integer"}})).await;
    assert!(world.client.get(widgets("late")).is_err(), "nothing was left behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_stored_under_a_schema_that_holds_no_longer() {
    let world = World::open().await;
    world.define(json!({"size": {"type": "integer"}})).await;
    world.meddler.meddle(Operation::Create, "late", |client| async move {
        let properties = definition(json!({"colour": {"type": "string"}}));
        client.merge(definitions("widgets.example.dev"), json!({"spec": properties["spec"]})).await.unwrap();
    });
    let made = bounded(world.client.create(widgets(""), widget("late", json!({"size": 1})))).await;
    assert!(made.is_err(), "{made:?}");
    let made = bounded(world.client.create(widgets(""), widget("late", json!({"size": 1})))).await.unwrap();
    assert_eq!(made["spec"], json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_namespace_is_emptied_and_goes() {
    let world = World::open().await;
    world.namespace("full").await;
    let at = rdd_apiserver::rest::local::Named { namespace: Some("full"), ..maps("") };
    for number in 0..500 {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{number}"), "namespace": "full"}});
        bounded(world.client.create(at, object)).await.unwrap();
    }
    bounded(world.client.delete(namespaces("full"), &DeleteOptions::default())).await.unwrap();
    eventually("the namespace goes", || world.client.get(namespaces("full")).is_err()).await;
    assert!(bounded(world.client.list(at)).await.unwrap().objects.is_empty());
}
