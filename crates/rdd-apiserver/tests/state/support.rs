//! A state over a store of its own, and objects for it.

use std::{future::Future, sync::Arc, time::Duration};

use rdd_apiserver::state::{
    Error, Filter, Item, Key, Kind, Limits, ListOptions, MetadataExtract, Resource, RevisionWant, Scope, State, Watch,
    Write,
};
use rdd_stdx::clock::SystemClock;
use rdd_store::{Expect, MemoryStore, Revision, Store, Txn};

pub(crate) fn mk_store() -> Arc<MemoryStore> {
    mk_store_with(rdd_store::Limits::default())
}

pub(crate) fn mk_store_with(limits: rdd_store::Limits) -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(limits, SystemClock::shared()))
}

pub(crate) async fn open(store: &Arc<MemoryStore>) -> State {
    open_with(Arc::clone(store) as Arc<dyn Store>, Limits::default()).await
}

pub(crate) async fn open_with(store: Arc<dyn Store>, limits: Limits) -> State {
    bounded(State::open(store, Arc::new(MetadataExtract), SystemClock::shared(), limits)).await.unwrap()
}

pub(crate) fn maps() -> Resource {
    Resource::new("", "configmaps").unwrap()
}

pub(crate) fn key(name: &str) -> Key {
    maps().key(Some("ns"), name).unwrap()
}

/// The JSON of an object with a label `on`.
pub(crate) fn json(on: u8, body: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"labels":{{"on":"{on}"}}}},"data":{{"x":"{body}"}}}}"#
    )
}

pub(crate) fn is_on() -> Filter {
    Arc::new(|object| object.label("on") == Some("1"))
}

pub(crate) async fn put(state: &State, name: &str, json: &str) -> Revision {
    let write = Write::put(key(name), Expect::Any, json.to_owned());
    bounded(state.commit(write)).await.unwrap().revision
}

pub(crate) async fn delete(state: &State, name: &str) -> Revision {
    bounded(state.commit(Write::delete(key(name), Expect::Any))).await.unwrap().revision
}

/// Commits to the store directly, while no task of this runtime can run, so that the state does not notice in between.
pub(crate) fn put_behind_its_back(store: &Arc<MemoryStore>, txns: Vec<Txn>, compact: bool) {
    let store = Arc::clone(store);
    let thread = std::thread::spawn(move || {
        let mut last = Revision(0);
        for txn in txns {
            last = store.commit(txn).wait().unwrap();
        }
        if compact {
            store.compact(last).wait().unwrap();
        }
    });
    thread.join().unwrap();
}

/// Lists the objects at a revision, each as `name@revision`.
pub(crate) async fn list(state: &State, scope: &Scope, want: RevisionWant) -> Result<Vec<String>, Error> {
    let page = bounded(state.list(scope, ListOptions { want, ..ListOptions::default() })).await?;
    Ok(page.objects.iter().map(|object| format!("{}@{}", object.name(), object.revision())).collect())
}

/// Returns the next item of a watch, as `+name@revision`, `~`, `-`, or `synced@revision`.
pub(crate) async fn next(watch: &mut Watch) -> Result<String, Error> {
    Ok(match bounded(watch.next()).await? {
        Item::Synced(revision) => format!("synced@{revision}"),
        Item::Change(change) => {
            let sign = match change.kind {
                Kind::Added => '+',
                Kind::Modified => '~',
                Kind::Deleted => '-',
            };
            format!("{sign}{}@{}", change.object.name(), change.object.revision())
        }
    })
}

pub(crate) async fn take(watch: &mut Watch, count: usize) -> Vec<String> {
    let mut told = Vec::new();
    for _ in 0..count {
        told.push(next(watch).await.unwrap());
    }
    told
}

/// Awaits a future, with a timeout.
pub(crate) async fn bounded<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("it happens within 30 s")
}
