//! The declaration of a controller: its name, what enqueues its objects, and what must be installed for it.

use std::{fmt, sync::Arc, time::Duration};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;

use crate::{
    Key, Kind,
    admission::Webhook,
    cache::{Caches, View},
    finalizer,
    passthrough::Passthrough,
    queue::Queue,
};

/// How many objects one controller reconciles concurrently by default.
const WORKERS: usize = 8;
/// How long a reconcile may take by default.
const PATIENCE: Duration = Duration::from_mins(10);

/// Which objects of a controller are enqueued when a watched object changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wake {
    /// No object.
    Nothing,
    /// This object.
    One(Key),
    /// These objects.
    Many(Vec<Key>),
    /// Every object of the controller's kind.
    All,
}

impl From<Key> for Wake {
    fn from(key: Key) -> Self {
        Self::One(key)
    }
}

impl From<Option<Key>> for Wake {
    fn from(key: Option<Key>) -> Self {
        key.map_or(Self::Nothing, Self::One)
    }
}

impl From<Vec<Key>> for Wake {
    fn from(keys: Vec<Key>) -> Self {
        Self::Many(keys)
    }
}

/// Connects watches to the queue of one controller.
#[derive(Clone)]
pub(crate) struct Wiring {
    pub(crate) caches: Caches,
    pub(crate) queue: Arc<Queue>,
    /// Returns all keys of the controller's kind, for [`Wake::All`].
    pub(crate) everyone: Arc<dyn Fn() -> Vec<Key> + Send + Sync>,
    /// Whether an object of the controller's kind with this key is in the cache.
    pub(crate) exists: Arc<dyn Fn(&Key) -> bool + Send + Sync>,
    /// Group and kind of the controller's objects.
    pub(crate) owner: (String, String),
}

impl Wiring {
    fn wake(&self, wake: Wake) {
        match wake {
            Wake::Nothing => {}
            Wake::One(key) => self.queue.wake(key),
            Wake::Many(keys) => keys.into_iter().for_each(|key| self.queue.wake(key)),
            Wake::All => (self.everyone)().into_iter().for_each(|key| self.queue.wake(key)),
        }
    }
}

/// Subscribes a queue to a watch; returns the cache that the watch fills.
type Wire = Arc<dyn Fn(&Wiring) -> Arc<dyn View> + Send + Sync>;

/// Describes a controller to the manager: its name and group, its CRDs, watches, finalizer, webhooks and passthroughs.
///
/// The manager reads it once. Before the controller starts, the manager configures the webhooks, installs the CRDs and starts the
/// watches; reconciles start when the caches of all watches are synced.
#[derive(Clone)]
#[must_use]
pub struct Declaration {
    pub(crate) name: &'static str,
    pub(crate) group: &'static str,
    pub(crate) crds: Vec<CustomResourceDefinition>,
    pub(crate) watches: Vec<Watch>,
    pub(crate) finalizer: Option<&'static str>,
    pub(crate) webhooks: Vec<Webhook>,
    pub(crate) passthroughs: Vec<Passthrough>,
    pub(crate) workers: usize,
    pub(crate) patience: Duration,
    pub(crate) field_manager: Option<&'static str>,
}

#[derive(Clone)]
pub(crate) struct Watch {
    pub(crate) kind: String,
    pub(crate) wire: Wire,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)
    }
}

impl fmt::Debug for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let crds: Vec<_> = self.crds.iter().map(ResourceExt::name_any).collect();
        f.debug_struct("Declaration")
            .field("name", &self.name)
            .field("group", &self.group)
            .field("crds", &crds)
            .field("watches", &self.watches)
            .field("finalizer", &self.finalizer)
            .field("webhooks", &self.webhooks)
            .field("passthroughs", &self.passthroughs)
            .finish_non_exhaustive()
    }
}

impl Declaration {
    /// A controller with this name, in this group of `--controllers`. With an empty group, only its name and `*` select it.
    pub fn new(name: &'static str, group: &'static str) -> Self {
        Self {
            name,
            group,
            crds: Vec::new(),
            watches: Vec::new(),
            finalizer: None,
            webhooks: Vec::new(),
            passthroughs: Vec::new(),
            workers: WORKERS,
            patience: PATIENCE,
            field_manager: None,
        }
    }

    /// The controller's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The controller's group in `--controllers`.
    pub fn group(&self) -> &'static str {
        self.group
    }

    /// The endpoints that the controller serves under `/passthrough`.
    pub fn passthroughs(&self) -> &[Passthrough] {
        &self.passthroughs
    }

    /// CRDs that the manager installs or updates before the controller starts.
    pub fn crds(mut self, crds: impl IntoIterator<Item = CustomResourceDefinition>) -> Self {
        self.crds.extend(crds);
        self
    }

    /// Enqueues the owner when an object of `K` changes whose controller reference names an object of this controller's kind.
    pub fn owns<K: Kind>(self) -> Self {
        self.wired::<K>(|object, wiring| Wake::Many(owners(object, wiring)))
    }

    /// Enqueues the objects that `map` returns when an object of `K` is created, changed or deleted.
    pub fn watches<K: Kind, W: Into<Wake>>(self, map: impl Fn(&K) -> W + Send + Sync + 'static) -> Self {
        self.wired::<K>(move |object, _| map(object).into())
    }

    fn wired<K: Kind>(mut self, map: impl Fn(&K, &Wiring) -> Wake + Send + Sync + 'static) -> Self {
        let map = Arc::new(map);
        let wire: Wire = Arc::new(move |wiring| {
            let (map, own) = (Arc::clone(&map), wiring.clone());
            let cache = wiring.caches.get::<K>();
            // Each change of the watched kind runs the map, which must therefore be cheap.
            cache.subscribe(move |object| own.wake(map(object, &own)));
            Arc::new(cache)
        });
        self.watches.push(Watch { kind: K::kind(&()).into_owned(), wire });
        self
    }

    /// Uses the finalizer `rdd.rancherdesktop.io/cleanup`: the runtime adds it to each object before the first reconcile, and the
    /// controller removes it ([`Context::release`](crate::Context::release)) when nothing is left
    /// to clean up.
    pub fn cleans_up(self) -> Self {
        self.finalizer(finalizer::CLEANUP)
    }

    /// Like [`cleans_up`](Self::cleans_up), with another finalizer name.
    pub fn finalizer(mut self, finalizer: &'static str) -> Self {
        self.finalizer = Some(finalizer);
        self
    }

    /// Adds a webhook that the controller answers.
    pub fn webhook(mut self, webhook: Webhook) -> Self {
        self.webhooks.push(webhook);
        self
    }

    /// Adds an endpoint that the controller serves under `/passthrough`.
    pub fn passthrough(mut self, passthrough: Passthrough) -> Self {
        self.passthroughs.push(passthrough);
        self
    }

    /// How many objects are reconciled concurrently; at least one.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// How long a reconcile may take before the runtime cancels it and reports an error.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The field manager of the controller's server-side applies. The default is `<name>-controller`.
    pub fn field_manager(mut self, manager: &'static str) -> Self {
        self.field_manager = Some(manager);
        self
    }
}

/// The owner of an object by its controller reference. A reference does not say whether the owner is namespaced, so both the
/// object's namespace and the cluster scope are tried. An owner that is not in the cache yet needs no entry: it is reconciled when
/// it appears.
fn owners<K: Kind>(object: &K, wiring: &Wiring) -> Vec<Key> {
    let (group, kind) = &wiring.owner;
    let is_owner = |version: &str| version.rsplit_once('/').map_or("", |(group, _)| group) == group;
    let references = object.owner_references().iter();
    let found = references
        .filter(|owner| owner.controller == Some(true) && owner.kind == *kind && is_owner(&owner.api_version));
    // The reference does not say whether the owner is namespaced: try both keys.
    let keys = found.flat_map(|owner| {
        let near = object.namespace().map(|namespace| Key::namespaced(namespace, &owner.name));
        [Some(Key::cluster(&owner.name)), near].into_iter().flatten()
    });
    // An owner that is not cached yet is reconciled anyway when it appears.
    keys.filter(|key| (wiring.exists)(key)).collect()
}
