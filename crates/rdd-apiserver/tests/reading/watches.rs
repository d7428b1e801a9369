//! Tests of watches. Time is paused only while no write runs, because the store has a thread of its own.

use std::time::Duration;

use rdd_apiserver::state::Limits;
use serde_json::json;
use tokio::time::Instant;

use crate::support::{PARTIAL, TABLE, THINGS, WIDGETS, World, mk_things};

fn watching(query: &str) -> String {
    format!("{THINGS}?watch=true&{query}")
}

#[tokio::test]
async fn without_a_version_what_is_there_comes_first_and_then_the_changes() {
    let world = World::new().await;
    let a = world.put("a", 1, "1").await;
    let mut watch = world.watch(&watching("")).await;
    assert_eq!(watch.short().await, format!("ADDED a@{a}"));
    let b = world.put("b", 1, "1").await;
    let a = world.put("a", 2, "1").await;
    let gone = world.delete("b").await;
    assert_eq!(watch.short().await, format!("ADDED b@{b}"));
    let event = watch.event().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["apiVersion"]), (&json!("MODIFIED"), &json!("example.dev/v1")));
    assert_eq!(
        (&event["object"]["spec"]["size"], &event["object"]["metadata"]["resourceVersion"]),
        (&json!(2), &json!(a.to_string()))
    );
    assert_eq!(watch.short().await, format!("DELETED b@{gone}"), "under the version of the deletion");
}

#[tokio::test]
async fn after_a_version_only_what_came_later_is_told_and_in_the_version_of_the_path() {
    let world = World::new().await;
    let a = world.put("a", 1, "1").await;
    let b = world.put("b", 1, "1").await;
    let mut watch = world.watch(&watching(&format!("resourceVersion={a}"))).await;
    assert_eq!(watch.short().await, format!("ADDED b@{b}"));
    let path = format!("/apis/example.dev/v2/things?watch=1&resourceVersion={a}");
    assert_eq!(world.watch(&path).await.event().await.unwrap()["object"]["apiVersion"], "example.dev/v2");
    let path = format!("/apis/example.dev/v1/watch/namespaces/ns/things/b?resourceVersion={a}");
    assert_eq!(world.watch(&path).await.short().await, format!("ADDED b@{b}"));
    let mut quiet =
        world.watch(&watching("resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")).await;
    let c = world.put("c", 1, "1").await;
    assert_eq!(quiet.short().await, format!("ADDED c@{c}"));
}

#[tokio::test]
async fn what_is_queued_comes_in_one_frame() {
    let world = World::new().await;
    for number in 0..50 {
        world.put(&format!("t{number}"), 1, "1").await;
    }
    let mut watch = world.watch(&watching("")).await;
    let frame = watch.frame().await.unwrap();
    assert_eq!(frame.iter().filter(|byte| **byte == b'\n').count(), 50);
    world.put_widget("large", &"x".repeat(100_000)).await;
    let mut large = world.watch(&format!("{WIDGETS}?watch=1")).await;
    assert_eq!(large.short().await.split('@').next(), Some("ADDED large"));
}

#[tokio::test]
async fn selectors_turn_changes_into_arrivals_and_departures() {
    let world = World::new().await;
    let first = world.put("a", 1, "0").await;
    let mut labels = world.watch(&watching(&format!("labelSelector=on=1&resourceVersion={first}"))).await;
    let mut fields = world.watch(&watching(&format!("fieldSelector=spec.size=2&resourceVersion={first}"))).await;
    let mut named = world.watch(&watching(&format!("fieldSelector=metadata.name=b&resourceVersion={first}"))).await;
    let in_view = world.put("a", 2, "1").await;
    let stays = world.put("a", 2, "1").await;
    let out = world.put("a", 3, "0").await;
    let b = world.put("b", 3, "0").await;
    for watch in [&mut labels, &mut fields] {
        assert_eq!(watch.short().await, format!("ADDED a@{in_view}"));
        assert_eq!(watch.short().await, format!("MODIFIED a@{stays}"));
        let left = watch.event().await.unwrap();
        assert_eq!((&left["type"], &left["object"]["spec"]["size"]), (&json!("DELETED"), &json!(2)), "the old content");
        assert_eq!(left["object"]["metadata"]["resourceVersion"], out.to_string());
    }
    assert_eq!(named.short().await, format!("ADDED b@{b}"));
}

#[tokio::test]
async fn initial_events_end_with_a_mark_even_if_there_are_none() {
    let world = World::new().await;
    let other = world.put_in("other", "x", 1, "1").await;
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = world.watch(&watching(initial)).await;
    let event = watch.event().await.unwrap();
    assert_eq!(
        event,
        json!({"type": "BOOKMARK", "object": {"kind": "Thing", "apiVersion": "example.dev/v1", "metadata": {
            "resourceVersion": other.to_string(), "annotations": {"k8s.io/initial-events-end": "true"}}}})
    );
    let a = world.put("a", 1, "1").await;
    assert_eq!(watch.short().await, format!("ADDED a@{a}"));
    let mut again = world.watch(&watching(&format!("{initial}&resourceVersion={a}"))).await;
    assert_eq!(again.short().await, format!("ADDED a@{a}"));
    assert_eq!(again.short().await, format!("BOOKMARK @{a} end"));
    tokio::time::pause();
    let mut future = world.watch(&watching(&format!("{initial}&resourceVersion=999"))).await;
    assert_eq!(future.short().await, format!("ERROR 504 Timeout: Too large resource version: 999, current: {a}"));
    assert_eq!(future.short().await, "end");
    let told = world.ask(&watching("sendInitialEvents=true"), &[]).await;
    assert_eq!(told.code.as_u16(), 422);
}

#[tokio::test]
async fn bookmarks_come_every_minute_and_before_the_end_and_the_end_is_clean() {
    let world = World::new().await;
    let a = world.put("a", 1, "1").await;
    let b = world.put_in("other", "b", 1, "1").await;
    tokio::time::pause();
    let started = Instant::now();
    let mut watch =
        world.watch(&watching(&format!("resourceVersion={a}&allowWatchBookmarks=true&timeoutSeconds=100"))).await;
    let mut without = world.watch(&watching(&format!("resourceVersion={a}&timeoutSeconds=100"))).await;
    assert_eq!(watch.short().await, format!("BOOKMARK @{b}"), "it promises what happened elsewhere too");
    assert!((57..=63).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
    assert_eq!(watch.short().await, format!("BOOKMARK @{b}"));
    assert_eq!(started.elapsed().as_secs(), 98);
    assert_eq!(watch.short().await, "end");
    assert_eq!(started.elapsed().as_secs(), 100);
    assert_eq!(without.short().await, "end");
    let mut over = world.watch(&watching("timeoutSeconds=-1")).await;
    assert_eq!(over.short().await, "end");
}

#[tokio::test]
async fn a_watch_without_a_timeout_ends_by_itself_after_half_an_hour_or_more() {
    let world = World::new().await;
    tokio::time::pause();
    let started = Instant::now();
    assert_eq!(world.watch(&watching("")).await.short().await, "end");
    let lasted = started.elapsed();
    assert!((Duration::from_secs(1800)..Duration::from_secs(3600)).contains(&lasted), "{lasted:?}");
}

#[tokio::test]
async fn a_version_that_is_too_old_is_an_event_and_not_an_answer() {
    let limits = Limits { history_events: 2, history_floor: 0, ..Limits::default() };
    let world = World::with_limits(limits).await;
    let first = world.put("a", 0, "1").await;
    let mut slow = world.watch(&watching(&format!("resourceVersion={first}"))).await;
    for size in 1..10 {
        world.put("a", size, "1").await;
    }
    let mut late = world.watch(&watching(&format!("resourceVersion={first}"))).await;
    for watch in [&mut late, &mut slow] {
        let told = watch.short().await;
        assert!(told.starts_with(&format!("ERROR 410 too old resource version: {first} (")), "{told}");
        assert_eq!(watch.short().await, "end");
    }
}

#[tokio::test]
async fn shutdown_and_the_end_of_the_definition_end_a_watch_and_a_new_schema_does_not() {
    let world = World::new().await;
    let a = world.put("a", 1, "1").await;
    let path = watching(&format!("resourceVersion={a}"));
    let mut watch = world.watch(&path).await;
    let mut other = world.watch(&format!("{WIDGETS}?watch=1&resourceVersion={a}")).await;
    world.api.registry.put(mk_things("uid-1", 1_000_000));
    let b = world.put("b", 1, "1").await;
    let event = watch.event().await.unwrap();
    assert_eq!(event["object"]["metadata"]["resourceVersion"], b.to_string());
    assert_eq!(event["object"]["spec"]["color"], "grey", "in the form of the new definition");
    world.api.registry.put(mk_things("uid-2", 0));
    assert_eq!(watch.short().await, "end", "a definition of the same name is another one");
    let mut watch = world.watch(&path).await;
    assert_eq!(watch.short().await, format!("ADDED b@{b}"));
    world.api.registry.remove("example.dev", "things", b);
    assert_eq!(watch.short().await, "end");
    world.stopping.cancel();
    assert_eq!(other.short().await, "end");
}

#[tokio::test]
async fn a_watch_that_is_behind_tells_the_last_changes_of_a_definition_that_is_gone_and_nothing_of_the_next() {
    let world = World::new().await;
    let a = world.put("a", 1, "1").await;
    let path = watching(&format!("resourceVersion={a}"));
    // The watches are read only after all changes.
    let mut of_first = world.watch(&path).await;
    let gone = world.delete("a").await;
    world.api.registry.remove("example.dev", "things", gone);
    world.api.registry.put(mk_things("uid-2", gone.0 + 1));
    let again = world.put("a", 2, "1").await;
    let mut of_second = world.watch(&watching(&format!("resourceVersion={gone}"))).await;
    world.api.registry.put(mk_things("uid-2", again.0));
    let changed = world.put("a", 3, "1").await;
    // The definition is replaced without an event of its deletion.
    world.api.registry.put(mk_things("uid-3", changed.0));
    world.put("b", 1, "1").await;
    assert_eq!(of_first.short().await, format!("DELETED a@{gone}"));
    assert_eq!(of_first.short().await, "end");
    assert_eq!(of_second.short().await, format!("ADDED a@{again}"));
    assert_eq!(of_second.short().await, format!("MODIFIED a@{changed}"));
    assert_eq!(of_second.short().await, "end");
}

#[tokio::test]
async fn a_watch_of_a_resource_that_went_before_it_began_ends() {
    let world = World::new().await;
    let a = world.put("a", 1, "1").await;
    let path = watching(&format!("resourceVersion={a}"));
    let (target, _) = world.target(&path);
    world.api.registry.remove("example.dev", "things", a);
    let mut watch = world.watch_of(&target, &path).await;
    assert_eq!(watch.short().await, "end");
}

#[tokio::test]
async fn tables_tell_their_columns_once() {
    let world = World::new().await;
    let a = world.put("a", 1, "1").await;
    let initial =
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&includeObject=None";
    let mut watch = world.watch_as(&watching(initial), TABLE).await;
    let first = watch.event().await.unwrap();
    assert_eq!((&first["type"], &first["object"]["kind"]), (&json!("ADDED"), &json!("Table")));
    assert_eq!(first["object"]["metadata"], json!({"resourceVersion": a.to_string()}));
    assert_eq!(first["object"]["columnDefinitions"].as_array().unwrap().len(), 3);
    assert_eq!(first["object"]["rows"], json!([{"cells": ["a", 1, "100s"], "object": null}]));
    let mark = watch.event().await.unwrap();
    assert_eq!((&mark["type"], &mark["object"]["columnDefinitions"]), (&json!("BOOKMARK"), &json!(null)));
    let annotations = &mark["object"]["rows"][0]["object"]["metadata"]["annotations"];
    assert_eq!(annotations["k8s.io/initial-events-end"], "true", "the mark is there whatever is included");
    let mut partial = world.watch_as(&watching(""), PARTIAL).await;
    let event = partial.event().await.unwrap();
    assert_eq!((&event["object"]["kind"], event["object"].get("spec")), (&json!("PartialObjectMetadata"), None));
}

#[tokio::test]
async fn a_watch_is_refused_before_it_begins_for_what_the_request_says() {
    let world = World::new().await;
    for (path, accept, code) in [
        (watching(""), "application/yaml", 406),
        (watching("fieldSelector=nope=1"), "*/*", 400),
        (watching("resourceVersion=x"), "*/*", 500),
        (format!("{}?fieldSelector=metadata.name=b", THINGS.replace("/v1/", "/v1/watch/") + "/a"), "*/*", 400),
    ] {
        let told = world.accept(&path, accept).await;
        assert_eq!(told.code.as_u16(), code, "{path}: {}", told.text());
    }
    let told = world.accept(&watching(""), "application/yaml").await;
    assert!(told.text().contains("application/json;stream=watch"), "{}", told.text());
}
