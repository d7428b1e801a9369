//! Tests of deletecollection, and of the responses to deletes.

use std::{sync::Arc, time::Duration};

use rdd_apiserver::{
    admission::Warnings,
    auth::Identity,
    rest::{Context, Target, delete_collection},
};
use rdd_meta::options::{DeleteOptions, ListOptions, WriteOptions};
use serde_json::json;

use crate::support::{World, bounded, namespaces};

fn context() -> Context {
    Context {
        user: Arc::new(Identity::new("somebody", [])),
        manager: "test".to_owned(),
        options: WriteOptions::default(),
        deadline: tokio::time::Instant::now() + Duration::from_secs(30),
        warnings: Warnings::default(),
    }
}

fn maps(world: &World) -> Target {
    let served = world.core.api().registry.served();
    let def = Arc::clone(served.get("", "configmaps").unwrap());
    Target { def, version: 0, namespace: Some("default".to_owned()), name: None, subresource: None }
}

#[tokio::test]
async fn who_has_a_say_in_a_delete_of_many_is_told_no_name() {
    let world = World::open().await;
    world.map("one", &[]).await;
    let list = ListOptions::default();
    bounded(delete_collection(world.core.api(), &maps(&world), &context(), &DeleteOptions::default(), &list))
        .await
        .unwrap();
    assert!(!world.has("one"));
    let deletes = world.meddler.deletes.lock().unwrap();
    assert!(deletes.iter().any(|(resource, name, _)| resource == "configmaps" && name.is_empty()), "{deletes:?}");
    assert!(!deletes.iter().any(|(_, name, _)| name == "one"), "{deletes:?}");
}

#[tokio::test]
async fn the_delete_of_a_namespace_is_one_of_exactly_that_namespace() {
    let world = World::open().await;
    world.namespace("short").await;
    let uid = world.client.get(namespaces("short")).unwrap()["metadata"]["uid"].clone();
    bounded(world.client.delete(namespaces("short"), &DeleteOptions::default())).await.unwrap();
    let deletes = world.meddler.deletes.lock().unwrap();
    let (_, _, options) = deletes.iter().find(|(resource, ..)| resource == "namespaces").unwrap();
    assert_eq!(options["preconditions"], json!({"uid": uid}));
}

#[tokio::test]
async fn a_delete_of_a_few_says_where_to_go_on() {
    let world = World::open().await;
    for name in ["a", "b", "c"] {
        world.map(name, &[]).await;
    }
    let (target, options) = (maps(&world), DeleteOptions::default());
    let list = ListOptions { limit: 2, ..ListOptions::default() };
    let page = bounded(delete_collection(world.core.api(), &target, &context(), &options, &list)).await.unwrap();
    assert_eq!(page.objects.len(), 2);
    assert!(!world.has("a") && !world.has("b") && world.has("c"));
    assert!(!page.metadata.continue_token.is_empty(), "there is more");
}
