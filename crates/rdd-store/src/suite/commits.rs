//! The contract of commits: atomicity, expectations, revisions, limits.

use std::sync::Arc;

use super::{Subject, contents, fresh, next, within};
use crate::{Action, Change, Error, Expect, OPS_MAX, Revision, Store, Txn};

pub fn expectations_are_checked_and_a_conflict_tells_all(subject: &dyn Subject) {
    let (store, _) = fresh(subject);
    let commit = |txn| within(store.commit(txn));
    assert_eq!(commit(Txn::put("a", Expect::Absent, "1")).unwrap(), Revision(1));
    assert_eq!(commit(Txn::put("a", Expect::Revision(Revision(1)), "2")).unwrap(), Revision(2));
    for (expected, key, actual) in [
        (Expect::Absent, "a", Some(Revision(2))),
        (Expect::Revision(Revision(1)), "a", Some(Revision(2))),
        (Expect::Revision(Revision(2)), "b", None),
    ] {
        let txn = Txn::put("other", Expect::Any, "x").with(key, expected, Action::Delete);
        match commit(txn) {
            Err(Error::Conflict { op, key: told, expected: said, actual: found }) => {
                assert_eq!((op, told.as_str(), said, found), (1, key, expected, actual));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(commit(Txn::delete("a", Expect::Revision(Revision(2)))).unwrap(), Revision(3));
    assert_eq!(commit(Txn::put("a", Expect::Absent, "3")).unwrap(), Revision(4), "it was deleted");
    let entry = within(store.get("a")).unwrap().unwrap();
    assert_eq!((entry.revision, &entry.value[..]), (Revision(4), &b"3"[..]));
    assert_eq!(within(store.get("other")).unwrap(), None, "nothing of a refused transaction happened");
    assert_eq!(store.status().commits.conflicts, 3);
}

pub fn a_transaction_is_one_revision_or_nothing(subject: &dyn Subject) {
    let (store, _) = fresh(subject);
    let mut events = within(store.events(Revision(0))).unwrap();
    let txn = (0..OPS_MAX).fold(Txn::default(), |txn, number| {
        let value = vec![b'v'; number];
        txn.with(format!("k{number:03}"), Expect::Absent, Action::Put { value: value.into(), ttl: None })
    });
    assert_eq!(within(store.commit(txn)).unwrap(), Revision(1));
    let batch = next(&mut events).unwrap();
    assert_eq!((batch.revision, batch.events.len()), (Revision(1), OPS_MAX));
    for (number, event) in batch.events.iter().enumerate() {
        assert_eq!((&*event.key, &event.change), (&*format!("k{number:03}"), &Change::Put(vec![b'v'; number].into())));
    }
    let mixed = Txn::delete("k000", Expect::Any).with("new", Expect::Any, Action::Put { value: "".into(), ttl: None });
    assert_eq!(within(store.commit(mixed)).unwrap(), Revision(2));
    let batch = next(&mut events).unwrap();
    assert_eq!(batch.events.iter().map(|event| &*event.key).collect::<Vec<_>>(), ["k000", "new"]);
    assert_eq!(contents(&*store).len(), OPS_MAX);
    let twice = Txn::delete("a", Expect::Any).with("a", Expect::Any, Action::Delete);
    assert!(matches!(within(store.commit(twice)), Err(Error::Invalid { .. })));
}

pub fn what_changes_nothing_takes_no_revision(subject: &dyn Subject) {
    let (store, _) = fresh(subject);
    assert_eq!(within(store.commit(Txn::put("a", Expect::Any, "1"))).unwrap(), Revision(1));
    let mut events = within(store.events(Revision(1))).unwrap();
    assert_eq!(within(store.commit(Txn::delete("gone", Expect::Any))).unwrap(), Revision(1));
    assert_eq!(within(store.commit(Txn::delete("gone", Expect::Absent))).unwrap(), Revision(1));
    assert_eq!(within(store.commit(Txn::default())).unwrap(), Revision(1));
    assert_eq!(
        within(store.commit(Txn::put("a", Expect::Any, "1"))).unwrap(),
        Revision(2),
        "the same value is a change"
    );
    assert_eq!(next(&mut events).unwrap().revision, Revision(2));
}

pub fn concurrent_writers_never_lose_an_update(subject: &dyn Subject) {
    let (store, _) = fresh(subject);
    let store: Arc<dyn Store> = store.into();
    let (writers, rounds) = (8, 50);
    within(store.commit(Txn::put("counter", Expect::Any, "0"))).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..writers {
            scope.spawn(|| {
                let mut done = 0;
                while done < rounds {
                    let entry = store.get("counter").wait().unwrap().unwrap();
                    let value: u64 = std::str::from_utf8(&entry.value).unwrap().parse().unwrap();
                    let txn = Txn::put("counter", Expect::Revision(entry.revision), (value + 1).to_string());
                    match store.commit(txn).wait() {
                        Ok(revision) => {
                            assert!(revision > entry.revision);
                            done += 1;
                        }
                        Err(Error::Conflict { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(contents(&*store)["counter"], (writers * rounds).to_string().into_bytes());
    assert_eq!((store.status().head, store.head()), (Revision(1 + writers * rounds), Revision(1 + writers * rounds)));
}

pub fn a_closed_store_says_so(subject: &dyn Subject) {
    let (store, _) = fresh(subject);
    within(store.commit(Txn::put("a", Expect::Any, "1"))).unwrap();
    let mut events = within(store.events(Revision(0))).unwrap();
    within(store.close()).unwrap();
    assert_eq!(next(&mut events).unwrap().revision, Revision(1), "what was queued is still handed out");
    for _ in 0..2 {
        assert!(matches!(next(&mut events), Err(Error::Closed)));
    }
    assert!(matches!(within(store.commit(Txn::put("a", Expect::Any, "2"))), Err(Error::Closed)));
    assert!(matches!(store.status().writable, Err(Error::Closed)));
    within(store.close()).unwrap();
}
