//! Tests lists and watches against a model, while several clients write at random.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use rdd_apiserver::state::Limits;
use rdd_stdx::clock::SystemClock;
use rdd_testkit::api::{Next, Reply, Server, TestApi};
use serde_json::{Value, json};

use crate::support::{MAPS, Random, SOON, expect_proper, mk_map, name, version};

const WRITERS: u64 = 3;
const WRITES: usize = 150;
/// The selectors of lists and watches: none, and some that objects start and stop to match.
const SELECTORS: &[&str] =
    &["", "&labelSelector=tier%3Dfront", "&labelSelector=tier!%3Dfront,name", "&fieldSelector=metadata.name%3Dm3"];

fn labelled(name: &str, value: &str, tier: &str) -> Value {
    let mut map = mk_map(name, value);
    map["metadata"]["labels"] = json!({"tier": tier, "name": name});
    map
}

/// Writes at random; a failed write lost a race against another writer.
fn write_at_random(api: &TestApi, seed: u64) {
    let mut random = Random::new(seed);
    for turn in 0..WRITES {
        let name = format!("m{}", random.below(12));
        let path = format!("{MAPS}/{name}");
        let map = labelled(&name, &format!("{seed}-{turn}"), random.pick(&["front", "back"]));
        let reply = match random.below(5) {
            0 => api.delete(&path),
            1 => api.merge(&path, &json!({"metadata": {"labels": {"tier": random.pick(&["front", "back"])}}})),
            2 => api.put(&path, &map),
            _ => api.post(MAPS, &map),
        };
        assert!(matches!(reply.code, 200 | 201 | 404 | 409), "{}", reply.text());
    }
}

/// The content of a list: the resource version and data by name.
fn shown<'a>(items: impl IntoIterator<Item = &'a Value>) -> BTreeMap<String, (u64, Value)> {
    items.into_iter().map(|item| (name(item), (version(item), item["data"].clone()))).collect()
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn list_at(api: &TestApi, version: u64, selector: &str) -> BTreeMap<String, (u64, Value)> {
    let path = format!("{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact{selector}");
    shown(items(&api.get(&path).expect(200)))
}

/// Applies the events of a watch to a list, and compares the result with the list at the same version, every few events and at the end.
fn follow(api: &TestApi, selector: &str, written: &AtomicBool) {
    let list = api.get(&format!("{MAPS}?{}", selector.trim_start_matches('&'))).expect(200);
    let (mut at, mut folded) = (version(&list), shown(items(&list)));
    let mut events = api.watch(&format!("{MAPS}?watch=true&resourceVersion={at}{selector}"));
    let mut count = 0;
    let began = Instant::now();
    loop {
        let finished = written.load(Ordering::SeqCst);
        match events.next(Duration::from_millis(100)) {
            Next::Event(event) => {
                let object = &event["object"];
                assert!(version(object) > at, "{event} after {at}");
                at = version(object);
                let before = match event["type"].as_str() {
                    Some("DELETED") => folded.remove(&name(object)),
                    _ => folded.insert(name(object), (at, object["data"].clone())),
                };
                assert_eq!(before.is_none(), event["type"] == "ADDED", "{event} after {before:?}");
                count += 1;
                if count % 10 == 0 {
                    assert_eq!(folded, list_at(api, at, selector), "at {at} of {selector:?}");
                }
            }
            Next::Quiet if finished => {
                let now = api.get(&format!("{MAPS}?{}", selector.trim_start_matches('&'))).expect(200);
                if folded == shown(items(&now)) {
                    break;
                }
            }
            Next::Quiet => {}
            Next::Ended => panic!("the watch of {selector:?} ended"),
        }
        assert!(began.elapsed() < SOON * 4, "what was watched of {selector:?} never became what is listed: {folded:?}");
    }
    assert!(count > 0, "the watch of {selector:?} saw nothing");
}

#[test]
fn every_watch_folds_to_the_list_at_its_version_with_and_without_selectors() {
    let api = TestApi::start();
    let written = AtomicBool::new(false);
    thread::scope(|scope| {
        for selector in SELECTORS {
            let (api, written) = (&api, &written);
            scope.spawn(move || follow(api, selector, written));
        }
        let writers: Vec<_> = (1..=WRITERS)
            .map(|seed| {
                scope.spawn({
                    let api = &api;
                    move || write_at_random(api, seed)
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        written.store(true, Ordering::SeqCst);
    });
}

/// All pages of a list, with the version that they report.
fn pages(api: &TestApi, selector: &str) -> (u64, BTreeMap<String, (u64, Value)>) {
    let mut found = BTreeMap::new();
    let mut more = String::new();
    let mut of = None;
    loop {
        let page = api.get(&format!("{MAPS}?limit=2{selector}{more}")).expect(200);
        let at = version(&page);
        assert_eq!(*of.get_or_insert(at), at, "the pages are of different versions");
        for (name, item) in shown(items(&page)) {
            assert!(found.insert(name, item).is_none(), "an object is on two pages");
        }
        match page["metadata"]["continue"].as_str() {
            Some(token) if !token.is_empty() => more = format!("&continue={token}"),
            _ => return (at, found),
        }
    }
}

#[test]
fn pages_of_a_list_are_one_snapshot_while_others_write() {
    let api = TestApi::start();
    for count in 0..12 {
        api.post(MAPS, &labelled(&format!("m{count}"), "0", "front")).expect(201);
    }
    thread::scope(|scope| {
        for seed in 1..=WRITERS {
            let api = &api;
            scope.spawn(move || write_at_random(api, seed));
        }
        for _ in 0..15 {
            for selector in SELECTORS {
                let (at, found) = pages(&api, selector);
                assert_eq!(found, list_at(&api, at, selector), "pages at {at} of {selector:?}");
            }
        }
    });
}

fn mk_forgetful() -> TestApi {
    let limits = Limits {
        history_age: Duration::from_millis(1),
        history_events: 4,
        history_floor: 2,
        trim_every: Duration::from_millis(10),
        ..Limits::default()
    };
    TestApi::start_with(limits, SystemClock::shared())
}

/// Writes until a version has been compacted; returns the first reply that reports it.
fn until_expired(api: &TestApi, what: &str, ask: impl Fn() -> Reply) -> Reply {
    let began = Instant::now();
    for turn in 0.. {
        let reply = ask();
        expect_proper(what, &reply);
        if reply.code != 200 {
            return reply;
        }
        assert!(began.elapsed() < SOON, "{what}: never expired");
        api.put(&format!("{MAPS}/m0"), &labelled("m0", &turn.to_string(), "front")).expect(200);
    }
    unreachable!("the loop ends by its bound")
}

#[test]
fn what_was_compacted_is_gone_and_a_list_goes_on_with_the_token_it_is_given() {
    let api = mk_forgetful();
    for count in 0..9 {
        api.post(MAPS, &labelled(&format!("m{count}"), "0", "front")).expect(201);
    }
    // With a selector, since objects that every namespace contains may be created at any time.
    let maps = format!("{MAPS}?labelSelector=tier");
    let page = api.get(&format!("{maps}&limit=3")).expect(200);
    let (old, token) = (version(&page), page["metadata"]["continue"].as_str().unwrap().to_owned());
    let expired = until_expired(&api, "a page", || api.get(&format!("{maps}&limit=3&continue={token}")));
    assert_eq!((expired.code, expired.reason().as_str()), (410, "Expired"), "{}", expired.text());
    let fresh = expired.json()["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
    assert!(!fresh.is_empty(), "{}", expired.text());
    // The remaining objects in their current state: no object of the first page is repeated and none is left out.
    let rest = api.get(&format!("{maps}&continue={fresh}")).expect(200);
    let mut names: Vec<String> = items(&page).iter().chain(items(&rest)).map(name).collect();
    let wanted: Vec<String> = items(&api.get(&maps).expect(200)).iter().map(name).collect();
    assert_eq!(names, wanted);
    names.dedup();
    assert_eq!(names.len(), wanted.len());

    let exact = api.get(&format!("{MAPS}?resourceVersion={old}&resourceVersionMatch=Exact"));
    assert_eq!((exact.code, exact.reason().as_str()), (410, "Expired"), "{}", exact.text());
    // The newest changes are kept for watches whatever their age, so there have to be enough of them.
    for turn in 0..20 {
        api.put(&format!("{MAPS}/m1"), &labelled("m1", &turn.to_string(), "front")).expect(200);
    }
    let mut late = api.watch(&format!("{MAPS}?watch=true&resourceVersion={old}"));
    let event = late.expect();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)), "{event}");
    assert_eq!(late.next(SOON), Next::Ended);
    // A client that starts again with a list finds everything.
    let list = api.get(MAPS).expect(200);
    let mut again = api.watch(&format!("{maps}&watch=true&resourceVersion={}", version(&list)));
    let made = api.post(MAPS, &labelled("new", "0", "front")).expect(201);
    assert_eq!(version(&again.expect()["object"]), version(&made));
}
