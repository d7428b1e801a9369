//! A watch resumes after a restart as if it had not been interrupted.

use std::{path::Path, sync::Arc};

use rdd_apiserver::state::{Error, Limits, RevisionWant, WatchFrom};
use rdd_stdx::clock::SystemClock;
use rdd_store::{Revision, Store, sqlite};

use crate::support::{delete, json, list, maps, open_with, put, take};

fn mk_options() -> sqlite::Options {
    sqlite::Options { clock: SystemClock::shared(), allow_network: true, ..sqlite::Options::default() }
}

fn open_store(path: &Path) -> Arc<dyn Store> {
    Arc::new(sqlite::open(path, mk_options()).unwrap())
}

#[tokio::test]
async fn a_watch_resumed_over_a_restart_misses_nothing_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.db");
    let mut told = Vec::new();
    {
        let store = open_store(&path);
        let state = open_with(Arc::clone(&store), Limits::default()).await;
        let mut watch = state.watch(&maps().all(), WatchFrom::After(Revision(0)), None).unwrap();
        for number in 0..10 {
            put(&state, &format!("{number}"), &json(1, "x")).await;
        }
        delete(&state, "3").await;
        told.extend(take(&mut watch, 5).await);
        assert_eq!(watch.progress(), Some(Revision(5)));
        drop(state);
        store.close().await.unwrap();
    }
    let store = open_store(&path);
    let state = open_with(Arc::clone(&store), Limits::default()).await;
    let mut watch = state.watch(&maps().all(), WatchFrom::After(Revision(5)), None).unwrap();
    put(&state, "3", &json(1, "again")).await;
    told.extend(take(&mut watch, 7).await);
    let added = (0..10).map(|number| format!("+{number}@{}", number + 1));
    let expected: Vec<String> = added.chain(["-3@11".to_owned(), "+3@12".to_owned()]).collect();
    assert_eq!(told, expected);
    let before = list(&state, &maps().all(), RevisionWant::Exact(Revision(2))).await.unwrap();
    assert_eq!(before, ["0@1", "1@2"]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn what_the_store_compacted_is_expired_and_what_it_kept_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.db");
    {
        let store = open_store(&path);
        let state = open_with(Arc::clone(&store), Limits::default()).await;
        for name in ["a", "b", "a", "c"] {
            put(&state, name, &json(1, "x")).await;
        }
        store.compact(Revision(3)).await.unwrap();
        drop(state);
        store.close().await.unwrap();
    }
    let store = open_store(&path);
    let state = open_with(Arc::clone(&store), Limits::default()).await;
    let refused = state.watch(&maps().all(), WatchFrom::After(Revision(2)), None).unwrap_err();
    assert!(matches!(refused, Error::Expired { oldest: Revision(3), .. }), "{refused}");
    assert!(list(&state, &maps().all(), RevisionWant::Exact(Revision(2))).await.is_err());
    assert_eq!(list(&state, &maps().all(), RevisionWant::Exact(Revision(3))).await.unwrap(), ["a@3", "b@2"]);
    let mut watch = state.watch(&maps().all(), WatchFrom::After(Revision(3)), None).unwrap();
    assert_eq!(take(&mut watch, 1).await, ["+c@4"]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn after_a_restore_revisions_go_on_beyond_all_that_clients_have_seen() {
    let folder = tempfile::tempdir().unwrap();
    let (path, backup) = (folder.path().join("state.db"), folder.path().join("backup.db"));
    let seen = {
        let store = open_store(&path);
        let state = open_with(Arc::clone(&store), Limits::default()).await;
        put(&state, "a", &json(1, "x")).await;
        store.backup(&backup).await.unwrap();
        let seen = put(&state, "b", &json(1, "x")).await;
        store.close().await.unwrap();
        seen
    };
    sqlite::restore(&backup, &path, &mk_options()).unwrap();
    let store = open_store(&path);
    let state = open_with(Arc::clone(&store), Limits::default()).await;
    assert_eq!((state.revision() > seen, state.revision()), (true, store.status().head));
    assert_eq!(list(&state, &maps().all(), RevisionWant::Latest).await.unwrap(), ["a@1"]);
    let refused = state.watch(&maps().all(), WatchFrom::After(seen), None).unwrap_err();
    assert!(matches!(refused, Error::Expired { .. }), "{refused}");
    let mut watch = state.watch(&maps().all(), WatchFrom::After(state.revision()), None).unwrap();
    let next = put(&state, "c", &json(1, "x")).await;
    assert_eq!(take(&mut watch, 1).await, [format!("+c@{next}")]);
    store.close().await.unwrap();
}
