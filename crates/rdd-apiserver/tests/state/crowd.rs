//! Concurrent writers, readers and watchers on several threads: every read is consistent.

use std::{collections::BTreeMap, sync::Arc};

use rdd_apiserver::state::{Item, Kind, ListOptions, RevisionWant, State, Watch, WatchFrom, Write};
use rdd_stdx::task::Group;
use rdd_store::{Expect, Revision};

use crate::support::{bounded, is_on, json, key, list, maps, mk_store, open};

const WRITERS: u64 = 4;
const WRITES: u64 = 1_000;

type Copy = BTreeMap<String, Revision>;

async fn write(state: Arc<State>, writer: u64) {
    for number in 0..WRITES {
        let name = format!("{}", (number * 7 + writer) % 20);
        let write = match number % 5 {
            4 => Write::delete(key(&name), Expect::Any),
            _ => Write::put(key(&name), Expect::Any, json((number % 2) as u8, "x")),
        };
        let committed = bounded(state.commit(write)).await.unwrap();
        // A writer reads its own write, or a newer one.
        let newest = state.get(&key(&name)).map(|object| object.revision());
        assert!(state.revision() >= committed.revision);
        assert!(newest.is_none_or(|newest| newest >= committed.revision || number % 5 == 4), "{newest:?}");
    }
}

/// A list is exactly the content at the revision that it reports.
async fn read(state: Arc<State>) {
    while state.revision().0 < WRITERS * WRITES / 2 {
        let any = ListOptions { want: RevisionWant::Any, ..ListOptions::default() };
        let page = bounded(state.list(&maps().all(), any)).await.unwrap();
        let listed: Vec<String> =
            page.objects.iter().map(|object| format!("{}@{}", object.name(), object.revision())).collect();
        assert_eq!(listed, list(&state, &maps().all(), RevisionWant::Exact(page.revision)).await.unwrap());
        tokio::task::yield_now().await;
    }
}

/// A watch that starts among concurrent writes is complete when it reports so, and remains complete.
async fn observe(state: Arc<State>) {
    while state.revision().0 < WRITERS * WRITES / 2 {
        let mut watch = state.watch(&maps().all(), WatchFrom::Now, Some(is_on())).unwrap();
        let mut copy = Copy::new();
        let synced = fold(&mut watch, &mut copy, 0).await;
        check(&state, &copy, synced).await;
        fold(&mut watch, &mut copy, 20).await;
        if let Some(progress) = watch.progress() {
            check(&state, &copy, progress).await;
        }
    }
}

/// Applies the initial state (`most` is 0) or this many changes to the copy; returns the revision of the initial state.
async fn fold(watch: &mut Watch, copy: &mut Copy, most: usize) -> Revision {
    let mut count = 0;
    while most == 0 || count < most {
        count += 1;
        match watch.try_next().unwrap() {
            Some(Item::Synced(revision)) => return revision,
            Some(Item::Change(change)) => {
                let name = change.object.name().to_owned();
                let before = match change.kind {
                    Kind::Deleted => copy.remove(&name),
                    Kind::Added | Kind::Modified => copy.insert(name, change.object.revision()),
                };
                assert_eq!(before.is_none(), change.kind == Kind::Added);
            }
            None => tokio::task::yield_now().await,
        }
    }
    Revision(0)
}

async fn check(state: &State, copy: &Copy, revision: Revision) {
    let filter = is_on();
    let filter = |object: &rdd_apiserver::state::Object| filter(object);
    let options = ListOptions { want: RevisionWant::Exact(revision), filter: Some(&filter), ..ListOptions::default() };
    let page = bounded(state.list(&maps().all(), options)).await.unwrap();
    let listed: Copy = page.objects.iter().map(|object| (object.name().to_owned(), object.revision())).collect();
    assert_eq!(copy, &listed, "at {revision}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_read_together_belongs_together_while_others_write() {
    let state = Arc::new(open(&mk_store()).await);
    let mut group: Group<()> = Group::default();
    for writer in 0..WRITERS {
        group.spawn("writer", write(Arc::clone(&state), writer));
    }
    for _ in 0..3 {
        group.spawn("reader", read(Arc::clone(&state)));
        group.spawn("observer", observe(Arc::clone(&state)));
    }
    while let Some(ended) = bounded(group.next()).await {
        ended.outcome.unwrap();
    }
}
