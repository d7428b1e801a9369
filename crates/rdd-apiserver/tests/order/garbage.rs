//! Tests of garbage collection: owners and dependents.

use rdd_apiserver::{admission::Operation, rest::local::Named};
use rdd_meta::options::DeleteOptions;
use serde_json::{Value, json};

use crate::support::{World, abandon, bounded, definitions, eventually, maps, propagating, reference, widget, widgets};

#[tokio::test(flavor = "multi_thread")]
async fn an_orphan_stays_though_somebody_wrote_it_at_that_moment() {
    let world = World::open().await;
    let owner = world.map("owner", &[]).await;
    world.map("orphan", &[("owner", &owner)]).await;
    world.meddler.meddle(Operation::Update, "orphan", |client| async move {
        client.merge(maps("orphan"), json!({"metadata": {"labels": {"who": "somebody"}}})).await.unwrap();
    });
    world.delete("owner", "Orphan").await;
    eventually("the owner goes", || !world.has("owner")).await;
    let orphan = world.client.get(maps("orphan")).unwrap();
    assert_eq!(orphan["metadata"]["labels"]["who"], "somebody");
    assert!(orphan["metadata"].get("ownerReferences").is_none(), "it has forgotten its owner: {orphan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_goes_when_the_dependent_it_waited_for_has_another() {
    let world = World::open().await;
    let (going, staying) = (world.map("going", &[]).await, world.map("staying", &[]).await);
    world.map("shared", &[("going", &going), ("staying", &staying)]).await;
    world.delete("going", "Foreground").await;
    eventually("the owner goes", || !world.has("going")).await;
    assert!(world.has("shared"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_goes_when_somebody_takes_the_reference_away_that_it_waited_for() {
    let world = World::open().await;
    let owner = world.map("owner", &[]).await;
    world.map("held", &[("owner", &owner)]).await;
    bounded(world.client.merge(maps("held"), json!({"metadata": {"finalizers": ["example.dev/hold"]}}))).await.unwrap();
    world.delete("owner", "Foreground").await;
    eventually("the dependent is marked", || {
        world.client.get(maps("held")).is_ok_and(|held| held["metadata"].get("deletionTimestamp").is_some())
    })
    .await;
    assert!(world.has("owner"));
    bounded(world.client.merge(maps("held"), json!({"metadata": {"ownerReferences": null}}))).await.unwrap();
    eventually("the owner goes", || !world.has("owner")).await;
    assert!(world.has("held"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_waits_for_itself_keeps_nobody_else_from_being_collected() {
    let world = World::open().await;
    let uid = world.map("a", &[]).await;
    let itself = json!({"metadata": {"ownerReferences": [reference("v1", "ConfigMap", "a", &uid)]}});
    bounded(world.client.merge(maps("a"), itself)).await.unwrap();
    world.delete("a", "Foreground").await;
    let owner = world.map("y", &[]).await;
    world.map("z", &[("y", &owner)]).await;
    world.delete("y", "Background").await;
    eventually("the dependent goes", || !world.has("z")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dependents_go_though_the_kind_of_their_owner_went_with_it() {
    let world = World::open().await;
    world.define(json!({"size": {"type": "integer"}})).await;
    let owner = bounded(world.client.create(widgets(""), widget("owner", json!({"size": 1})))).await.unwrap();
    let owners = json!([reference("example.dev/v1", "Widget", "owner", owner["metadata"]["uid"].as_str().unwrap())]);
    let names: Vec<String> = (0..200).map(|number| format!("dependent-{number}")).collect();
    for name in &names {
        world.map_owned(name, owners.clone()).await;
    }
    bounded(world.client.delete(definitions("widgets.example.dev"), &DeleteOptions::default())).await.unwrap();
    eventually("all of them go", || names.iter().all(|name| !world.has(name))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dependents_go_though_whoever_deleted_their_owner_did_not_wait() {
    let world = World::open().await;
    for round in 0..40 {
        let (owner, dependent) = (format!("owner-{round}"), format!("dependent-{round}"));
        let uid = world.map(&owner, &[]).await;
        world.map(&dependent, &[(&owner, &uid)]).await;
        while world.has(&owner) {
            abandon(world.client.delete(maps(&owner), &propagating("Background")), round % 8).await;
            tokio::task::yield_now().await;
        }
        eventually("the dependent goes", || !world.has(&dependent)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_dependents_of_one_owner_go_in_time_that_grows_with_their_number() {
    let world = World::open().await;
    let owner = world.map("an-owner", &[]).await;
    let names: Vec<String> = (0..3000).map(|number| format!("dependent-{number}")).collect();
    for name in &names {
        world.map(name, &[("an-owner", &owner)]).await;
    }
    world.delete("an-owner", "Foreground").await;
    eventually("the owner goes last", || !world.has("an-owner")).await;
    assert!(names.iter().all(|name| !world.has(name)));
}

#[tokio::test]
async fn an_owner_in_another_namespace_is_told_of_in_an_event() {
    let world = World::open().await;
    world.namespace("other").await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": "other"}});
    let place = Named { namespace: Some("other"), ..maps("") };
    let owner = bounded(world.client.create(place, owner)).await.unwrap();
    let uid = owner["metadata"]["uid"].as_str().unwrap();
    world.map("child", &[("owner", uid)]).await;
    eventually("the child goes, for it has no owner here", || !world.has("child")).await;
    let events = Named { group: "", resource: "events", namespace: Some("default"), name: "", subresource: "" };
    let told = bounded(world.client.list(events)).await.unwrap();
    let told: Vec<Value> = told.objects.iter().map(|event| serde_json::from_slice(event.wire()).unwrap()).collect();
    let event = told.iter().find(|event| event["reason"] == "OwnerRefInvalidNamespace").expect("it is told");
    let message = format!(
        "ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: {uid}] does not exist in namespace \"default\""
    );
    assert_eq!((&event["message"], &event["type"]), (&json!(message), &json!("Warning")));
    assert_eq!(event["source"], json!({"component": "garbage-collector-controller"}));
    assert_eq!(event["involvedObject"]["namespace"], "default");
    assert!(world.client.get(Named { name: "owner", ..place }).is_ok());
}
