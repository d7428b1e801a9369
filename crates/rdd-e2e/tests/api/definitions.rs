//! Tests CRDs under load: they are served at once, and removed with their objects while clients watch.

use std::thread;

use rdd_testkit::api::{Next, Server, TestApi};
use serde_json::{Value, json};

use crate::support::{DEFINITIONS, SOON, customs, mk_custom, mk_definition, name, until, until_gone};

fn path(kind: &str) -> String {
    format!("{DEFINITIONS}/{}s.k.example", kind.to_lowercase())
}

fn is_true(definition: &Value, kind: &str) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|held| held["type"] == kind && held["status"] == "True"))
}

// Finding O-12
#[test]
fn a_definition_is_established_when_it_is_answered_and_its_first_object_waits_for_nothing() {
    let api = TestApi::start();
    thread::scope(|scope| {
        for maker in 0..3 {
            let api = &api;
            scope.spawn(move || {
                for count in 0..10 {
                    let kind = format!("Book{maker}x{count}");
                    let made = api.post(DEFINITIONS, &mk_definition(&kind, &json!({"type": "object"}))).expect(201);
                    assert!(is_true(&made, "Established") && is_true(&made, "NamesAccepted"), "{made}");
                    // No retries and no delay: these are the very next requests.
                    api.post(&customs(&kind, "default"), &mk_custom(&kind, "a", &json!({}))).expect(201);
                    let served = api.get("/apis/k.example/v1").expect(200);
                    let found = served["resources"].as_array().unwrap().iter().any(|one| one["kind"] == kind.as_str());
                    assert!(found, "{kind} is not discovered");
                }
            });
        }
    });
}

#[test]
fn a_definition_goes_with_its_objects_under_watches_and_waits_for_their_finalizers() {
    let api = TestApi::start();
    api.post(DEFINITIONS, &mk_definition("Book", &json!({"type": "object"}))).expect(201);
    let books = customs("Book", "default");
    for count in 0..5 {
        api.post(&books, &mk_custom("Book", &format!("b{count}"), &json!({}))).expect(201);
    }
    let mut held = mk_custom("Book", "held", &json!({}));
    held["metadata"]["finalizers"] = json!(["k.example/hold"]);
    api.post(&books, &held).expect(201);
    let from = api.get(&books).expect(200)["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut watches: Vec<_> =
        (0..3).map(|_| api.watch(&format!("{books}?watch=true&resourceVersion={from}"))).collect();
    api.delete(&path("Book")).expect(200);
    let waiting = until(&api, &path("Book"), "the definition to wait", |definition| is_true(definition, "Terminating"));
    assert_eq!(waiting["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    until(&api, &format!("{books}/held"), "its deletion", |book| book["metadata"]["deletionTimestamp"].is_string());
    let refused = api.post(&books, &mk_custom("Book", "late", &json!({})));
    assert_eq!((refused.code, refused.reason().as_str()), (403, "Forbidden"), "{}", refused.text());
    api.get(&path("Book")).expect(200);
    api.merge(&format!("{books}/held"), &json!({"metadata": {"finalizers": null}})).expect(200);
    until_gone(&api, &path("Book"));
    assert_eq!(api.get(&books).code, 404);
    for watch in &mut watches {
        let mut gone = Vec::new();
        loop {
            match watch.next(SOON) {
                Next::Event(event) if event["type"] == "DELETED" => gone.push(name(&event["object"])),
                Next::Event(event) => assert_eq!(event["type"], "MODIFIED", "{event}"),
                Next::Ended => break,
                Next::Quiet => panic!("the watch goes on although nobody serves it any more; it saw {gone:?}"),
            }
        }
        gone.sort();
        assert_eq!(gone, ["b0", "b1", "b2", "b3", "b4", "held"]);
    }
}

#[test]
fn a_definition_that_comes_again_begins_empty() {
    let api = TestApi::start();
    for round in 0..3 {
        api.post(DEFINITIONS, &mk_definition("Book", &json!({"type": "object"}))).expect(201);
        let books = customs("Book", "default");
        assert_eq!(api.get(&books).expect(200)["items"], json!([]), "in round {round}");
        api.post(&books, &mk_custom("Book", "a", &json!({}))).expect(201);
        api.delete(&path("Book")).expect(200);
        until_gone(&api, &path("Book"));
    }
}

#[test]
fn a_definition_that_changes_under_a_watch_loses_no_event() {
    let api = TestApi::start();
    let mut definition = api.post(DEFINITIONS, &mk_definition("Book", &json!({"type": "object"}))).expect(201);
    let books = customs("Book", "default");
    let mut at = api.get(&books).expect(200)["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    for round in 0..5 {
        let mut watch = api.watch(&format!("{books}?watch=true&resourceVersion={at}"));
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][format!("p{round}")] =
            json!({"type": "string"});
        definition = api.put(&path("Book"), &definition).expect(200);
        let object = format!("b{round}");
        api.post(&books, &mk_custom("Book", &object, &json!({}))).expect(201);
        // A watch may end because its CRD changed; when it is resumed, it delivers the remaining events.
        let event = loop {
            match watch.next(SOON) {
                Next::Event(event) => break event,
                Next::Ended => watch = api.watch(&format!("{books}?watch=true&resourceVersion={at}")),
                Next::Quiet => panic!("the event of {object} never came"),
            }
        };
        assert_eq!((event["type"].as_str(), name(&event["object"])), (Some("ADDED"), object));
        event["object"]["metadata"]["resourceVersion"].as_str().unwrap().clone_into(&mut at);
    }
}
