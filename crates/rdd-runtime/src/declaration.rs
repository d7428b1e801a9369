//! What a controller says about itself: its name, what wakes it, and what has to be there for it.

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

/// How many objects of one controller are worked on at the same time, unless it says otherwise.
const WORKERS: usize = 8;
/// How long a reconcile may take, unless its controller says otherwise.
const PATIENCE: Duration = Duration::from_mins(10);

/// Which objects a change of another one wakes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wake {
    /// None.
    Nothing,
    /// This one.
    One(Key),
    /// These.
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

/// What a watch is connected to: the queue of one controller.
#[derive(Clone)]
pub(crate) struct Wiring {
    pub(crate) caches: Caches,
    pub(crate) queue: Arc<Queue>,
    /// All keys of the controller's kind, for [`Wake::All`].
    pub(crate) everyone: Arc<dyn Fn() -> Vec<Key> + Send + Sync>,
    /// Whether the controller has an object of this key.
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

/// Connects a watch to a queue; returns the cache that it needs.
type Wire = Arc<dyn Fn(&Wiring) -> Arc<dyn View> + Send + Sync>;

/// What a controller says about itself.
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
    /// A controller of this name, in the group that `--controllers` knows by this word (empty: only the name and `*` select it).
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

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The word of its group.
    pub fn group(&self) -> &'static str {
        self.group
    }

    /// What it answers under `/passthrough`.
    pub fn passthroughs(&self) -> &[Passthrough] {
        &self.passthroughs
    }

    /// Definitions that are installed, or brought up to date, before it starts.
    pub fn crds(mut self, crds: impl IntoIterator<Item = CustomResourceDefinition>) -> Self {
        self.crds.extend(crds);
        self
    }

    /// Wakes the owner when an object of `K` changes whose controller reference names an object of the controller's kind.
    pub fn owns<K: Kind>(self) -> Self {
        self.wired::<K>(|object, wiring| Wake::Many(owners(object, wiring)))
    }

    /// Wakes those that `map` names when an object of `K` appears, changes or vanishes.
    pub fn watches<K: Kind, W: Into<Wake>>(self, map: impl Fn(&K) -> W + Send + Sync + 'static) -> Self {
        self.wired::<K>(move |object, _| map(object).into())
    }

    fn wired<K: Kind>(mut self, map: impl Fn(&K, &Wiring) -> Wake + Send + Sync + 'static) -> Self {
        let map = Arc::new(map);
        let wire: Wire = Arc::new(move |wiring| {
            let (map, own) = (Arc::clone(&map), wiring.clone());
            let cache = wiring.caches.get::<K>();
            cache.subscribe(move |object| own.wake(map(object, &own)));
            Arc::new(cache)
        });
        self.watches.push(Watch { kind: K::kind(&()).into_owned(), wire });
        self
    }

    /// Its objects carry the finalizer `rdd.rancherdesktop.io/cleanup`: the runtime puts it on before the first reconcile, the
    /// controller takes it off ([`Context::release`](crate::Context::release)) when nothing is left to clean.
    pub fn cleans_up(self) -> Self {
        self.finalizer(finalizer::CLEANUP)
    }

    /// As [`cleans_up`](Self::cleans_up), with a finalizer of another name.
    pub fn finalizer(mut self, finalizer: &'static str) -> Self {
        self.finalizer = Some(finalizer);
        self
    }

    /// A webhook that it answers.
    pub fn webhook(mut self, webhook: Webhook) -> Self {
        self.webhooks.push(webhook);
        self
    }

    /// An endpoint that it answers under `/passthrough`.
    pub fn passthrough(mut self, passthrough: Passthrough) -> Self {
        self.passthroughs.push(passthrough);
        self
    }

    /// How many objects are worked on at the same time; at least one.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// How long a reconcile may take before it is given up and told as an error.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The field manager of what it applies; `<name>-controller` without this.
    pub fn field_manager(mut self, manager: &'static str) -> Self {
        self.field_manager = Some(manager);
        self
    }
}

/// The owner of an object by its controller reference, in the object's namespace or in none: a reference does not say which.
/// One that is not there (yet) is looked at when it comes, with this object in sight.
fn owners<K: Kind>(object: &K, wiring: &Wiring) -> Vec<Key> {
    let (group, kind) = &wiring.owner;
    let is_owner = |version: &str| version.rsplit_once('/').map_or("", |(group, _)| group) == group;
    let references = object.owner_references().iter();
    let found = references
        .filter(|owner| owner.controller == Some(true) && owner.kind == *kind && is_owner(&owner.api_version));
    let keys = found.flat_map(|owner| {
        let near = object.namespace().map(|namespace| Key::namespaced(namespace, &owner.name));
        [Some(Key::cluster(&owner.name)), near].into_iter().flatten()
    });
    keys.filter(|key| (wiring.exists)(key)).collect()
}
