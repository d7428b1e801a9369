//! Random writes and reads in any order: the copy that each watcher builds equals the list at its revision.

use std::{collections::BTreeMap, sync::Arc};

use proptest::prelude::*;
use rdd_apiserver::state::{Item, Kind, Object, RevisionWant, Scope, State, Watch, WatchFrom};
use rdd_store::{Action, Expect, MemoryStore, Revision, Store, Txn};
use serde_json::Value;

use crate::support::{bounded, is_on, json, maps, mk_store, open};

/// Maps a key to its revision and label.
type Content = BTreeMap<String, (u64, u8)>;

#[derive(Debug, Clone)]
enum Step {
    /// Puts (with this label) or deletes keys, each once, in one transaction.
    Write(BTreeMap<(u8, u8), Option<u8>>),
    /// Opens a watch from now or from this many revisions ago, of all namespaces or one, with or without a filter.
    Watch { back: Option<u8>, namespace: Option<u8>, filtered: bool },
    /// Reads at most this many items of one watch.
    Read { who: prop::sample::Index, most: u8 },
    /// Lists at the revision of this many revisions ago.
    List { back: u8, namespace: Option<u8> },
}

fn step() -> impl Strategy<Value = Step> {
    let keys = prop::collection::btree_map((0u8..2, 0u8..4), prop::option::weighted(0.7, 0u8..2), 1..4);
    prop_oneof![
        6 => keys.prop_map(Step::Write),
        1 => (prop::option::of(0u8..20), prop::option::of(0u8..2), any::<bool>())
            .prop_map(|(back, namespace, filtered)| Step::Watch { back, namespace, filtered }),
        3 => (any::<prop::sample::Index>(), 1u8..8).prop_map(|(who, most)| Step::Read { who, most }),
        1 => (0u8..20, prop::option::of(0u8..2)).prop_map(|(back, namespace)| Step::List { back, namespace }),
    ]
}

struct Watcher {
    watch: Watch,
    namespace: Option<u8>,
    filtered: bool,
    /// Whether the initial state is complete.
    synced: bool,
    copy: Content,
    last: u64,
}

struct World {
    store: Arc<MemoryStore>,
    state: State,
    /// The content at each revision.
    past: Vec<Content>,
    watchers: Vec<Watcher>,
}

fn scope(namespace: Option<u8>) -> Scope {
    namespace.map_or_else(|| maps().all(), |namespace| maps().within(&format!("n{namespace}")).unwrap())
}

/// Returns an object's key, revision and label, and checks that its bytes agree.
fn tell(object: &Object) -> (String, (u64, u8)) {
    let value: Value = serde_json::from_slice(object.wire()).unwrap();
    assert_eq!(value["metadata"]["resourceVersion"], object.revision().to_string());
    assert_eq!(value["metadata"]["labels"]["on"].as_str(), object.label("on"));
    let on = object.label("on").unwrap().parse().unwrap();
    (object.key().as_str().to_owned(), (object.revision().0, on))
}

impl World {
    fn head(&self) -> u64 {
        self.past.len() as u64 - 1
    }

    fn ago(&self, back: u8) -> u64 {
        self.head().saturating_sub(u64::from(back))
    }

    fn view(&self, revision: u64, namespace: Option<u8>, filtered: bool) -> Content {
        let prefix =
            namespace.map_or_else(|| maps().prefix().to_owned(), |number| format!("{}n{number}/", maps().prefix()));
        let seen = |(key, (_, on)): &(&String, &(u64, u8))| key.starts_with(&prefix) && (!filtered || *on == 1);
        self.past[revision as usize].iter().filter(seen).map(|(key, value)| (key.clone(), *value)).collect()
    }

    async fn write(&mut self, changes: BTreeMap<(u8, u8), Option<u8>>) {
        let mut next = self.past.last().unwrap().clone();
        let revision = self.past.len() as u64;
        let mut txn = Txn::default();
        let mut changed = false;
        for ((namespace, name), on) in changes {
            let key = maps().key(Some(&format!("n{namespace}")), &name.to_string()).unwrap();
            let action = on.map_or(Action::Delete, |on| Action::Put { value: json(on, "x").into(), ttl: None });
            txn = txn.with(key.as_str(), Expect::Any, action);
            let key = key.as_str().to_owned();
            changed |= on.is_some() || next.contains_key(&key);
            match on {
                Some(on) => next.insert(key, (revision, on)),
                None => next.remove(&key),
            };
        }
        let committed = bounded(self.store.commit(txn)).await.unwrap();
        if changed {
            self.past.push(next);
        }
        assert_eq!(committed.0, self.head());
    }

    async fn open_watch(&mut self, back: Option<u8>, namespace: Option<u8>, filtered: bool) {
        bounded(self.state.catch_up(std::time::Duration::from_secs(30))).await.unwrap();
        let scope = scope(namespace);
        let (from, copy) = match back {
            None => (WatchFrom::Now, Content::new()),
            Some(back) => {
                let revision = self.ago(back);
                (WatchFrom::After(Revision(revision)), self.view(revision, namespace, filtered))
            }
        };
        let watch = self.state.watch(&scope, from, filtered.then(is_on)).unwrap();
        self.watchers.push(Watcher { watch, namespace, filtered, synced: back.is_some(), copy, last: 0 });
    }

    /// Reads the available items of a watch, up to a maximum, and checks the watcher's copy.
    fn read(&mut self, who: usize, most: usize) {
        let watcher = &mut self.watchers[who];
        for _ in 0..most {
            match watcher.watch.try_next().unwrap() {
                Some(item) => watcher.take(item),
                None => break,
            }
        }
        let watcher = &self.watchers[who];
        let Some(progress) = watcher.watch.progress() else { return };
        assert!(watcher.last <= progress.0, "told {}, promised {progress}", watcher.last);
        assert_eq!(watcher.copy, self.view(progress.0, watcher.namespace, watcher.filtered), "at {progress}");
    }

    async fn list(&self, revision: u64, namespace: Option<u8>) {
        let scope = scope(namespace);
        let want = RevisionWant::Exact(Revision(revision));
        let options = rdd_apiserver::state::ListOptions { want, ..Default::default() };
        let page = bounded(self.state.list(&scope, options)).await.unwrap();
        let listed: Content = page.objects.iter().map(|object| tell(object)).collect();
        assert_eq!(listed, self.view(revision, namespace, false), "at {revision}");
    }
}

impl Watcher {
    fn take(&mut self, item: Item) {
        let change = match item {
            Item::Synced(revision) => {
                self.last = revision.0;
                self.synced = true;
                return;
            }
            Item::Change(change) => change,
        };
        let (key, value) = tell(&change.object);
        if self.synced {
            assert!(value.0 >= self.last, "revision {} after {}", value.0, self.last);
            self.last = value.0;
        }
        let before = match change.kind {
            Kind::Deleted => self.copy.remove(&key),
            Kind::Added | Kind::Modified => self.copy.insert(key, value),
        };
        assert_eq!(before.is_none(), change.kind == Kind::Added, "{:?} of what was {before:?}", change.kind);
    }
}

async fn run(steps: Vec<Step>) {
    let store = mk_store();
    let state = open(&store).await;
    let mut world = World { store, state, past: vec![Content::new()], watchers: Vec::new() };
    for step in steps {
        match step {
            Step::Write(changes) => world.write(changes).await,
            Step::Watch { back, namespace, filtered } => world.open_watch(back, namespace, filtered).await,
            Step::Read { who, most } if !world.watchers.is_empty() => {
                world.read(who.index(world.watchers.len()), usize::from(most));
            }
            Step::Read { .. } => {}
            Step::List { back, namespace } => world.list(world.ago(back), namespace).await,
        }
    }
    let head = bounded(world.state.catch_up(std::time::Duration::from_secs(30))).await.unwrap();
    assert_eq!(head.0, world.head());
    for who in 0..world.watchers.len() {
        // A watch yields to other tasks from time to time, so this may take several reads.
        while world.watchers[who].watch.progress() != Some(head) {
            world.read(who, usize::MAX);
        }
        world.read(who, usize::MAX);
        let watcher = &world.watchers[who];
        assert_eq!(watcher.copy, world.view(head.0, watcher.namespace, watcher.filtered));
    }
    for revision in 0..=head.0 {
        world.list(revision, None).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn each_watchers_copy_equals_the_list_at_its_revision(steps in prop::collection::vec(step(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(run(steps));
    }
}
