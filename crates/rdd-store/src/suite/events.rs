//! The contract of subscriptions: order, completeness, lag.

use std::sync::Arc;

use rdd_stdx::clock::SharedClock;

use super::{Subject, clock, fresh, next, until, within};
use crate::{Change, Error, Expect, Limits, Revision, Store, Txn};

pub fn history_and_live_events_join_without_a_gap_or_a_repeat(subject: &dyn Subject) {
    // Small pieces, so that catching up takes many of them.
    let limits = Limits { piece_bytes: 100, ..Limits::default() };
    let store = subject.open(limits, clock());
    for number in 1..=100_u32 {
        within(store.commit(Txn::put(format!("k{}", number % 7), Expect::Any, number.to_string()))).unwrap();
    }
    let mut subscriptions: Vec<_> =
        (0..=100).step_by(10).map(|after| (after, within(store.events(Revision(after))).unwrap())).collect();
    for number in 101..=150_u32 {
        within(store.commit(Txn::put(format!("k{}", number % 7), Expect::Any, number.to_string()))).unwrap();
    }
    for (after, events) in &mut subscriptions {
        for (expected, batch) in (*after + 1..).zip(until(events, Revision(150))) {
            assert_eq!(batch.revision, Revision(expected));
            assert_eq!(&*batch.events[0].key, format!("k{}", expected % 7));
            assert_eq!(batch.events[0].change, Change::Put(expected.to_string().into()));
        }
    }
}

pub fn subscribers_that_join_under_load_see_every_revision_once(subject: &dyn Subject) {
    let limits = Limits { piece_bytes: 2_000, subscriber_batches: 1 << 20, ..Limits::default() };
    let store: Arc<dyn Store> = subject.open(limits, clock()).into();
    let (writers, commits) = (4, 300);
    let total = writers * commits;
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let store = &store;
            scope.spawn(move || {
                for _ in 0..commits {
                    store.commit(Txn::put(format!("w{writer}"), Expect::Any, "x")).wait().unwrap();
                }
            });
        }
        for _ in 0..20 {
            let head = within(store.progress()).unwrap().0;
            let after = head / 2;
            let mut events = within(store.events(Revision(after))).unwrap();
            let goal = total.min(head + 5);
            let revisions: Vec<_> = until(&mut events, Revision(goal)).iter().map(|batch| batch.revision.0).collect();
            assert_eq!(revisions, (after + 1..=revisions.last().copied().unwrap_or(after)).collect::<Vec<_>>());
            assert!(after + revisions.len() as u64 >= goal);
        }
    });
}

pub fn the_past_is_compacted_and_the_future_is_refused(subject: &dyn Subject) {
    let (store, _) = fresh(subject);
    for number in 1..=10_u32 {
        within(store.commit(Txn::put("k", Expect::Any, number.to_string()))).unwrap();
    }
    let refused = within(store.events(Revision(11)));
    assert!(matches!(refused, Err(Error::FutureRevision { asked: Revision(11), head: Revision(10) })), "{refused:?}");
    assert!(matches!(within(store.compact(Revision(11))), Err(Error::FutureRevision { .. })));
    assert_eq!(within(store.compact(Revision(4))).unwrap(), Revision(4));
    assert_eq!(within(store.compact(Revision(2))).unwrap(), Revision(4), "the horizon does not go back");
    let refused = within(store.events(Revision(3)));
    assert!(matches!(refused, Err(Error::Compacted { compacted: Revision(4) })), "{refused:?}");
    let mut events = within(store.events(Revision(4))).unwrap();
    let revisions: Vec<_> = until(&mut events, Revision(10)).iter().map(|batch| batch.revision.0).collect();
    assert_eq!(revisions, [5, 6, 7, 8, 9, 10]);
}

pub fn a_slow_subscriber_is_cut_off_and_can_resume(subject: &dyn Subject) {
    let limits = Limits { subscriber_batches: 10, ..Limits::default() };
    let store = subject.open(limits, clock() as SharedClock);
    let mut slow = within(store.events(Revision(0))).unwrap();
    for number in 1..=100_u32 {
        // Every commit is acknowledged although one subscriber does not read: the writer never waits.
        within(store.commit(Txn::put("k", Expect::Any, number.to_string()))).unwrap();
    }
    assert_eq!(store.status().lagged, 1);
    for expected in 1..=10 {
        assert_eq!(next(&mut slow).unwrap().revision, Revision(expected));
    }
    let Err(Error::Lagged { resume_after }) = next(&mut slow) else { panic!("it was cut off") };
    assert_eq!(resume_after, Revision(10));
    let mut resumed = within(store.events(resume_after)).unwrap();
    for expected in 11..=100 {
        assert_eq!(next(&mut resumed).unwrap().revision, Revision(expected));
    }
}

pub fn progress_follows_everything_before_it(subject: &dyn Subject) {
    let (store, _) = fresh(subject);
    let mut events = within(store.events(Revision(0))).unwrap();
    let first = within(store.progress()).unwrap();
    assert_eq!(first, Revision(0));
    within(store.commit(Txn::put("k", Expect::Any, "1"))).unwrap();
    assert_eq!(within(store.progress()).unwrap(), Revision(1));
    let seen: Vec<_> =
        (0..3).map(|_| within(events.next()).unwrap()).map(|batch| (batch.revision.0, batch.events.len())).collect();
    assert_eq!(seen, [(0, 0), (1, 1), (1, 0)]);
}

pub fn a_subscription_survives_a_cancelled_wait(subject: &dyn Subject) {
    let limits = Limits { piece_bytes: 1, ..Limits::default() };
    let store = subject.open(limits, clock());
    for number in 1..=50_u32 {
        within(store.commit(Txn::put("k", Expect::Any, number.to_string()))).unwrap();
    }
    let mut events = within(store.events(Revision(0))).unwrap();
    let mut revisions = Vec::new();
    within(async {
        while revisions.len() < 50 {
            tokio::select! {
                biased;
                batch = events.next() => revisions.push(batch.unwrap().revision.0),
                () = tokio::task::yield_now() => {}
            }
        }
    });
    assert_eq!(revisions, (1..=50).collect::<Vec<_>>());
}
