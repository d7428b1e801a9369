//! The registry: all served resources, built in or custom, as one immutable table that changes replace as a whole.

mod def;
pub mod form;
mod kind;

use std::{
    collections::BTreeMap,
    sync::{Arc, RwLock},
};

use rdd_store::Revision;
use tokio::sync::watch;

pub use self::{
    def::{
        ALL_VERBS, Answerer, Backing, CREATE_VERBS, Conversion, Custom, Manners, Part, Question, READ_VERBS,
        ResourceDef, Stored, SubresourceDef, Verbs, VersionDef,
    },
    kind::{Column, Finding, Kind, Ordered, Origin},
};

/// The table of served resources, and the channel that announces a new table.
#[derive(Debug)]
pub struct Registry {
    served: RwLock<Arc<Served>>,
    changed: watch::Sender<u64>,
}

/// The resources that are served at one moment. A snapshot: it never changes.
#[derive(Debug, Clone, Default)]
pub struct Served {
    /// Incremented by each change, so that two tables can be told apart.
    pub generation: u64,
    /// By group, then by plural.
    groups: BTreeMap<String, BTreeMap<String, Arc<ResourceDef>>>,
    /// By group and plural.
    unresolvable: BTreeMap<(String, String), UnresolvableDef>,
}

/// A custom resource that exists but cannot be served, because its definition does not work. As upstream: discovery does not
/// list it, and each request for it is an internal error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnresolvableDef {
    /// The versions that would be served.
    pub versions: Vec<String>,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

impl Registry {
    /// A registry of the built-in resources.
    pub fn new(builtin: impl IntoIterator<Item = ResourceDef>) -> Self {
        let mut served = Served::default();
        for def in builtin {
            served.insert(def);
        }
        Self { served: RwLock::new(Arc::new(served)), changed: watch::Sender::new(0) }
    }

    /// The current table. It never changes, so each request must take it again.
    pub fn served(&self) -> Arc<Served> {
        Arc::clone(&self.served.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Serves a resource. Replaces one of the same name.
    pub fn put(&self, def: ResourceDef) {
        self.put_all([def]);
    }

    /// Serves several resources with one change. Replaces those of the same names.
    pub fn put_all(&self, defs: impl IntoIterator<Item = ResourceDef>) {
        self.change(|served| {
            for mut def in defs {
                succeed(served.get(&def.group, &def.plural), &mut def);
                served.insert(def);
            }
        });
    }

    /// Stops serving a resource, as of this revision.
    pub fn remove(&self, group: &str, plural: &str, at: Revision) {
        self.change(|served| withdraw(served.remove(group, plural).as_ref(), at));
    }

    /// Stops serving a resource that still exists, and marks it as unresolvable.
    pub fn suspend(&self, group: &str, plural: &str, unresolvable: UnresolvableDef, at: Revision) {
        self.change(|served| {
            withdraw(served.remove(group, plural).as_ref(), at);
            served.unresolvable.insert((group.to_owned(), plural.to_owned()), unresolvable);
        });
    }

    /// A receiver for the generation of each new table.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn change(&self, edit: impl FnOnce(&mut Served)) {
        let mut served = self.served.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut next = Served::clone(&served);
        next.generation += 1;
        edit(&mut next);
        let generation = next.generation;
        *served = Arc::new(next);
        drop(served);
        self.changed.send_replace(generation);
    }
}

/// Links a new definition to the one that it replaces: a later revision of the same definition shares its withdrawal, and
/// another definition withdraws the one before it.
fn succeed(before: Option<&Arc<ResourceDef>>, def: &mut ResourceDef) {
    let Some(custom) = &mut def.custom else { return };
    match before.and_then(|before| before.custom.as_ref()) {
        Some(same) if same.uid == custom.uid => custom.withdrawn = Arc::clone(&same.withdrawn),
        // Another uid: the definition was deleted and created again.
        // Its objects can be written only from here on.
        _ => withdraw(before, custom.revision),
    }
}

fn withdraw(def: Option<&Arc<ResourceDef>>, at: Revision) {
    if let Some(custom) = def.and_then(|def| def.custom.as_ref()) {
        // A definition is withdrawn once. The first revision counts, so a second call changes nothing.
        let _ = custom.withdrawn.set(at);
    }
}

impl Served {
    /// A resource by group and plural.
    pub fn get(&self, group: &str, plural: &str) -> Option<&Arc<ResourceDef>> {
        self.groups.get(group)?.get(plural)
    }

    /// The resources of a group.
    pub fn in_group(&self, group: &str) -> impl Iterator<Item = &Arc<ResourceDef>> {
        self.groups.get(group).into_iter().flat_map(BTreeMap::values)
    }

    /// All resources, by group and plural.
    pub fn all(&self) -> impl Iterator<Item = &Arc<ResourceDef>> {
        self.groups.values().flat_map(BTreeMap::values)
    }

    /// The resource of a kind.
    pub fn by_kind(&self, group: &str, kind: &str) -> Option<&Arc<ResourceDef>> {
        self.in_group(group).find(|def| def.kind == kind)
    }

    /// The unresolvable resource of this name, if it has this version.
    pub fn unresolvable(&self, group: &str, plural: &str, version: &str) -> Option<&UnresolvableDef> {
        if self.unresolvable.is_empty() {
            return None;
        }
        let found = self.unresolvable.get(&(group.to_owned(), plural.to_owned()))?;
        found.versions.iter().any(|served| served == version).then_some(found)
    }

    fn insert(&mut self, def: ResourceDef) {
        self.unresolvable.remove(&(def.group.clone(), def.plural.clone()));
        self.groups.entry(def.group.clone()).or_default().insert(def.plural.clone(), Arc::new(def));
    }

    fn remove(&mut self, group: &str, plural: &str) -> Option<Arc<ResourceDef>> {
        self.unresolvable.remove(&(group.to_owned(), plural.to_owned()));
        let resources = self.groups.get_mut(group)?;
        let removed = resources.remove(plural);
        if resources.is_empty() {
            self.groups.remove(group);
        }
        removed
    }
}
