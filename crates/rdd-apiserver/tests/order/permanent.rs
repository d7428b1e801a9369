//! An object that can never be stored is the client's error, not a temporary failure.

use rdd_apiserver::rest::local::Named;
use serde_json::{Value, json};

use crate::support::World;

/// Events, because their validation limits hardly any field.
const EVENTS: Named<'_> =
    Named { group: "", resource: "events", namespace: Some("default"), name: "", subresource: "" };

fn mk_event(name: &str, message: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"namespace": "default"}, "message": message,
    })
}

// Finding A-8
#[tokio::test]
async fn a_name_that_is_too_long_for_the_store_is_422() {
    let world = World::open().await;
    let status = world.client.create(EVENTS, mk_event(&"e".repeat(5_000), "")).await.unwrap_err();
    assert_eq!(status.code, 422, "{status:?}");
    assert!(status.message.contains("metadata.name: Too long: may not be more than 40"), "{}", status.message);
}

// Finding A-8
#[tokio::test]
async fn an_object_that_is_too_large_for_the_store_is_413() {
    let world = World::open().await;
    let status = world.client.create(EVENTS, mk_event("large", &"x".repeat(9 << 20))).await.unwrap_err();
    assert_eq!((status.code, status.message.as_str()), (413, "Request entity too large: limit is 8388608"));
}
