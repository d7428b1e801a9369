//! What is served: the resources, built in or custom, as one immutable table that is replaced as a whole.

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

/// The table of what is served, and who wants to know when it changes.
#[derive(Debug)]
pub struct Registry {
    served: RwLock<Arc<Served>>,
    changed: watch::Sender<u64>,
}

/// What is served at one moment.
#[derive(Debug, Clone, Default)]
pub struct Served {
    /// Counts the changes; it tells two tables apart.
    pub generation: u64,
    /// By group and plural.
    resources: BTreeMap<(String, String), Arc<ResourceDef>>,
}

impl Registry {
    /// A table that begins with the built-in resources.
    pub fn new(builtin: impl IntoIterator<Item = ResourceDef>) -> Self {
        let mut served = Served::default();
        for def in builtin {
            served.resources.insert((def.group.clone(), def.plural.clone()), Arc::new(def));
        }
        Self { served: RwLock::new(Arc::new(served)), changed: watch::Sender::new(0) }
    }

    /// What is served now. The answer never changes; ask again for each request.
    pub fn served(&self) -> Arc<Served> {
        Arc::clone(&self.served.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Serves a resource, in place of one of the same name.
    pub fn put(&self, def: ResourceDef) {
        self.put_all([def]);
    }

    /// Serves many resources, in place of those of the same names, in one change.
    pub fn put_all(&self, defs: impl IntoIterator<Item = ResourceDef>) {
        self.change(|resources| {
            for mut def in defs {
                let name = (def.group.clone(), def.plural.clone());
                succeed(resources.get(&name), &mut def);
                resources.insert(name, Arc::new(def));
            }
        });
    }

    /// Serves a resource no longer, as of this revision.
    pub fn remove(&self, group: &str, plural: &str, at: Revision) {
        self.change(|resources| {
            let removed = resources.remove(&(group.to_owned(), plural.to_owned()));
            withdraw(removed.as_ref(), at);
        });
    }

    /// Tells the generation of each new table.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn change(&self, edit: impl FnOnce(&mut BTreeMap<(String, String), Arc<ResourceDef>>)) {
        let mut served = self.served.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut next = Served::clone(&served);
        next.generation += 1;
        edit(&mut next.resources);
        let generation = next.generation;
        *served = Arc::new(next);
        drop(served);
        self.changed.send_replace(generation);
    }
}

/// The next revision of a definition goes on where the last one was; another definition ends the one before it.
fn succeed(before: Option<&Arc<ResourceDef>>, def: &mut ResourceDef) {
    let Some(custom) = &mut def.custom else { return };
    match before.and_then(|before| before.custom.as_ref()) {
        Some(same) if same.uid == custom.uid => custom.withdrawn = Arc::clone(&same.withdrawn),
        // Its objects can be written only from here on.
        _ => withdraw(before, custom.revision),
    }
}

fn withdraw(def: Option<&Arc<ResourceDef>>, at: Revision) {
    if let Some(custom) = def.and_then(|def| def.custom.as_ref()) {
        // Whoever said it first is right.
        let _ = custom.withdrawn.set(at);
    }
}

impl Served {
    /// A resource by group and plural.
    pub fn get(&self, group: &str, plural: &str) -> Option<&Arc<ResourceDef>> {
        // A lookup by two borrowed halves needs a key of two owned ones; groups are few, so a range over the group does it.
        self.in_group(group).find(|def| def.plural == plural)
    }

    /// The resources of a group.
    pub fn in_group(&self, group: &str) -> impl Iterator<Item = &Arc<ResourceDef>> {
        let from = (group.to_owned(), String::new());
        self.resources.range(from..).take_while(move |((found, _), _)| *found == group).map(|(_, def)| def)
    }

    /// All resources, by group and plural.
    pub fn all(&self) -> impl Iterator<Item = &Arc<ResourceDef>> {
        self.resources.values()
    }

    /// The resource of a kind.
    pub fn by_kind(&self, group: &str, kind: &str) -> Option<&Arc<ResourceDef>> {
        self.in_group(group).find(|def| def.kind == kind)
    }
}
