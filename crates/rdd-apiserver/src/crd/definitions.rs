//! The registry in step with the stored definitions.

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

/// The definitions that are stored, and what of them is served.
#[derive(Debug)]
pub struct Definitions {
    state: Arc<State>,
    registry: Arc<Registry>,
    ledger: Ledger,
    resource: state::Resource,
    known: Mutex<BTreeMap<String, Known>>,
    /// The revision of the state when this server started.
    loaded_at: OnceLock<Revision>,
}

/// A definition as it was last seen.
#[derive(Debug)]
struct Known {
    revision: Revision,
    uid: String,
    generation: i64,
    /// The names that were accepted.
    names: Names,
    /// The names that it asks for.
    wanted: Names,
    group: String,
    plural: String,
    is_served: bool,
    unresolvable: Option<UnresolvableDef>,
    is_terminating: bool,
    /// Since when its schema is what it is.
    schema_since: Revision,
    /// With the schemas that were compiled.
    kinds: Vec<Arc<CustomKind>>,
}

/// A definition whose names have to be looked at again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unsettled {
    pub(super) name: String,
    /// Whether it was accepted with a name that another had before.
    pub(super) is_contested: bool,
}

/// What is to be done about a definition after a look at it.
enum Outcome {
    /// Nothing that matters to who is served has changed.
    Unchanged,
    Serve(Box<ResourceDef>),
    Withdraw {
        group: String,
        plural: String,
        /// What requests for it are refused for, if it exists.
        unresolvable: Option<UnresolvableDef>,
    },
}

impl Definitions {
    /// Nothing is served yet: see [`load`](Self::load). The ledger is the one of [`DefinitionKind`](super::DefinitionKind).
    pub fn new(state: Arc<State>, registry: Arc<Registry>, ledger: Ledger) -> Arc<Self> {
        let resource = state::Resource::new("apiextensions.k8s.io", "customresourcedefinitions");
        let resource = resource.expect("the names are plain letters");
        Arc::new(Self { state, registry, ledger, resource, known: Mutex::default(), loaded_at: OnceLock::new() })
    }

    /// Serves all that is stored. To be called before the server listens. Compiles no schema.
    pub async fn load(&self) -> Result<(), state::Error> {
        let page = self.state.list(&self.resource.all(), ListOptions::default()).await?;
        self.loaded_at.get_or_init(|| self.state.revision());
        let mut known = self.lock();
        let mut defs = Vec::new();
        for object in &page.objects {
            match self.look(&mut known, object.name(), Some(object)) {
                Outcome::Serve(def) => defs.push(*def),
                outcome => self.carry_out(outcome),
            }
        }
        // Under the lock, as in `sync`.
        self.registry.put_all(defs);
        Ok(())
    }

    /// Brings the registry in step with a definition that was written or deleted: when this returns, what is stored is served.
    /// It looks at what is stored now, so it does not matter how often or in which order it is told.
    pub fn observe(&self, definition: &Object) {
        self.sync(definition.name());
    }

    /// Whether an object is a definition.
    pub fn defines(&self, object: &Object) -> bool {
        object.key().is_of(&self.resource)
    }

    /// The same, by name.
    pub(super) fn sync(&self, name: &str) {
        let Ok(key) = self.resource.key(None, name) else { return };
        // Held until the registry is changed, so that a later look is never overtaken by an earlier one.
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
            // Its last object went before it did, and another of its name can be served only after this.
            Outcome::Withdraw { group, plural, unresolvable: None } => self.registry.remove(&group, &plural, at),
            Outcome::Withdraw { group, plural, unresolvable: Some(found) } => {
                self.registry.suspend(&group, &plural, found, at);
            }
        }
    }

    /// Takes note of definitions that went while nobody looked.
    pub(super) fn sync_missing(&self) {
        let names: Vec<String> = self.lock().keys().cloned().collect();
        let is_gone = |name: &String| self.resource.key(None, name).is_ok_and(|key| self.state.get(&key).is_none());
        names.iter().filter(|name| is_gone(name)).for_each(|name| self.sync(name));
    }

    /// The groups that have definitions.
    pub(super) fn groups(&self) -> BTreeSet<String> {
        self.lock().values().map(|known| known.group.clone()).collect()
    }

    /// The definitions of a group that do not have the names they want, or have names that another had before.
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

    /// All that a definition defines, served or not, so that its objects can be deleted.
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
                // Only damage comes here: what is stored was checked before.
                error!(object = name, error = %Chain(&error), "a CustomResourceDefinition cannot be served");
                known.remove(name).map_or(Outcome::Unchanged, |gone| gone.withdrawal(None))
            }
        }
    }

    /// What a definition has become, and what follows.
    fn judge(&self, before: Option<&Known>, object: &Object) -> Result<(Known, Outcome), DefinitionError> {
        let head = Head::read(object.wire()).map_err(DefinitionError::Read)?;
        let names = head.status.accepted_names.clone();
        let same = before.filter(|before| {
            before.uid == head.metadata.uid && before.generation == head.metadata.generation && before.names == names
        });
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
