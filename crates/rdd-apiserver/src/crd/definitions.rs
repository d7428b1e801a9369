//! Keeps the registry synchronized with the stored CustomResourceDefinitions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use rdd_stdx::chain::Chain;
use rdd_store::Revision;
use tracing::error;

use super::{
    head::{Head, Names},
    kind::CustomKind,
    ledger::Ledger,
    resource::{self, DefinitionError},
};
use crate::{
    registry::{Registry, ResourceDef, UnresolvableDef},
    state::{self, ListOptions, Object, State},
};

/// The stored definitions and what the registry serves of them.
///
/// # Guarantees
/// When [`observe`](Self::observe) returns, the registry serves the definition as it is stored. Concurrent calls are serialized, so
/// an older state never replaces a newer one.
///
/// # Assumptions
/// The server calls [`load`](Self::load) before it listens.
#[derive(Debug)]
pub struct Definitions {
    state: Arc<State>,
    registry: Arc<Registry>,
    ledger: Ledger,
    resource: state::Resource,
    known: Mutex<BTreeMap<String, Known>>,
    /// The revision of the state when the definitions were loaded.
    loaded_at: OnceLock<Revision>,
}

/// A definition as of its last synchronization.
#[derive(Debug)]
struct Known {
    revision: Revision,
    uid: String,
    generation: i64,
    /// The accepted names.
    names: Names,
    /// The requested names.
    wanted: Names,
    group: String,
    plural: String,
    is_served: bool,
    unresolvable: Option<UnresolvableDef>,
    is_terminating: bool,
    /// The revision since which the schema has been the same.
    schema_since: Revision,
    /// The versions with their compiled schemas.
    kinds: Vec<Arc<CustomKind>>,
}

/// A definition whose names must be settled again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unsettled {
    pub(super) name: String,
    /// Whether it was accepted with a name that another definition held before.
    pub(super) is_contested: bool,
}

/// The change to the registry that follows from a definition.
enum Outcome {
    /// The registry needs no change.
    Unchanged,
    Serve(Box<ResourceDef>),
    Withdraw {
        group: String,
        plural: String,
        /// Requests for the resource get an error if this is set, because the definition exists but cannot be served.
        unresolvable: Option<UnresolvableDef>,
    },
}

impl Definitions {
    /// Creates it without loading anything; see [`load`](Self::load). `ledger` must be that of the
    /// [`DefinitionKind`](super::DefinitionKind).
    pub fn new(state: Arc<State>, registry: Arc<Registry>, ledger: Ledger) -> Arc<Self> {
        let resource = state::Resource::new("apiextensions.k8s.io", "customresourcedefinitions");
        let resource = resource.expect("the names are plain letters");
        Arc::new(Self { state, registry, ledger, resource, known: Mutex::default(), loaded_at: OnceLock::new() })
    }

    /// Serves all stored definitions. The server calls it before it listens. No schema is compiled.
    ///
    /// # Errors
    /// When the state cannot list the definitions.
    pub async fn load(&self) -> Result<(), state::Error> {
        let page = self.state.list(&self.resource.all(), ListOptions::default()).await?;
        // Objects up to this revision were written before this server started.
        self.loaded_at.get_or_init(|| self.state.revision());
        let mut known = self.lock();
        let mut defs = Vec::new();
        for object in &page.objects {
            match self.look(&mut known, object.name(), Some(object)) {
                Outcome::Serve(def) => defs.push(*def),
                outcome => self.carry_out(outcome),
            }
        }
        // Still under the lock, for the same reason as in `sync`.
        self.registry.put_all(defs);
        Ok(())
    }

    /// Synchronizes the registry after a definition was written or deleted. It reads the stored definition, so the order and number
    /// of calls do not matter.
    pub fn observe(&self, definition: &Object) {
        self.sync(definition.name());
    }

    /// Whether an object is a CustomResourceDefinition.
    pub fn defines(&self, object: &Object) -> bool {
        object.key().is_of(&self.resource)
    }

    /// Like [`observe`](Self::observe), by name.
    pub(super) fn sync(&self, name: &str) {
        let Ok(key) = self.resource.key(None, name) else { return };
        // The lock is held until the registry has changed, so that an older state cannot replace a newer one.
        let mut known = self.lock();
        let object = self.state.get(&key);
        let outcome = self.look(&mut known, name, object.as_deref());
        self.carry_out(outcome);
    }

    fn carry_out(&self, outcome: Outcome) {
        let at = self.state.revision();
        match outcome {
            Outcome::Unchanged => {}
            Outcome::Serve(def) => self.registry.put(*def),
            // The objects went before the definition, and a new definition of the name is served only after this removal.
            Outcome::Withdraw { group, plural, unresolvable: None } => self.registry.remove(&group, &plural, at),
            Outcome::Withdraw { group, plural, unresolvable: Some(found) } => {
                self.registry.suspend(&group, &plural, found, at);
            }
        }
    }

    /// Synchronizes definitions that were deleted while the controller was not watching.
    pub(super) fn sync_missing(&self) {
        let names: Vec<String> = self.lock().keys().cloned().collect();
        let is_gone = |name: &String| self.resource.key(None, name).is_ok_and(|key| self.state.get(&key).is_none());
        names.iter().filter(|name| is_gone(name)).for_each(|name| self.sync(name));
    }

    /// The groups with definitions.
    pub(super) fn groups(&self) -> BTreeSet<String> {
        self.lock().values().map(|known| known.group.clone()).collect()
    }

    /// The definitions of a group that lack a requested name or hold a name that another held before.
    pub(super) fn unsettled(&self, group: &str) -> Vec<Unsettled> {
        let known = self.lock();
        let contested = self.ledger.contested(group);
        let of_group = known.iter().filter(|(_, known)| known.group == group && !known.is_terminating);
        of_group
            .map(|(name, known)| (known, Unsettled { name: name.clone(), is_contested: contested.contains(name) }))
            .filter(|(known, unsettled)| unsettled.is_contested || known.wanted != known.names)
            .map(|(_, unsettled)| unsettled)
            .collect()
    }

    pub(super) fn state(&self) -> &Arc<State> {
        &self.state
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(super) fn resource(&self) -> &state::Resource {
        &self.resource
    }

    /// The resource with all versions of the definition, served or not, for the deletion of its objects.
    pub(super) fn whole(&self, object: &Object) -> Result<ResourceDef, DefinitionError> {
        let head = Head::read(object.wire()).map_err(DefinitionError::Read)?;
        resource::whole(&head, &resource::kinds(&head, object.wire()), object.revision())
    }

    fn loaded_at(&self) -> Revision {
        self.loaded_at.get().copied().unwrap_or(Revision(0))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, known: &mut BTreeMap<String, Known>, name: &str, object: Option<&Object>) -> Outcome {
        let Some(object) = object else {
            self.ledger.release(name);
            return known.remove(name).map_or(Outcome::Unchanged, |gone| gone.withdrawal(None));
        };
        // The revision identifies the content: this state was synchronized before.
        if known.get(name).is_some_and(|known| known.revision == object.revision()) {
            return Outcome::Unchanged;
        }
        match self.judge(known.get(name), object) {
            Ok((fresh, outcome)) => {
                self.ledger.hold(name, &fresh.group, &fresh.names, object.revision());
                known.insert(name.to_owned(), fresh);
                outcome
            }
            Err(error) => {
                // Only corruption leads here, because definitions are validated before they are stored.
                error!(object = name, error = %Chain(&error), "a CustomResourceDefinition cannot be served");
                known.remove(name).map_or(Outcome::Unchanged, |gone| gone.withdrawal(None))
            }
        }
    }

    /// Computes the new known state of a definition and the change to the registry.
    fn judge(&self, before: Option<&Known>, object: &Object) -> Result<(Known, Outcome), DefinitionError> {
        let head = Head::read(object.wire()).map_err(DefinitionError::Read)?;
        let names = head.status.accepted_names.clone();
        let same = before.filter(|before| {
            before.uid == head.metadata.uid && before.generation == head.metadata.generation && before.names == names
        });
        // Keep the kinds if the schema is unchanged, and with them the compiled schemas.
        let (kinds, schema_since) = match same {
            Some(same) => (same.kinds.clone(), same.schema_since),
            None => (resource::kinds(&head, object.wire()), object.revision()),
        };
        let fresh = Known {
            revision: object.revision(),
            uid: head.metadata.uid.clone(),
            generation: head.metadata.generation,
            names,
            wanted: head.spec.names.clone(),
            group: head.spec.group.clone(),
            plural: head.spec.names.plural.clone(),
            is_served: head.is_served(),
            unresolvable: head.unresolvable(),
            is_terminating: head.is_true("Terminating"),
            schema_since,
            kinds,
        };
        // Other changes, such as labels or messages of conditions, do not affect what is served.
        let unchanged =
            same.is_some_and(|same| same.is_served == fresh.is_served && same.is_terminating == fresh.is_terminating);
        if unchanged {
            return Ok((fresh, Outcome::Unchanged));
        }
        let outcome = match resource::of_parts(&head, &fresh.kinds, fresh.schema_since, self.loaded_at())? {
            Some(def) => Outcome::Serve(Box::new(def)),
            None => fresh.withdrawal(fresh.unresolvable.clone()),
        };
        Ok((fresh, outcome))
    }
}

impl Known {
    fn withdrawal(&self, unresolvable: Option<UnresolvableDef>) -> Outcome {
        Outcome::Withdraw { group: self.group.clone(), plural: self.plural.clone(), unresolvable }
    }
}
