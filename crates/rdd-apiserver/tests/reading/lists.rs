//! Tests of lists, complete and in pages.

use std::{io::Read as _, time::Duration};

use rdd_apiserver::state::Limits;
use serde_json::{Value, json};

use crate::support::{THINGS, WIDGETS, World};

fn names(list: &Value) -> String {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_list_of_nothing_has_no_items_and_a_version() {
    let world = World::new().await;
    let revision = world.put_in("other", "a", 1, "1").await;
    let told = world.ask(THINGS, &[]).await;
    let expected = format!(
        r#"{{"kind":"ThingList","apiVersion":"example.dev/v1","metadata":{{"resourceVersion":"{revision}","continue":""}},"items":[]}}{}"#,
        "\n"
    );
    assert_eq!(told.text(), expected);
    let told = world.ask(WIDGETS, &[]).await;
    let expected = format!(
        r#"{{"kind":"WidgetList","apiVersion":"v1","metadata":{{"resourceVersion":"{revision}"}},"items":[]}}{}"#,
        "\n"
    );
    assert_eq!(told.text(), expected);
}

#[tokio::test]
async fn items_of_custom_lists_have_their_type_and_those_of_built_in_ones_do_not() {
    let world = World::new().await;
    world.put("a", 1, "1").await;
    world.put_widget("w", "x").await;
    let things = world.json("/apis/example.dev/v2/things").await;
    assert_eq!(
        (&things["items"][0]["apiVersion"], &things["items"][0]["kind"]),
        (&json!("example.dev/v2"), &json!("Thing"))
    );
    let widgets = world.json(WIDGETS).await;
    let first = widgets["items"][0].as_object().unwrap();
    assert_eq!(first.keys().collect::<Vec<_>>(), ["data", "metadata", "spec"]);
}

#[tokio::test]
async fn pages_are_of_one_snapshot_and_say_what_follows() {
    let world = World::new().await;
    for name in ["a", "b", "c", "d", "e"] {
        world.put(name, 1, "1").await;
    }
    let first = world.json(&format!("{THINGS}?limit=2")).await;
    assert_eq!((names(&first).as_str(), &first["metadata"]["remainingItemCount"]), ("a b", &json!(3)));
    world.put("bb", 1, "1").await;
    world.delete("e").await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = world.json(&format!("{THINGS}?limit=2&continue={token}")).await;
    assert_eq!((names(&second).as_str(), &second["metadata"]["remainingItemCount"]), ("c d", &json!(1)));
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let last = world.json(&format!("{THINGS}?limit=2&continue={token}")).await;
    assert_eq!((names(&last).as_str(), &last["metadata"]["continue"]), ("e", &json!("")));
    assert!(last["metadata"].get("remainingItemCount").is_none());
    let selected = world.json(&format!("{THINGS}?limit=2&labelSelector=on=1")).await;
    assert!(selected["metadata"].get("remainingItemCount").is_none(), "nobody counts what a selector would find");
    assert!(!selected["metadata"]["continue"].as_str().unwrap().is_empty());
    let all = world.json("/apis/example.dev/v1/things?limit=1").await;
    let token = all["metadata"]["continue"].as_str().unwrap();
    assert_eq!(names(&world.json(&format!("/apis/example.dev/v1/things?continue={token}")).await), "b bb c d");
}

#[tokio::test]
async fn a_page_of_a_snapshot_that_is_gone_is_refused_with_a_token_that_works() {
    let limits = Limits { history_events: 2, history_floor: 0, ..Limits::default() };
    let world = World::with_limits(limits).await;
    for name in ["a", "b", "c"] {
        world.put(name, 1, "1").await;
    }
    let first = world.json(&format!("{THINGS}?limit=1")).await;
    for round in 0..5 {
        world.put("b", round, "1").await;
    }
    let token = first["metadata"]["continue"].as_str().unwrap();
    let told = world.ask(&format!("{THINGS}?limit=1&continue={token}"), &[]).await;
    let status = told.json();
    assert_eq!((told.code.as_u16(), &status["reason"]), (410, &json!("Expired")));
    let token = status["metadata"]["continue"].as_str().unwrap();
    let next = world.json(&format!("{THINGS}?limit=1&continue={token}")).await;
    assert_eq!(names(&next), "b");
    let token = next["metadata"]["continue"].as_str().unwrap();
    assert_eq!(names(&world.json(&format!("{THINGS}?limit=1&continue={token}")).await), "c");
    let old = first["metadata"]["resourceVersion"].as_str().unwrap();
    let told = world.ask(&format!("{THINGS}?resourceVersion={old}&resourceVersionMatch=Exact"), &[]).await;
    assert_eq!((told.code.as_u16(), told.json()["metadata"].get("continue")), (410, None));
    assert_eq!(names(&world.json(&format!("{THINGS}?resourceVersion={old}")).await), "a b c");
}

#[tokio::test]
async fn versions_ask_for_the_past_the_present_or_the_future() {
    let world = World::new().await;
    let first = world.put("a", 1, "1").await;
    world.put("b", 1, "1").await;
    for (query, expected) in [
        (String::new(), "a b"),
        ("resourceVersion=0".to_owned(), "a b"),
        (format!("resourceVersion={first}"), "a b"),
        (format!("resourceVersion={first}&limit=9"), "a"),
        (format!("resourceVersion={first}&resourceVersionMatch=Exact"), "a"),
        (format!("resourceVersion={first}&resourceVersionMatch=NotOlderThan&limit=9"), "a b"),
    ] {
        assert_eq!(names(&world.json(&format!("{THINGS}?{query}")).await), expected, "{query}");
    }
    tokio::time::pause();
    let told = world.ask(&format!("{THINGS}?resourceVersion=9999"), &[]).await;
    assert_eq!((told.code.as_u16(), &told.json()["details"]["retryAfterSeconds"]), (504, &json!(1)));
    for (query, code) in [
        ("resourceVersion=x", 400),
        ("continue=$", 400),
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422),
        ("labelSelector=a%20in", 400),
        ("limit=x", 400),
    ] {
        assert_eq!(world.ask(&format!("{THINGS}?{query}"), &[]).await.code.as_u16(), code, "{query}");
    }
}

#[tokio::test]
async fn selectors_choose_by_label_by_key_and_by_content() {
    let world = World::new().await;
    world.put("a", 1, "1").await;
    world.put("b", 2, "0").await;
    world.put("c", 2, "1").await;
    world.put_in("other", "a", 2, "1").await;
    for (query, expected) in [
        ("labelSelector=on=1", "a c"),
        ("labelSelector=on%20notin%20(1)", "b"),
        ("fieldSelector=metadata.name=b", "b"),
        ("fieldSelector=metadata.name=bb", ""),
        ("fieldSelector=metadata.name!=b", "a c"),
        ("fieldSelector=metadata.name=b&labelSelector=on=1", ""),
        ("fieldSelector=metadata.namespace=ns", "a b c"),
        ("fieldSelector=metadata.namespace=other", ""),
        ("fieldSelector=spec.size=2", "b c"),
        ("fieldSelector=spec.size!=2", "a"),
        ("fieldSelector=spec.size=2,metadata.name=c", "c"),
        ("fieldSelector=spec.size=2&labelSelector=on=1&limit=5", "c"),
    ] {
        assert_eq!(names(&world.json(&format!("{THINGS}?{query}")).await), expected, "{query}");
    }
    let everywhere = world.json("/apis/example.dev/v1/things?fieldSelector=metadata.name=a").await;
    assert_eq!(names(&everywhere), "a a");
    let told = world.ask(&format!("{THINGS}?fieldSelector=spec.x=1"), &[]).await;
    assert_eq!((told.code.as_u16(), &told.json()["message"]), (400, &json!("field label not supported: spec.x")));
}

#[tokio::test]
async fn a_large_list_is_whole_in_frames_that_are_neither_tiny_nor_huge_and_compressed_if_asked() {
    let world = World::new().await;
    for number in 0..300 {
        world.put_widget(&format!("w{number:03}"), &"x".repeat(if number == 7 { 200_000 } else { 1000 })).await;
    }
    let mut body = world.response(WIDGETS, &[]).await.into_body();
    let mut sizes = Vec::new();
    let mut text = Vec::new();
    while let Some(frame) = http_body_util::BodyExt::frame(&mut body).await {
        let data = frame.unwrap().into_data().unwrap();
        sizes.push(data.len());
        text.extend_from_slice(&data);
    }
    let list: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 300);
    assert!(sizes.len() < 12, "{sizes:?}");
    assert!(sizes.iter().filter(|size| **size > 70_000).count() == 1, "{sizes:?}");

    let zipped = world.ask(WIDGETS, &[("accept-encoding", "br, gzip")]).await;
    assert_eq!(
        (&zipped.headers["content-encoding"], &zipped.headers["vary"]),
        (&"gzip".parse().unwrap(), &"Accept-Encoding".parse().unwrap())
    );
    assert!(zipped.body.len() < text.len() / 10);
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&zipped.body[..]).read_to_end(&mut plain).unwrap();
    assert_eq!(plain, text);
    let small = world.ask(&format!("{WIDGETS}?limit=1"), &[("accept-encoding", "gzip")]).await;
    assert!(!small.headers.contains_key("content-encoding"));
}

#[tokio::test]
async fn a_list_that_nobody_reads_on_holds_up_nobody() {
    let world = World::new().await;
    for number in 0..200 {
        world.put_widget(&format!("w{number}"), &"x".repeat(1000)).await;
    }
    let unread = world.response(WIDGETS, &[]).await;
    let written = tokio::time::timeout(Duration::from_secs(10), world.put_widget("later", "y")).await;
    assert!(written.is_ok());
    drop(unread);
}
