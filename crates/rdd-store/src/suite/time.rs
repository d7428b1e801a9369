//! The contract of time: times to live, history age, and jumping clocks.

use std::{sync::Arc, time::Duration};

use rdd_stdx::clock::{Clock, SharedClock};

use super::{Subject, clock, contents, eventually, fresh, next, within};
use crate::{Change, Expect, Limits, Revision, Txn};

const HOUR: Duration = Duration::from_hours(1);
const YEAR: Duration = Duration::from_hours(24 * 365);

fn brief(key: &str, ttl: Duration) -> Txn {
    Txn::put_for(key, Expect::Any, "brief", ttl)
}

pub fn a_key_goes_when_its_time_has_passed(subject: &dyn Subject) {
    let (store, clock) = fresh(subject);
    let mut events = within(store.events(Revision(0))).unwrap();
    within(store.commit(brief("a", Duration::from_secs(10)))).unwrap();
    within(store.commit(brief("b", Duration::from_secs(10)))).unwrap();
    within(store.commit(Txn::put("c", Expect::Any, "lasting"))).unwrap();
    for _ in 0..3 {
        next(&mut events).unwrap();
    }
    clock.advance(Duration::from_millis(9_999));
    within(store.progress()).unwrap();
    assert_eq!(contents(&*store).len(), 3, "not a moment early");
    clock.advance(Duration::from_millis(1));
    within(store.progress()).unwrap();
    let batch = next(&mut events).unwrap();
    assert_eq!(batch.revision, Revision(4), "what expires together is one transaction");
    assert!(batch.events.iter().all(|event| event.change == Change::Delete));
    assert_eq!(contents(&*store).into_keys().collect::<Vec<_>>(), ["c"]);
    assert_eq!(store.status().commits.expired, 2);
}

pub fn a_later_put_decides_how_long_a_key_lives(subject: &dyn Subject) {
    let (store, clock) = fresh(subject);
    for key in ["cleared", "renewed", "deleted", "plain"] {
        within(store.commit(brief(key, Duration::from_secs(10)))).unwrap();
    }
    within(store.commit(Txn::put("cleared", Expect::Any, "lasting"))).unwrap();
    within(store.commit(brief("renewed", Duration::from_secs(20)))).unwrap();
    within(store.commit(Txn::delete("deleted", Expect::Any))).unwrap();
    within(store.commit(Txn::put("deleted", Expect::Any, "again"))).unwrap();
    clock.advance(Duration::from_secs(15));
    within(store.progress()).unwrap();
    assert_eq!(contents(&*store).into_keys().collect::<Vec<_>>(), ["cleared", "deleted", "renewed"]);
    clock.advance(Duration::from_secs(5));
    within(store.progress()).unwrap();
    assert_eq!(contents(&*store).into_keys().collect::<Vec<_>>(), ["cleared", "deleted"]);
}

pub fn jumps_of_the_wall_clock_change_nothing(subject: &dyn Subject) {
    let (store, clock) = fresh(subject);
    within(store.commit(brief("brief", HOUR))).unwrap();
    let mut last = Revision(1);
    for wall in [clock.wall() + YEAR, Duration::from_secs(5), clock.wall() + 30 * YEAR, Duration::ZERO] {
        clock.jump_to(wall);
        let revision = within(store.commit(Txn::put("k", Expect::Any, "x"))).unwrap();
        assert_eq!(revision, Revision(last.0 + 1));
        last = revision;
        clock.advance(Duration::from_secs(60));
        within(store.progress()).unwrap();
        assert!(contents(&*store).contains_key("brief"), "one minute has passed, not a year");
    }
    assert_eq!(store.status().compacted, Revision(0), "four minutes have passed, not thirty years");
    clock.advance(Duration::from_secs(61));
    eventually(&*store, "five minutes have passed", || store.status().compacted >= Revision(1));
    clock.advance(HOUR);
    within(store.progress()).unwrap();
    assert!(!contents(&*store).contains_key("brief"), "now the hour has passed");
}

pub fn times_to_live_and_history_survive_a_restart(subject: &dyn Subject) {
    if !subject.keeps() {
        return;
    }
    let clock = clock();
    let open = || subject.open(Limits::default(), Arc::clone(&clock) as SharedClock);
    let store = open();
    within(store.commit(brief("short", Duration::from_secs(100)))).unwrap();
    within(store.commit(brief("long", Duration::from_secs(200)))).unwrap();
    clock.advance(Duration::from_secs(50));
    within(store.close()).unwrap();
    clock.advance(Duration::from_secs(60));
    let store = open();
    within(store.progress()).unwrap();
    assert_eq!(contents(&*store).into_keys().collect::<Vec<_>>(), ["long"], "the time it was closed counts");
    let mut events = within(store.events(Revision(0))).unwrap();
    let revisions: Vec<_> = (0..3).map(|_| next(&mut events).unwrap().revision.0).collect();
    assert_eq!(revisions, [1, 2, 3], "history is resumed over the restart");
    within(store.close()).unwrap();

    // Back to before the write: nothing expires, no history is compacted, revisions continue.
    clock.jump_to(Duration::from_secs(1));
    let store = open();
    within(store.progress()).unwrap();
    assert!(contents(&*store).contains_key("long"));
    assert_eq!(within(store.commit(Txn::put("k", Expect::Any, "x"))).unwrap(), Revision(4));
    clock.advance(Duration::from_secs(91));
    within(store.progress()).unwrap();
    assert!(!contents(&*store).contains_key("long"), "200 seconds have passed in all");
    within(store.events(Revision(0))).unwrap();
}

pub fn a_wall_clock_set_forward_while_closed_costs_at_most_the_bound(subject: &dyn Subject) {
    if !subject.keeps() {
        return;
    }
    let clock = clock();
    let open = || subject.open(Limits::default(), Arc::clone(&clock) as SharedClock);
    let store = open();
    within(store.commit(brief("half an hour", HOUR / 2))).unwrap();
    within(store.commit(brief("two hours", 2 * HOUR))).unwrap();
    within(store.close()).unwrap();
    clock.jump_to(clock.wall() + YEAR);
    let store = open();
    within(store.progress()).unwrap();
    assert_eq!(contents(&*store).into_keys().collect::<Vec<_>>(), ["two hours"], "a year counts as an hour");
    assert_eq!(store.status().compacted, Revision(0), "history does not age while the store is closed");
    within(store.events(Revision(0))).unwrap();
}
