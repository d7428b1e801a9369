//! Shared caches: one watch per kind (or per single object) and manager, and the objects that it has delivered.

mod store;
mod trace;
mod watch;

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use futures::future::BoxFuture;
use kube::Client;

pub use self::store::{Cached, Sync};
use crate::{Error, Key, Kind, supervise::Supervisor};

/// The caches of one manager. Cheap to clone.
///
/// # Guarantees
/// All controllers of a manager share one watch and one copy of the objects of a kind. The supervisor restarts a watch that ends.
#[derive(Clone)]
pub struct Caches(Arc<Inner>);

struct Inner {
    client: Client,
    supervisor: Supervisor,
    /// By kind; with a key for a cache that holds only this object.
    entries: Mutex<HashMap<(TypeId, Option<Key>), Entry>>,
}

struct Entry {
    cache: Arc<dyn Any + Send + std::marker::Sync>,
    view: Arc<dyn View>,
}

/// A cache without its type: what the manager needs to know about it.
pub(crate) trait View: Send + std::marker::Sync {
    /// The kind's name.
    fn kind(&self) -> String;
    /// The state of its watch.
    fn sync(&self) -> Sync;
    /// Returns when the first list has arrived, or when the server has answered that it does not serve the kind.
    fn settled(&self) -> BoxFuture<'static, ()>;
    /// Returns when the first list has arrived; never, if the kind is never served.
    fn synced(&self) -> BoxFuture<'static, ()>;
    /// Compares the cache with the server, for tests that wait for quiet. True if the server does not serve the kind.
    fn is_current(&self, client: Client) -> BoxFuture<'static, Result<bool, Error>>;
}

impl fmt::Debug for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.views().iter().map(|view| (view.kind(), view.sync()))).finish()
    }
}

impl Caches {
    pub(crate) fn new(client: Client, supervisor: Supervisor) -> Self {
        Self(Arc::new(Inner { client, supervisor, entries: Mutex::default() }))
    }

    /// The cache of a kind. The first call starts its watch.
    pub fn get<K: Kind>(&self) -> Cached<K> {
        self.find(None)
    }

    /// The cache of one object, for callers that need no other object of the kind. Its watch selects this object only, so that a kind
    /// with many objects costs nothing.
    pub(crate) fn only<K: Kind>(&self, key: Key) -> Cached<K> {
        self.find(Some(key))
    }

    fn find<K: Kind>(&self, only: Option<Key>) -> Cached<K> {
        let mut entries = self.0.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let id = (TypeId::of::<K>(), only);
        // The type is part of the key, so the downcast always succeeds.
        if let Some(known) = entries.get(&id).and_then(|entry| entry.cache.downcast_ref::<Cached<K>>()) {
            return known.clone();
        }
        let cache = Cached::<K>::new(id.1.clone());
        let entry = Entry { cache: Arc::new(cache.clone()), view: Arc::new(cache.clone()) };
        entries.insert(id, entry);
        // The supervisor may start the watch several times, so the closure keeps its own handles.
        let (client, followed) = (self.0.client.clone(), cache.clone());
        self.0.supervisor.start(format!("watch of {}", K::kind(&())), move || {
            Box::pin(watch::follow(client.clone(), followed.clone()))
        });
        cache
    }

    pub(crate) fn views(&self) -> Vec<Arc<dyn View>> {
        let entries = self.0.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.values().map(|entry| Arc::clone(&entry.view)).collect()
    }
}
