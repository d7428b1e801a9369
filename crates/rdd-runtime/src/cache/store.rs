//! The cached objects of one kind, with subscribers that learn about every change.

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

/// The state of a cache's watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sync {
    /// The first list has not arrived yet.
    Pending,
    /// The server does not serve the kind; the watch retries with backoff.
    NotServed,
    /// The first list has arrived, and the watch keeps the cache current.
    Synced,
    /// The first list failed with this error; the watch retries with backoff.
    Failing(String),
}

type Subscriber<K> = Arc<dyn Fn(&K) + Send + std::marker::Sync>;

/// The cached objects of one kind, or a single one of them. Cheap to clone.
///
/// # Guarantees
/// - The cache may lag behind the server. A watch event never replaces an object by an older version of it.
/// - An object that a controller wrote with [`Context::apply`](crate::Context::apply) is in the cache when the call returns.
/// - Cached objects have no `managedFields`.
pub struct Cached<K>(Arc<Shared<K>>);

struct Shared<K> {
    /// The key of the only object in this cache; `None` for all objects of the kind.
    only: Option<Key>,
    objects: RwLock<Objects<K>>,
    subscribers: RwLock<Vec<Subscriber<K>>>,
    sync: watch::Sender<Sync>,
}

struct Objects<K> {
    by_key: BTreeMap<Key, Arc<K>>,
    /// The newest resourceVersion that the watch has delivered.
    seen: u64,
    /// The newest resourceVersion that the subscribers have received.
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

/// The resourceVersion as a number, 0 if it is unknown. Kubernetes guarantees since 1.35 that the versions of one kind compare as
/// numbers.
fn version_of(object: &impl ResourceExt) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or(0)
}

impl<K: Kind> Cached<K> {
    pub(super) fn new(only: Option<Key>) -> Self {
        let objects = RwLock::new(Objects { by_key: BTreeMap::new(), seen: 0, told: 0 });
        let sync = watch::Sender::new(Sync::Pending);
        Self(Arc::new(Shared { only, objects, subscribers: RwLock::default(), sync }))
    }

    /// The field selector of the watch; `None` for all objects of the kind.
    pub(super) fn selector(&self) -> Option<String> {
        let Key { namespace, name } = self.0.only.as_ref()?;
        let inside = namespace.as_ref().map(|namespace| format!(",metadata.namespace={namespace}"));
        Some(format!("metadata.name={name}{}", inside.unwrap_or_default()))
    }

    fn read<T>(&self, look: impl FnOnce(&BTreeMap<Key, Arc<K>>) -> T) -> T {
        look(&self.0.objects.read().unwrap_or_else(PoisonError::into_inner).by_key)
    }

    /// The object with this key, if the cache has it.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.read(|objects| objects.get(key).cloned())
    }

    /// All objects, ordered by key.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.read(|objects| objects.values().cloned().collect())
    }

    /// The objects of one namespace, ordered by name.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let first = Key::namespaced(namespace, "");
        let is_inside = |key: &Key| key.namespace.as_deref() == Some(namespace);
        self.read(|objects| {
            let from = objects.range((Bound::Included(first), Bound::Unbounded));
            from.take_while(|(key, _)| is_inside(key)).map(|(_, object)| Arc::clone(object)).collect()
        })
    }

    /// The keys of all objects, in order.
    pub fn keys(&self) -> Vec<Key> {
        self.read(|objects| objects.keys().cloned().collect())
    }

    /// The state of the watch.
    pub fn sync(&self) -> Sync {
        self.0.sync.borrow().clone()
    }

    /// Returns when the first list has arrived; never, if the kind is never served.
    pub async fn synced(&self) {
        let mut sync = self.0.sync.subscribe();
        // The error is impossible: the sender lives as long as this cache.
        let _ = sync.wait_for(|sync| *sync == Sync::Synced).await;
    }

    /// Calls `subscriber` for each cached object, and from then on for each object that is added, changed or deleted.
    pub(crate) fn subscribe(&self, subscriber: impl Fn(&K) + Send + std::marker::Sync + 'static) {
        let subscriber: Subscriber<K> = Arc::new(subscriber);
        // Subscribe before listing: an object that arrives in between is delivered twice rather than never.
        self.0.subscribers.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&subscriber));
        for object in self.list() {
            subscriber(&object);
        }
    }

    /// Adds an object that a write has just returned, so that the writer reads its own write. The watch overrules it.
    pub(crate) fn offer(&self, object: &K) {
        let mut objects = self.0.objects.write().unwrap_or_else(PoisonError::into_inner);
        // A version that is not newer than the watch may belong to an object that has been deleted since.
        if version_of(object) > objects.seen {
            let key = Key::of(object);
            if objects.by_key.get(&key).is_none_or(|known| version_of(&**known) < version_of(object)) {
                let mut object = object.clone();
                object.meta_mut().managed_fields = None;
                objects.by_key.insert(key, Arc::new(object));
            }
        }
    }

    /// Adds or replaces an object that the watch has delivered.
    pub(super) fn applied(&self, object: K) {
        let object = Arc::new(object);
        {
            let mut objects = self.0.objects.write().unwrap_or_else(PoisonError::into_inner);
            objects.seen = objects.seen.max(version_of(&*object));
            let key = Key::of(&*object);
            // `offer` may have stored a version that is newer than this event.
            let is_older = |known: &Arc<K>| {
                known.uid() == object.uid() && version_of(&**known) > version_of(&*object) && version_of(&*object) > 0
            };
            if !objects.by_key.get(&key).is_some_and(is_older) {
                objects.by_key.insert(key, Arc::clone(&object));
            }
        }
        self.tell(&object);
    }

    /// Removes an object that the watch reports as deleted.
    pub(super) fn deleted(&self, object: &K) {
        {
            let mut objects = self.0.objects.write().unwrap_or_else(PoisonError::into_inner);
            objects.seen = objects.seen.max(version_of(object));
            let key = Key::of(object);
            // `offer` may have stored a new object of the same name.
            if objects.by_key.get(&key).is_some_and(|known| version_of(&**known) <= version_of(object)) {
                objects.by_key.remove(&key);
            }
        }
        self.tell(object);
    }

    /// Replaces all objects: after the first list, and after each list that follows a watch that could not be resumed.
    pub(super) fn replaced(&self, list: Vec<K>) {
        let list: BTreeMap<Key, Arc<K>> = list.into_iter().map(|object| (Key::of(&object), Arc::new(object))).collect();
        let before = {
            let mut objects = self.0.objects.write().unwrap_or_else(PoisonError::into_inner);
            // Versions start again when another server answers, or one that was restored from a backup.
            objects.seen = list.values().map(|object| version_of(&**object)).max().unwrap_or(0);
            std::mem::replace(&mut objects.by_key, list.clone())
        };
        self.0.sync.send_replace(Sync::Synced);
        // Subscribers must also learn about objects that were deleted while no watch ran.
        let vanished = before.into_iter().filter(|(key, _)| !list.contains_key(key)).map(|(_, object)| object);
        vanished.chain(list.values().cloned()).for_each(|object| self.notify(&object));
        self.have_told();
    }

    /// Records that the list fails. A synced cache stays synced: it keeps its objects until the next list.
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

    /// Records that the subscribers have received everything that the watch has delivered.
    fn have_told(&self) {
        let mut objects = self.0.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.told = objects.seen;
    }

    /// Whether the subscribers have received everything in this cache, up to version `newest`. Offered objects reach them by the watch.
    fn has_told(&self, newest: u64) -> bool {
        let objects = self.0.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.told == objects.seen && newest <= objects.told
    }

    /// Calls all subscribers without holding a lock, because they may read the cache.
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
