//! The contract of the event stream: which events, and when.

use serde_json::json;

use super::{Room, filter};

/// How many events an engine remembers.
const REMEMBERED: usize = 256;

pub async fn every_change_of_a_container_is_told_in_order(room: &Room) {
    let image = room.import("told:1").await;
    let now = room.now().await;
    let id = room.create_with("told", "told:1", &["sleep", "600"], json!({"Labels": {"a": "b"}})).await;
    let mut events = room.events(&now, &["container"]).await;
    for verb in ["start", "pause", "unpause", "restart", "stop", "rename?name=tell"] {
        room.ask.post(&format!("/containers/{id}/{verb}")).await.expect(204);
    }
    room.clear(&[&id], &["told:1"]).await;
    let mut seen = Vec::new();
    loop {
        let event = events.next().await.unwrap();
        assert_eq!((&event["Type"], &event["Actor"]["ID"]), (&json!("container"), &json!(id)));
        let said = &event["Actor"]["Attributes"];
        assert_eq!((&said["image"], &said["a"]), (&json!("told:1"), &json!("b")), "{event}");
        let action = event["Action"].as_str().unwrap().to_owned();
        // Which signals a stop sends is up to the engine.
        if action != "kill" {
            seen.push(action.clone());
        }
        if action == "destroy" {
            break;
        }
    }
    let expected =
        ["create", "start", "pause", "unpause", "die", "stop", "start", "restart", "die", "stop", "rename", "destroy"];
    assert_eq!(seen, expected);
    room.ask.get(&format!("/images/{image}/json")).await.expect(404);
}

/// An inspect after an event shows at least the event's change.
pub async fn what_is_told_can_be_seen(room: &Room) {
    room.import("seen:1").await;
    let now = room.now().await;
    let mut events = room.events(&now, &["container", "image", "volume"]).await;
    let id = room.create("seen", "seen:1", &["sleep", "600"]).await;
    events.until(&id, "create").await;
    assert_eq!(room.status(&id).await, "created");
    for (verb, action, status) in [
        ("start", "start", "running"),
        ("pause", "pause", "paused"),
        ("unpause", "unpause", "running"),
        ("kill", "die", "exited"),
    ] {
        let path = format!("/containers/{id}/{verb}");
        // Wait for the event while the request is still being answered.
        let asked = room.ask.post(&path);
        let told = async {
            events.until(&id, action).await;
            assert_eq!(room.status(&id).await, status, "when {action} was told");
        };
        let (answer, ()) = tokio::join!(asked, told);
        answer.expect(204);
    }
    let path = format!("/containers/{id}");
    let removed = room.ask.delete(&path);
    let told = async {
        events.until(&id, "destroy").await;
        room.ask.get(&format!("/containers/{id}/json")).await.expect(404);
    };
    tokio::join!(removed, told).0.expect(204);
    let image = room.ask.get("/images/seen:1/json").await.expect(200).json["Id"].as_str().unwrap().to_owned();
    let removed = room.ask.delete("/images/seen:1");
    let told = async {
        events.until(&image, "delete").await;
        room.ask.get(&format!("/images/{image}/json")).await.expect(404);
    };
    tokio::join!(removed, told).0.expect(200);
}

/// Finding 295-S1: resuming from a time of the engine's clock loses nothing.
pub async fn what_happened_since_a_time_is_told_again_and_then_what_happens(room: &Room) {
    let make = async |name: &str| {
        room.ask.post_json("/volumes/create", &json!({"Name": name})).await.expect(201);
    };
    make("before").await;
    let now = room.now().await;
    make("since").await;
    let mut events = room.events(&now, &["volume"]).await;
    make("after").await;
    let mut seen = Vec::new();
    while seen.last().map(String::as_str) != Some("after") {
        let event = events.next().await.unwrap();
        seen.push(event["Actor"]["ID"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen, ["since", "after"]);
    // Whole seconds, which a client may store, repeat some events rather than lose any.
    let whole = now.split('.').next().unwrap();
    let mut events = room.events(whole, &["volume"]).await;
    events.until("since", "create").await;
    events.until("after", "create").await;
    for name in ["before", "since", "after"] {
        room.ask.delete(&format!("/volumes/{name}")).await.expect(204);
    }
}

pub async fn filters_keep_others_out_and_until_ends_the_stream(room: &Room) {
    let now = room.now().await;
    let image = room.import("filtered:1").await;
    room.ask.post_json("/volumes/create", &json!({"Name": "filtered"})).await.expect(201);
    room.ask.delete("/volumes/filtered").await.expect(204);
    room.clear(&[], &["filtered:1"]).await;
    let until = room.now().await;
    let asked = async |filters: &str| {
        let path = format!("/events?since={now}&until={until}&filters={filters}");
        let mut events = room.ask.stream(&path).await;
        let mut seen = Vec::new();
        while let Some(event) = events.next().await {
            let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            seen.push(format!("{} {}", word(&event["Type"]), word(&event["Action"])));
        }
        seen
    };
    assert_eq!(asked(&filter("type", &["volume"])).await, ["volume create", "volume destroy"]);
    assert_eq!(asked(&filter("event", &["destroy", "delete"])).await, ["volume destroy", "image delete"]);
    // The other form of a filter.
    assert_eq!(asked("%7B%22type%22%3A%5B%22volume%22%5D%7D").await, ["volume create", "volume destroy"]);
    assert_eq!(asked("").await.len(), 6, "{image}");
    let broken = room.ask.get("/events?filters=x&until=1").await;
    assert!(broken.status >= 400, "{}", broken.status);
}

/// A client that needs older events has lost them without notice: it must list after the stream is open.
pub async fn only_the_last_256_events_are_remembered(room: &Room) {
    let now = room.now().await;
    let made = REMEMBERED + 44;
    for number in 0..made {
        let body = json!({"Name": format!("many-{number:03}")});
        room.ask.post_json("/volumes/create", &body).await.expect(201);
    }
    let until = room.now().await;
    let path = format!("/events?since={now}&until={until}&filters={}", filter("type", &["volume"]));
    let mut events = room.ask.stream(&path).await;
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event["Actor"]["ID"].as_str().unwrap().to_owned());
    }
    let expected: Vec<String> = (made - REMEMBERED..made).map(|number| format!("many-{number:03}")).collect();
    assert_eq!((seen.len(), seen.first(), seen.last()), (REMEMBERED, expected.first(), expected.last()));
    for number in 0..made {
        room.ask.delete(&format!("/volumes/many-{number:03}")).await.expect(204);
    }
}
