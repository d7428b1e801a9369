//! One watch per kind and manager, or per single object that somebody needs, and what it found, for everyone.

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
#[derive(Clone)]
pub struct Caches(Arc<Inner>);

struct Inner {
    client: Client,
    supervisor: Supervisor,
    /// By kind, and by key where only one object of the kind is followed.
    entries: Mutex<HashMap<(TypeId, Option<Key>), Entry>>,
}

struct Entry {
    cache: Arc<dyn Any + Send + std::marker::Sync>,
    view: Arc<dyn View>,
}

/// What can be asked of a cache without knowing its kind.
pub(crate) trait View: Send + std::marker::Sync {
    /// The kind's name.
    fn kind(&self) -> String;
    /// How far it is.
    fn sync(&self) -> Sync;
    /// Returns when it is neither empty for want of a first list nor waiting for one that is on its way.
    fn settled(&self) -> BoxFuture<'static, ()>;
    /// Returns when it has the server's objects, which may be never.
    fn synced(&self) -> BoxFuture<'static, ()>;
    /// Whether it holds what the server has at this moment.
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

    /// The cache of a kind. The first who asks starts its watch.
    pub fn get<K: Kind>(&self) -> Cached<K> {
        self.find(None)
    }

    /// The cache of one object, for who needs no other of its kind: there may be very many, and none of them is watched.
    pub(crate) fn only<K: Kind>(&self, key: Key) -> Cached<K> {
        self.find(Some(key))
    }

    fn find<K: Kind>(&self, only: Option<Key>) -> Cached<K> {
        let mut entries = self.0.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let id = (TypeId::of::<K>(), only);
        if let Some(known) = entries.get(&id).and_then(|entry| entry.cache.downcast_ref::<Cached<K>>()) {
            return known.clone();
        }
        let cache = Cached::<K>::new(id.1.clone());
        let entry = Entry { cache: Arc::new(cache.clone()), view: Arc::new(cache.clone()) };
        entries.insert(id, entry);
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
