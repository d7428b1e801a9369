//! The contract of compaction: which history is kept, and how loads hold the horizon.

use std::{sync::Arc, time::Duration};

use rdd_stdx::clock::SharedClock;

use super::{Subject, clock, contents, eventually, fresh, within};
use crate::{Error, Expect, Limits, Revision, Store, Txn};

fn put(store: &dyn Store, key: &str, value: &str) -> Revision {
    within(store.commit(Txn::put(key, Expect::Any, value.to_owned()))).unwrap()
}

pub fn history_goes_by_age_also_when_nothing_happens(subject: &dyn Subject) {
    let (store, clock) = fresh(subject);
    put(&*store, "a", "1");
    put(&*store, "a", "2");
    clock.advance(Duration::from_secs(299));
    let third = put(&*store, "a", "3");
    assert_eq!(store.status().compacted, Revision(0), "five minutes have not passed");
    within(store.events(Revision(0))).unwrap();
    clock.advance(Duration::from_secs(2));
    eventually(&*store, "the first two are old enough", || store.status().compacted == Revision(2));
    assert!(matches!(within(store.events(Revision(1))), Err(Error::Compacted { .. })));
    within(store.events(Revision(2))).unwrap();
    clock.advance(Duration::from_mins(5));
    eventually(&*store, "a quiet store forgets too", || store.status().compacted == third);
    eventually(&*store, "and removes what is dead", || store.status().dead_rows == 0);
    assert_eq!(contents(&*store)["a"], b"3");
}

pub fn history_is_bounded_by_rows_and_bytes(subject: &dyn Subject) {
    let limits = Limits { history_rows: 100, history_bytes: 1_000_000, ..Limits::default() };
    let store = subject.open(limits, clock());
    for number in 0..1_000 {
        put(&*store, "small", &number.to_string());
        let status = store.status();
        assert!(status.dead_rows <= 204, "as many wait for their removal as are kept, at most: {status:?}");
    }
    let compacted = store.status().compacted.0;
    assert!((890..=905).contains(&compacted), "about 100 revisions are left: {compacted}");
    for _ in 0..20 {
        put(&*store, "large", &"x".repeat(200_000));
    }
    let status = store.status();
    assert!(status.head.0 - status.compacted.0 <= 8, "about five of the large ones are left: {status:?}");
    assert_eq!(contents(&*store).len(), 2);
}

pub fn what_is_dead_at_the_horizon_is_not_loaded(subject: &dyn Subject) {
    let (store, _) = fresh(subject);
    for number in 0..1_000 {
        put(&*store, &format!("k{number}"), "1");
        if number % 2 == 0 {
            within(store.commit(Txn::delete(format!("k{number}"), Expect::Any))).unwrap();
        }
    }
    let head = store.status().head;
    // Requested together, so that the load begins before all garbage can have been removed.
    let (compacted, load) = (store.compact(head), store.load());
    assert_eq!(within(compacted).unwrap(), head);
    let mut load = within(load).unwrap();
    assert_eq!(load.revision(), head);
    let mut keys = Vec::new();
    loop {
        let entries = within(load.next()).unwrap();
        if entries.is_empty() {
            break;
        }
        keys.extend(entries.into_iter().map(|entry| entry.key));
    }
    assert_eq!(keys.len(), 500);
    assert!(keys.iter().all(|key| key[1..].parse::<u32>().unwrap() % 2 == 1));
}

pub fn a_load_holds_the_horizon_until_it_is_over(subject: &dyn Subject) {
    let limits = Limits { piece_bytes: 50, ..Limits::default() };
    let store = subject.open(limits, clock());
    for number in 0..20 {
        put(&*store, &format!("k{number}"), "before");
    }
    let horizon = within(store.compact(Revision(20))).unwrap();
    let mut load = within(store.load()).unwrap();
    let mut loaded = within(load.next()).unwrap().len();
    assert!((1..20).contains(&loaded), "a piece");
    for number in 0..20 {
        put(&*store, &format!("k{number}"), "after");
    }
    assert_eq!(within(store.compact(Revision(40))).unwrap(), horizon, "it is held");
    loop {
        let entries = within(load.next()).unwrap();
        if entries.is_empty() {
            break;
        }
        assert!(entries.iter().all(|entry| entry.value == "before" && entry.revision <= horizon));
        loaded += entries.len();
    }
    assert_eq!(loaded, 20);
    within(store.events(horizon)).unwrap();
    drop(load);
    eventually(&*store, "it follows when the load is over", || store.status().compacted == Revision(40));
}

pub fn a_load_that_is_not_read_is_given_up(subject: &dyn Subject) {
    let clock = clock();
    let store = subject.open(Limits::default(), Arc::clone(&clock) as SharedClock);
    put(&*store, "k", "1");
    let mut load = within(store.load()).unwrap();
    clock.advance(Duration::from_secs(9));
    within(load.next()).unwrap();
    clock.advance(Duration::from_secs(9));
    assert_eq!(within(store.compact(Revision(1))).unwrap(), Revision(0), "reading on kept it");
    clock.advance(Duration::from_secs(2));
    eventually(&*store, "the horizon is free", || store.status().compacted == Revision(1));
    assert!(matches!(within(load.next()), Err(Error::LoadExpired)));
}

pub fn revisions_do_not_go_back_when_everything_is_gone(subject: &dyn Subject) {
    let clock = clock();
    let open = || subject.open(Limits::default(), Arc::clone(&clock) as SharedClock);
    let mut store = open();
    put(&*store, "k", "1");
    let last = within(store.commit(Txn::delete("k", Expect::Any))).unwrap();
    within(store.compact(last)).unwrap();
    eventually(&*store, "no row is left", || store.status().dead_rows == 0);
    assert!(contents(&*store).is_empty());
    if subject.keeps() {
        within(store.close()).unwrap();
        store = open();
        assert_eq!(store.status().head, last);
        assert!(contents(&*store).is_empty());
    }
    assert_eq!(put(&*store, "k", "2"), Revision(last.0 + 1));
}
