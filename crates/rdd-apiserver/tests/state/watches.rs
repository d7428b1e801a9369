//! Tests of watches: no change is missed or repeated, and a slow reader delays no other.

use std::time::Duration;

use rdd_apiserver::state::{Error, Item, Limits, Resource, RevisionWant, WatchFrom};
use rdd_store::{Expect, Revision, Store, Txn};

use crate::support::{
    bounded, delete, is_on, json, key, list, maps, mk_store, mk_store_with, next, open, open_with, put,
    put_behind_its_back, take,
};

#[tokio::test]
async fn a_watch_begins_with_what_is_there_and_goes_on_without_a_gap() {
    let state = open(&mk_store()).await;
    put(&state, "a", &json(1, "x")).await;
    put(&state, "b", &json(0, "x")).await;
    let mut watch = state.watch(&maps().all(), WatchFrom::Now, None).unwrap();
    put(&state, "a", &json(1, "y")).await;
    delete(&state, "b").await;
    assert_eq!(watch.progress(), None);
    assert_eq!(take(&mut watch, 5).await, ["+a@1", "+b@2", "synced@2", "~a@3", "-b@4"]);
    assert_eq!(watch.progress(), Some(Revision(4)));
}

#[tokio::test]
async fn an_empty_resource_is_complete_at_once_and_its_progress_follows_the_others() {
    let state = open(&mk_store()).await;
    put(&state, "a", &json(1, "x")).await;
    let pods = Resource::new("", "pods").unwrap();
    let mut watch = state.watch(&pods.all(), WatchFrom::Now, None).unwrap();
    assert_eq!(next(&mut watch).await.unwrap(), "synced@1");
    let newest = put(&state, "b", &json(1, "x")).await;
    assert_eq!(watch.progress(), Some(newest));
}

#[tokio::test]
async fn a_filter_turns_crossings_into_arrivals_and_departures() {
    let state = open(&mk_store()).await;
    put(&state, "a", &json(1, "x")).await;
    put(&state, "b", &json(0, "x")).await;
    let mut watch = state.watch(&maps().all(), WatchFrom::Now, Some(is_on())).unwrap();
    for (name, on) in [("a", 0), ("b", 1), ("a", 0), ("b", 1)] {
        put(&state, name, &json(on, "y")).await;
    }
    delete(&state, "a").await;
    delete(&state, "b").await;
    assert_eq!(take(&mut watch, 6).await, ["+a@1", "synced@2", "-a@3", "+b@4", "~b@6", "-b@8"]);
}

#[tokio::test]
async fn what_leaves_the_view_is_told_with_its_old_content_under_the_new_revision() {
    let state = open(&mk_store()).await;
    put(&state, "a", &json(1, "old")).await;
    let watch = || state.watch(&maps().all(), WatchFrom::After(Revision(1)), Some(is_on())).unwrap();
    let (mut one, mut other) = (watch(), watch());
    put(&state, "a", &json(0, "new")).await;
    let mut told = Vec::new();
    for watch in [&mut one, &mut other] {
        let Item::Change(change) = bounded(watch.next()).await.unwrap() else { panic!("there is no initial state") };
        told.push(change.object.wire().clone());
    }
    let text = String::from_utf8(told[0].to_vec()).unwrap();
    assert!(text.contains(r#""resourceVersion":"2""#) && text.contains(r#""x":"old""#), "{text}");
    assert_eq!(told[0].as_ptr(), told[1].as_ptr(), "watchers share the bytes");
}

#[tokio::test]
async fn a_scope_hears_of_its_namespace_only() {
    let state = open(&mk_store()).await;
    let mut watch = state.watch(&maps().within("other").unwrap(), WatchFrom::Now, None).unwrap();
    put(&state, "a", &json(1, "x")).await;
    let other = maps().key(Some("other"), "o").unwrap();
    bounded(state.commit(rdd_apiserver::state::Write::put(other, Expect::Any, json(1, "x")))).await.unwrap();
    assert_eq!(take(&mut watch, 2).await, ["synced@0", "+o@2"]);
}

#[tokio::test]
async fn a_watch_after_a_revision_that_has_not_happened_skips_up_to_it() {
    let state = open(&mk_store()).await;
    let mut watch = state.watch(&maps().all(), WatchFrom::After(Revision(2)), None).unwrap();
    for name in ["a", "b", "c"] {
        put(&state, name, &json(1, "x")).await;
    }
    assert_eq!(next(&mut watch).await.unwrap(), "+c@3");
}

#[tokio::test]
async fn a_watcher_that_does_not_read_expires_and_holds_up_nobody() {
    let limits = Limits { history_events: 10, ..Limits::default() };
    let state = open_with(mk_store(), limits).await;
    let mut slow = state.watch(&maps().all(), WatchFrom::After(Revision(0)), None).unwrap();
    let mut fast = state.watch(&maps().all(), WatchFrom::After(Revision(0)), None).unwrap();
    for number in 1..=50 {
        put(&state, "a", &json(1, "x")).await;
        let sign = if number == 1 { '+' } else { '~' };
        assert_eq!(next(&mut fast).await.unwrap(), format!("{sign}a@{number}"));
    }
    for _ in 0..2 {
        let expired = next(&mut slow).await.unwrap_err();
        assert!(matches!(expired, Error::Expired { oldest: Revision(40), .. }), "{expired}");
    }
    assert_eq!(slow.progress(), None);
    let refused = state.watch(&maps().all(), WatchFrom::After(Revision(39)), None).unwrap_err();
    assert!(matches!(refused, Error::Expired { wanted: Revision(39), oldest: Revision(40) }), "{refused}");
    let mut resumed = state.watch(&maps().all(), WatchFrom::After(Revision(40)), None).unwrap();
    assert_eq!(next(&mut resumed).await.unwrap(), "~a@41");
}

#[tokio::test]
async fn a_waiting_watcher_is_woken_and_a_dropped_wait_loses_nothing() {
    let state = open(&mk_store()).await;
    let mut watch = state.watch(&maps().all(), WatchFrom::After(Revision(0)), None).unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(10), watch.next()).await.is_err());
    let value = json(1, "x");
    let (told, _) = tokio::join!(next(&mut watch), put(&state, "a", &value));
    assert_eq!(told.unwrap(), "+a@1");
}

fn many(count: u64) -> Vec<Txn> {
    let value = |number: u64| json(1, &number.to_string());
    (0..count).map(|number| Txn::put(key("a").as_str(), Expect::Any, value(number))).collect()
}

#[tokio::test]
async fn a_state_that_was_cut_off_resumes_and_its_watchers_miss_nothing() {
    let store = mk_store_with(rdd_store::Limits { subscriber_batches: 2, ..rdd_store::Limits::default() });
    let state = open(&store).await;
    let mut watch = state.watch(&maps().all(), WatchFrom::Now, None).unwrap();
    put_behind_its_back(&store, many(50), false);
    let told = take(&mut watch, 51).await;
    assert!(store.status().lagged > 0, "the test is about being cut off");
    assert_eq!((&*told[1], &*told[50]), ("+a@1", "~a@50"));
    assert!(told[2..].iter().zip(2..).all(|(told, number)| *told == format!("~a@{number}")), "{told:?}");
}

#[tokio::test]
async fn a_state_that_missed_changes_loads_anew_and_its_watchers_expire() {
    let store = mk_store_with(rdd_store::Limits { subscriber_batches: 2, ..rdd_store::Limits::default() });
    let state = open(&store).await;
    put(&state, "b", r#"{"metadata":{"ownerReferences":[{"uid":"u"}]}}"#).await;
    let mut watch = state.watch(&maps().all(), WatchFrom::After(Revision(1)), None).unwrap();
    let mut gone = many(50);
    gone.push(Txn::delete(key("b").as_str(), Expect::Any));
    put_behind_its_back(&store, gone, true);
    assert_eq!(list(&state, &maps().all(), RevisionWant::Latest).await.unwrap(), ["a@51"]);
    let end = loop {
        match next(&mut watch).await {
            Ok(told) => assert!(told.contains("a@"), "{told}"),
            Err(error) => break error,
        }
    };
    assert!(matches!(end, Error::Expired { oldest: Revision(52), .. }), "{end}");
    assert!(list(&state, &maps().all(), RevisionWant::Exact(Revision(20))).await.is_err());
    assert!(state.dependents("u").is_empty());
    let mut fresh = state.watch(&maps().all(), WatchFrom::Now, None).unwrap();
    put(&state, "c", &json(1, "x")).await;
    assert_eq!(take(&mut fresh, 3).await, ["+a@51", "synced@52", "+c@53"]);
}
