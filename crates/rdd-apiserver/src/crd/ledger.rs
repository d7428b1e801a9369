//! The ledger of accepted names: which definition holds which names, and since when.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use rdd_store::Revision;

use super::{head::Names, names::Taken};

/// The accepted names of all definitions. Clones share their data.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Mutex<BTreeMap<String, Holding>>>);

/// The names that one definition holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holding {
    pub(super) group: String,
    pub(super) names: Names,
    /// The revision at which the definition was first seen.
    pub(super) since: Revision,
}

impl Ledger {
    /// Records the names of a definition. A definition that is recorded already keeps its `since`.
    pub(super) fn hold(&self, definition: &str, group: &str, names: &Names, revision: Revision) {
        let mut held = self.lock();
        let since = held.get(definition).map_or(revision, |holding| holding.since);
        held.insert(definition.to_owned(), Holding { group: group.to_owned(), names: names.clone(), since });
    }

    /// Removes the names of a definition.
    pub(super) fn release(&self, definition: &str) {
        self.lock().remove(definition);
    }

    /// The names in a group that other definitions hold.
    pub(super) fn taken(&self, group: &str, definition: &str) -> Taken {
        self.gather(|name, holding| holding.group == group && name != definition)
    }

    /// The names in a group that other definitions held before this one. Definitions of the same revision are ordered by name.
    pub(super) fn taken_before(&self, group: &str, definition: &str) -> Taken {
        let since = self.lock().get(definition).map(|holding| holding.since);
        self.gather(|name, holding| {
            holding.group == group && since.is_some_and(|since| (holding.since, name) < (since, definition))
        })
    }

    /// The definitions of a group that hold a name which another held before. It happens if two definitions are written concurrently.
    pub(super) fn contested(&self, group: &str) -> BTreeSet<String> {
        let held = self.lock();
        let mut by_age: Vec<(&String, &Holding)> = held.iter().filter(|(_, holding)| holding.group == group).collect();
        // In the order of age, each definition keeps the names that no older one holds.
        by_age.sort_by_key(|(name, holding)| (holding.since, *name));
        let mut taken = Taken::default();
        let mut contested = BTreeSet::new();
        for (name, holding) in by_age {
            if taken.clashes_with(&holding.names) {
                contested.insert(name.clone());
            } else {
                taken.add(&holding.names);
            }
        }
        contested
    }

    fn gather(&self, wanted: impl Fn(&str, &Holding) -> bool) -> Taken {
        let mut taken = Taken::default();
        self.lock()
            .iter()
            .filter(|(name, holding)| wanted(name, holding))
            .for_each(|(_, holding)| taken.add(&holding.names));
        taken
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Holding>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
