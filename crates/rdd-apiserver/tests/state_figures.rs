//! Figures: the costs of an object, a watch and a change. The test prints them, and bounds them so that they cannot regress
//! unnoticed.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use rdd_apiserver::state::{Item, Limits, ListOptions, MetadataExtract, Resource, State, Watch, WatchFrom, Write};
use rdd_stdx::{clock::SystemClock, task::Group};
use rdd_store::{Action, Expect, MemoryStore, Revision, Store, Txn, sqlite};

const OBJECTS: usize = 10_000;

fn maps() -> Resource {
    Resource::new("", "configmaps").unwrap()
}

/// An object of about 1 kB with three labels and an owner.
fn mk_json(number: usize) -> String {
    let metadata = format!(
        r#"{{"name":"map-{number:05}","namespace":"ns","uid":"00000000-0000-4000-8000-{number:012}","labels":{{"app":"web","tier":"{}","part-of":"figures"}},"ownerReferences":[{{"uid":"11111111-0000-4000-8000-{:012}"}}]}}"#,
        number % 3,
        number % 100
    );
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata},"data":{{"x":"{}"}}}}"#, "x".repeat(730))
}

fn mk_txns(count: usize) -> impl Iterator<Item = Txn> {
    let numbers: Vec<usize> = (0..count).collect();
    let chunks: Vec<Vec<usize>> = numbers.chunks(100).map(<[usize]>::to_vec).collect();
    chunks.into_iter().map(|chunk| {
        chunk.into_iter().fold(Txn::default(), |txn, number| {
            let key = maps().key(Some("ns"), &format!("map-{number:05}")).unwrap();
            txn.with(key.as_str(), Expect::Any, Action::Put { value: mk_json(number).into(), ttl: None })
        })
    })
}

async fn open(store: Arc<dyn Store>) -> State {
    State::open(store, Arc::new(MetadataExtract), SystemClock::shared(), Limits::default()).await.unwrap()
}

/// The anonymous memory of this process, in bytes.
fn memory() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kib| kib * 1024)
}

/// All figures in one test, because parallel tests would disturb each other.
#[tokio::test]
async fn objects_watches_and_changes_cost_little() {
    memory_per_object_and_idle_watch().await;
    fan_out().await;
}

async fn memory_per_object_and_idle_watch() {
    let folder = tempfile::tempdir().unwrap();
    let options = sqlite::Options {
        clock: SystemClock::shared(),
        limits: rdd_store::Limits::default(),
        allow_network: true,
        testing: sqlite::Testing::default(),
    };
    let store: Arc<dyn Store> = Arc::new(sqlite::open(&folder.path().join("state.db"), options).unwrap());
    let mut last = Revision(0);
    for txn in mk_txns(OBJECTS) {
        last = store.commit(txn).await.unwrap();
    }
    // Compact everything: the figure is about objects, not about history.
    store.compact(last).await.unwrap();
    let Some(before) = memory() else {
        println!("skipped: memory is measured on Linux only");
        return;
    };
    let begun = Instant::now();
    let state = open(Arc::clone(&store)).await;
    let took = begun.elapsed();
    let page = state.list(&maps().all(), ListOptions::default()).await.unwrap();
    assert_eq!(page.objects.len(), OBJECTS);
    let wire: usize = page.objects.iter().map(|object| object.wire().len()).sum();
    drop(page);
    let loaded = memory().unwrap();
    let overhead = (loaded.saturating_sub(before).saturating_sub(wire)) / OBJECTS;
    println!("{OBJECTS} objects of {} bytes: {overhead} bytes overhead each, loaded in {took:?}", wire / OBJECTS);
    assert!(overhead < 2_000, "{overhead} bytes overhead per object");

    let watches: Vec<Watch> =
        (0..10_000).map(|_| state.watch(&maps().all(), WatchFrom::After(last), None).unwrap()).collect();
    let each = memory().unwrap().saturating_sub(loaded) / watches.len();
    println!("{} idle watches: {each} bytes each", watches.len());
    assert!(each < 2_000, "{each} bytes per idle watch");
    drop(state);
    store.close().await.unwrap();
}

async fn fan_out() {
    const WATCHERS: usize = 100;
    const CHANGES: usize = 2_000;
    let store = Arc::new(MemoryStore::new(rdd_store::Limits::default(), SystemClock::shared()));
    let state = Arc::new(open(store).await);
    let mut group: Group<usize> = Group::default();
    for _ in 0..WATCHERS {
        let mut watch = state.watch(&maps().all(), WatchFrom::After(Revision(0)), None).unwrap();
        group.spawn("watcher", async move {
            let mut bytes = 0;
            for _ in 0..CHANGES {
                let Item::Change(change) = watch.next().await.unwrap() else { panic!("there is no initial state") };
                bytes += change.object.wire().len();
            }
            bytes
        });
    }
    let begun = Instant::now();
    for number in 0..CHANGES {
        let key = maps().key(Some("ns"), &format!("map-{:05}", number % 100)).unwrap();
        state.commit(Write::put(key, Expect::Any, mk_json(number))).await.unwrap();
    }
    let written = begun.elapsed();
    for _ in 0..WATCHERS {
        let ended = tokio::time::timeout(Duration::from_secs(60), group.next()).await.unwrap().unwrap();
        assert!(ended.outcome.unwrap() > CHANGES * 1_000);
    }
    let took = begun.elapsed();
    let rate = (WATCHERS * CHANGES) as f64 / took.as_secs_f64();
    println!(
        "{CHANGES} commits, one after another, in {written:?}; told to {WATCHERS} watchers in {took:?}: {rate:.0} events/s"
    );
    assert!(took < Duration::from_secs(60));
}
