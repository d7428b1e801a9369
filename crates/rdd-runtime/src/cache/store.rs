//! The objects of one kind as the watch last told of them.

use std::{
    collections::BTreeMap,
    fmt,
    ops::Bound,
    sync::{Arc, PoisonError, RwLock},
};

use futures::future::BoxFuture;
use kube::{Api, Client, ResourceExt, api::ListParams};
use tokio::sync::watch;

use super::View;
use crate::{Error, Key, Kind};

/// How far a cache is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sync {
    /// No list has come yet.
    Pending,
    /// The server does not know the kind; it is asked again and again.
    NotServed,
    /// It holds what the server has, as of a moment ago.
    Synced,
    /// No list has come, for this reason; it is asked for again and again.
    Failing(String),
}

type Subscriber<K> = Arc<dyn Fn(&K) + Send + std::marker::Sync>;

/// The objects of one kind, or a single one of them. Cheap to clone.
pub struct Cached<K>(Arc<Shared<K>>);

struct Shared<K> {
    /// The only object that is followed; all of them if there is none.
    only: Option<Key>,
    objects: RwLock<Objects<K>>,
    subscribers: RwLock<Vec<Subscriber<K>>>,
    sync: watch::Sender<Sync>,
}

struct Objects<K> {
    by_key: BTreeMap<Key, Arc<K>>,
    /// The newest version that the watch has told of.
    seen: u64,
    /// The newest version of which the subscribers know.
    told: u64,
}

impl<K> Clone for Cached<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Kind> fmt::Debug for Cached<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached").field("kind", &K::kind(&())).field("sync", &*self.0.sync.borrow()).finish()
    }
}

/// Kubernetes promises since 1.35 that versions of one kind can be compared as numbers.
fn version_of(object: &impl ResourceExt) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or(0)
}

impl<K: Kind> Cached<K> {
    pub(super) fn new(only: Option<Key>) -> Self {
        let objects = RwLock::new(Objects { by_key: BTreeMap::new(), seen: 0, told: 0 });
        let sync = watch::Sender::new(Sync::Pending);
        Self(Arc::new(Shared { only, objects, subscribers: RwLock::default(), sync }))
    }

    /// What the server is told to select of the kind's objects.
    pub(super) fn selector(&self) -> Option<String> {
        let Key { namespace, name } = self.0.only.as_ref()?;
        let inside = namespace.as_ref().map(|namespace| format!(",metadata.namespace={namespace}"));
        Some(format!("metadata.name={name}{}", inside.unwrap_or_default()))
    }

    fn read<T>(&self, look: impl FnOnce(&BTreeMap<Key, Arc<K>>) -> T) -> T {
        look(&self.0.objects.read().unwrap_or_else(PoisonError::into_inner).by_key)
    }

    /// The object, if it is there.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.read(|objects| objects.get(key).cloned())
    }

    /// All of them, in order.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.read(|objects| objects.values().cloned().collect())
    }

    /// Those of one namespace, in order.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let first = Key::namespaced(namespace, "");
        let is_inside = |key: &Key| key.namespace.as_deref() == Some(namespace);
        self.read(|objects| {
            let from = objects.range((Bound::Included(first), Bound::Unbounded));
            from.take_while(|(key, _)| is_inside(key)).map(|(_, object)| Arc::clone(object)).collect()
        })
    }

    /// The keys of all of them.
    pub fn keys(&self) -> Vec<Key> {
        self.read(|objects| objects.keys().cloned().collect())
    }

    /// How far it is.
    pub fn sync(&self) -> Sync {
        self.0.sync.borrow().clone()
    }

    /// Returns when it has the server's objects. There is no bound: a kind may never be served.
    pub async fn synced(&self) {
        let mut sync = self.0.sync.subscribe();
        // The sender lives as long as this cache does.
        let _ = sync.wait_for(|sync| *sync == Sync::Synced).await;
    }

    /// Calls `subscriber` for each object that is there, and from then on for each that appears, changes or vanishes.
    pub(crate) fn subscribe(&self, subscriber: impl Fn(&K) + Send + std::marker::Sync + 'static) {
        let subscriber: Subscriber<K> = Arc::new(subscriber);
        self.0.subscribers.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&subscriber));
        for object in self.list() {
            subscriber(&object);
        }
    }

    /// Takes in an object that a write has just returned, so that who wrote it reads it. The watch overrules.
    pub(crate) fn offer(&self, object: &K) {
        let mut objects = self.0.objects.write().unwrap_or_else(PoisonError::into_inner);
        // What is not newer than the watch may have been deleted again already.
        if version_of(object) > objects.seen {
            let key = Key::of(object);
            if objects.by_key.get(&key).is_none_or(|known| version_of(&**known) < version_of(object)) {
                let mut object = object.clone();
                object.meta_mut().managed_fields = None;
                objects.by_key.insert(key, Arc::new(object));
            }
        }
    }

    pub(super) fn applied(&self, object: K) {
        let object = Arc::new(object);
        {
            let mut objects = self.0.objects.write().unwrap_or_else(PoisonError::into_inner);
            objects.seen = objects.seen.max(version_of(&*object));
            let key = Key::of(&*object);
            // An offered object may be newer than an event that was on its way.
            let is_older = |known: &Arc<K>| {
                known.uid() == object.uid() && version_of(&**known) > version_of(&*object) && version_of(&*object) > 0
            };
            if !objects.by_key.get(&key).is_some_and(is_older) {
                objects.by_key.insert(key, Arc::clone(&object));
            }
        }
        self.tell(&object);
    }

    pub(super) fn deleted(&self, object: &K) {
        {
            let mut objects = self.0.objects.write().unwrap_or_else(PoisonError::into_inner);
            objects.seen = objects.seen.max(version_of(object));
            let key = Key::of(object);
            // A new object of the same name may have been offered already.
            if objects.by_key.get(&key).is_some_and(|known| version_of(&**known) <= version_of(object)) {
                objects.by_key.remove(&key);
            }
        }
        self.tell(object);
    }

    /// The whole list, after the first look and after every watch that could not be resumed.
    pub(super) fn replaced(&self, list: Vec<K>) {
        let list: BTreeMap<Key, Arc<K>> = list.into_iter().map(|object| (Key::of(&object), Arc::new(object))).collect();
        let before = {
            let mut objects = self.0.objects.write().unwrap_or_else(PoisonError::into_inner);
            // Revisions start anew when another server, or a restored one, answers.
            objects.seen = list.values().map(|object| version_of(&**object)).max().unwrap_or(0);
            std::mem::replace(&mut objects.by_key, list.clone())
        };
        self.0.sync.send_replace(Sync::Synced);
        let vanished = before.into_iter().filter(|(key, _)| !list.contains_key(key)).map(|(_, object)| object);
        vanished.chain(list.values().cloned()).for_each(|object| self.notify(&object));
        self.have_told();
    }

    /// The kind's objects cannot be listed.
    pub(super) fn failed(&self, sync: Sync) {
        self.0.sync.send_if_modified(|now| {
            let news = *now != Sync::Synced && *now != sync;
            if news {
                *now = sync;
            }
            news
        });
    }

    fn tell(&self, object: &K) {
        self.notify(object);
        self.have_told();
    }

    fn have_told(&self) {
        let mut objects = self.0.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.told = objects.seen;
    }

    /// Whether the subscribers know of all that is here, up to `newest`. What was only offered they learn of from the watch.
    fn has_told(&self, newest: u64) -> bool {
        let objects = self.0.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.told == objects.seen && newest <= objects.told
    }

    fn notify(&self, object: &K) {
        let subscribers = self.0.subscribers.read().unwrap_or_else(PoisonError::into_inner).clone();
        for subscriber in subscribers {
            subscriber(object);
        }
    }
}

impl<K: Kind> View for Cached<K> {
    fn kind(&self) -> String {
        K::kind(&()).into_owned()
    }

    fn sync(&self) -> Sync {
        Cached::sync(self)
    }

    fn settled(&self) -> BoxFuture<'static, ()> {
        let mut sync = self.0.sync.subscribe();
        Box::pin(async move {
            let _ = sync.wait_for(|sync| matches!(sync, Sync::Synced | Sync::NotServed)).await;
        })
    }

    fn synced(&self) -> BoxFuture<'static, ()> {
        let cache = self.clone();
        Box::pin(async move { Cached::synced(&cache).await })
    }

    fn is_current(&self, client: Client) -> BoxFuture<'static, Result<bool, Error>> {
        let cache = self.clone();
        Box::pin(async move {
            if cache.sync() != Sync::Synced {
                return Ok(cache.sync() == Sync::NotServed);
            }
            let wanted = ListParams { field_selector: cache.selector(), ..ListParams::default() };
            let list = Api::<K>::all(client).list_metadata(&wanted).await?;
            let there = list.items.iter().map(|object| (Key::of(object), object.resource_version()));
            let here = cache.list().into_iter().map(|object| (Key::of(&*object), object.resource_version()));
            let is_same = there.collect::<BTreeMap<_, _>>() == here.collect::<BTreeMap<_, _>>();
            Ok(is_same && cache.has_told(list.items.iter().map(version_of).max().unwrap_or(0)))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn map(name: &str, version: u64) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some("ns".to_owned());
        map.metadata.name = Some(name.to_owned());
        map.metadata.resource_version = Some(version.to_string());
        map
    }

    fn versions(cache: &Cached<ConfigMap>) -> Vec<(String, u64)> {
        cache.list().iter().map(|map| (map.name_any(), version_of(&**map))).collect()
    }

    fn held(entries: &[(&str, u64)]) -> Vec<(String, u64)> {
        entries.iter().map(|(name, version)| ((*name).to_owned(), *version)).collect()
    }

    #[test]
    fn what_was_only_offered_is_not_told_yet() {
        let cache = Cached::new(None);
        cache.replaced(vec![map("a", 5)]);
        assert!(cache.has_told(5));
        cache.offer(&map("a", 7));
        assert!(!cache.has_told(7), "nobody was woken for it");
        cache.applied(map("a", 7));
        assert!(cache.has_told(7));
        let (heard, inside) = (Arc::new(Mutex::new(true)), cache.clone());
        let hearing = Arc::clone(&heard);
        cache.subscribe(move |map| *hearing.lock().unwrap() = inside.has_told(version_of(map)));
        cache.deleted(&map("a", 8));
        assert!(!*heard.lock().unwrap(), "while they are being told");
        assert!(cache.has_told(8));
    }

    #[test]
    fn who_wrote_an_object_reads_it_and_the_watch_overrules() {
        let cache = Cached::new(None);
        cache.replaced(vec![map("a", 5)]);
        cache.offer(&map("a", 7));
        assert_eq!(versions(&cache), held(&[("a", 7)]));
        cache.applied(map("a", 6));
        assert_eq!(versions(&cache), held(&[("a", 7)]), "an event that was on its way does not take it back");
        cache.deleted(&map("a", 8));
        cache.offer(&map("a", 7));
        assert_eq!(versions(&cache), held(&[]), "what is deleted does not come back");
    }

    #[test]
    fn subscribers_hear_of_what_is_there_what_changes_and_what_vanished_in_a_gap() {
        let cache = Cached::new(None);
        cache.replaced(vec![map("a", 1), map("b", 2)]);
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ear = Arc::clone(&heard);
        cache.subscribe(move |map: &ConfigMap| ear.lock().unwrap().push(map.name_any()));
        cache.applied(map("c", 3));
        cache.replaced(vec![map("c", 3)]);
        assert_eq!(*heard.lock().unwrap(), ["a", "b", "c", "a", "b", "c"]);
        assert_eq!(cache.in_namespace("ns").len(), 1);
        assert!(cache.in_namespace("n").is_empty() && cache.in_namespace("nt").is_empty());
    }

    #[test]
    fn a_cache_that_was_filled_stays_usable_while_its_watch_fails() {
        let cache = Cached::<ConfigMap>::new(None);
        cache.failed(Sync::NotServed);
        assert_eq!(cache.sync(), Sync::NotServed);
        cache.replaced(Vec::new());
        cache.failed(Sync::Failing("no connection".to_owned()));
        assert_eq!(cache.sync(), Sync::Synced);
    }
}
