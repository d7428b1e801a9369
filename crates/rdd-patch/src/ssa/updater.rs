//! Computes the new object and the new owners of an apply or update, like `merge.Updater` of structured-merge-diff.

use super::{
    conflict::Conflicts,
    convert::{Convert, ConvertError},
    entry::Identity,
    object::Typed,
    set::Set,
    typed::{self, Comparison, Duplicates},
    value,
};
use crate::shape::Shape;
use rdd_meta::go_text;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The fields of one manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedSet {
    /// The owned fields.
    pub set: Set,
    /// The version of the kind in which the fields are named.
    pub api_version: String,
    /// Whether the manager got them by apply.
    pub applied: bool,
}

/// The owned fields of each manager.
pub type Owners = BTreeMap<Identity, VersionedSet>;

/// The fields that requests to an endpoint cannot change, by version. The server resets them before it stores the
/// object, so the manager that sends them must not own them. The main resource has `status` here, the status
/// subresource `spec`.
pub type Filter = BTreeMap<String, Set>;

/// Why an apply or update fails. The message of a failure is upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum UpdateError {
    #[error(transparent)]
    Conflicts(Conflicts),
    #[error("{0}")]
    Failed(String),
}

pub(super) fn failed(what: &str, source: impl std::fmt::Display) -> UpdateError {
    UpdateError::Failed(format!("{what}: {source}"))
}

/// Computes objects and owners, without state of its own.
#[derive(Clone, Copy)]
pub(super) struct Updater<'a> {
    pub(super) converter: &'a dyn Convert,
    pub(super) reset_fields: &'a Filter,
}

impl std::fmt::Debug for Updater<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Updater").field("reset_fields", self.reset_fields).finish_non_exhaustive()
    }
}

impl Updater<'_> {
    /// The owners after a write other than an apply changed `live` to `new`, and the fields that the write modified or
    /// added. The caller gives these to the manager of the write.
    pub(super) fn update(
        &self,
        live: &Typed<'_>,
        new: &Typed<'_>,
        api_version: &str,
        owners: Owners,
    ) -> Result<(Owners, Set), UpdateError> {
        let owners = self.reconcile(live, owners)?;
        let (owners, changes) = self.transfer(live, new, api_version, owners, None, true)?;
        Ok((owners, changes.modified.union(&changes.added)))
    }

    /// Applies `config` to `live` for `owner`. Returns the new object, or `None` if nothing changed, and the owners.
    pub(super) fn apply(
        &self,
        live: &Typed<'_>,
        config: &Typed<'_>,
        api_version: &str,
        owners: Owners,
        owner: &Identity,
        force: bool,
    ) -> Result<(Option<Value>, Owners), UpdateError> {
        let mut owners = self.reconcile(live, owners)?;
        // Merge first and prune after: pruning needs the merged object to see which removed fields others still own.
        let merged = typed::merge(&live.value, &config.value, &live.shape)
            .map_err(|errors| failed("failed to merge config", errors))?;
        let merged = Typed::owned(merged, live.shape.clone());
        let set = config.to_set().map_err(|error| failed("failed to get field set", error))?;
        let set = self.without_reset(&set, api_version);
        let new = VersionedSet { set: set.clone(), api_version: api_version.to_owned(), applied: true };
        // Only a manager that applied before can give up fields; the empty set cannot have any.
        let last = owners.insert(owner.clone(), new).filter(|last| !last.set.is_empty());
        let pruned = match last {
            Some(last) if self.gives_up(&last, &set, api_version, &merged) => self
                .prune(merged, &owners, api_version, &last)
                .map_err(|error| failed("failed to prune fields", error))?,
            _ => merged,
        };
        let (owners, _) = self.transfer(live, &pruned, api_version, owners, Some(owner), force)?;
        let is_changed = !value::equal(&live.value, &pruned.value);
        Ok((is_changed.then(|| pruned.into_value()), owners))
    }

    /// Removes changed and vanished fields from the sets of all owners but `except`. Without `force` it fails instead
    /// if an owner would lose changed fields.
    fn transfer(
        &self,
        live: &Typed<'_>,
        new: &Typed<'_>,
        api_version: &str,
        mut owners: Owners,
        except: Option<&Identity>,
        force: bool,
    ) -> Result<(Owners, Comparison), UpdateError> {
        // Reset fields do not count as changed, since the server discards them before it stores the object.
        let own = live.compare(new)?.map(|set| self.without_reset(set, api_version));
        if owners.is_empty() {
            // A create: no manager owns fields yet.
            return Ok((owners, own));
        }
        // Owners name fields in their own version, so the objects are compared once in each version.
        let mut by_version = BTreeMap::from([(api_version.to_owned(), own.clone())]);
        let mut forgotten = BTreeSet::new();
        for (owner, owned) in owners.iter().filter(|(owner, _)| except != Some(owner)) {
            if by_version.contains_key(&owned.api_version) {
                continue;
            }
            match self.compare_in(live, new, &owned.api_version)? {
                Some(changes) => {
                    by_version.insert(owned.api_version.clone(), changes);
                }
                None => {
                    forgotten.insert(owner.clone());
                }
            }
        }
        owners.retain(|owner, _| !forgotten.contains(owner));
        let union = |changes: &Comparison| changes.modified.union(&changes.added);
        let changed: BTreeMap<&str, Set> =
            by_version.iter().map(|(version, changes)| (version.as_str(), union(changes))).collect();
        let mut lost = Owners::new();
        for (owner, owned) in owners.iter().filter(|(owner, _)| except != Some(owner)) {
            let Some(changed) = changed.get(owned.api_version.as_str()) else { continue };
            // An owner loses the fields that the request changed or added, but keeps those it set to the same value.
            let set = owned.set.intersection(changed);
            if !set.is_empty() {
                let api_version = owned.api_version.clone();
                lost.insert(owner.clone(), VersionedSet { set, api_version, applied: false });
            }
        }
        if !force && !lost.is_empty() {
            return Err(UpdateError::Conflicts(Conflicts::of(&lost)));
        }
        for (owner, owned) in &mut owners {
            if let Some(lost) = lost.get(owner) {
                owned.set = owned.set.difference(&lost.set);
            }
            if except != Some(owner)
                && let Some(changes) = by_version.get(&owned.api_version)
            {
                owned.set = owned.set.difference(&changes.removed);
            }
        }
        owners.retain(|_, owned| !owned.set.is_empty());
        Ok((owners, own))
    }

    /// The changes in terms of another version; `None` if that version is no longer served.
    fn compare_in(
        &self,
        live: &Typed<'_>,
        new: &Typed<'_>,
        api_version: &str,
    ) -> Result<Option<Comparison>, UpdateError> {
        let live = self.convert(live, api_version).map_err(|error| prefixed("failed to convert old object", error));
        let new = self.convert(new, api_version).map_err(|error| prefixed("failed to convert new object", error));
        match (known(live)?, known(new)?) {
            (Some(live), Some(new)) => Ok(Some(live.compare(&new)?.map(|set| self.without_reset(set, api_version)))),
            _ => Ok(None),
        }
    }

    fn without_reset(&self, set: &Set, api_version: &str) -> Set {
        match self.reset_fields.get(api_version) {
            Some(reset) => set.recursive_difference(reset),
            None => set.clone(),
        }
    }

    /// Adapts the sets of the owners to the current schemas. Owners of versions that are no longer served are dropped.
    fn reconcile(&self, live: &Typed<'_>, owners: Owners) -> Result<Owners, UpdateError> {
        let mut reconciled = Owners::new();
        let mut shapes: BTreeMap<String, Option<Shape>> = BTreeMap::new();
        for (owner, mut owned) in owners {
            if !shapes.contains_key(&owned.api_version) {
                let converted = known(self.convert(live, &owned.api_version).map_err(|error| prefixed("", error)))?;
                shapes.insert(owned.api_version.clone(), converted.map(|typed| typed.shape));
            }
            let Some(shape) = shapes.get(&owned.api_version).and_then(Option::as_ref) else { continue };
            let changed = typed::reconcile(&owned.set, shape)
                .map_err(|errors| failed("errors reconciling field set with schema", errors))?;
            if let Some(set) = changed {
                owned.set = set;
            }
            reconciled.insert(owner, owned);
        }
        Ok(reconciled)
    }

    pub(super) fn convert<'v>(&self, typed: &Typed<'v>, api_version: &str) -> Result<Typed<'v>, ConvertError> {
        if !typed.value.is_object() {
            let found = go_text::type_name(&typed.value);
            return Err(ConvertError::Failed(format!("failed to convert value to unstructured for type {found}")));
        }
        if typed.value.get("apiVersion").and_then(Value::as_str) == Some(api_version) {
            return Ok(typed.clone());
        }
        let value = self.converter.convert(&typed.value, api_version)?;
        let Some(shape) = self.converter.shape(api_version) else {
            return Err(ConvertError::MissingVersion { api_version: api_version.to_owned() });
        };
        typed::validate(&value, &shape, Duplicates::Refuse)
            .map_err(|errors| ConvertError::Failed(errors.to_string()))?;
        Ok(Typed::owned(value, shape))
    }
}

pub(super) fn prefixed(what: &str, error: ConvertError) -> ConvertError {
    match error {
        ConvertError::Failed(text) if !what.is_empty() => ConvertError::Failed(format!("{what}: {text}")),
        other => other,
    }
}

/// The converted object; `None` if the version is no longer served.
pub(super) fn known<T>(converted: Result<T, ConvertError>) -> Result<Option<T>, UpdateError> {
    match converted {
        Ok(converted) => Ok(Some(converted)),
        Err(ConvertError::MissingVersion { .. }) => Ok(None),
        Err(ConvertError::Failed(text)) => Err(UpdateError::Failed(text)),
    }
}
