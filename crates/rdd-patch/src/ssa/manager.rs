//! The field manager: tracks field ownership over whole requests, like k8s.io/apimachinery/pkg/util/managedfields.
//!
//! Upstream stacks nine managers. Here each is a function, called in the same order: version check, last-applied
//! annotation (write, then read), untracked objects, cap, identity, timestamps, metadata, merge.

use super::{
    conflict::Conflicts,
    convert::Convert,
    entry::{Identity, Managed, Operation, is_reset, read_entries, remove_entries},
    gvk::{GroupVersionKind, describe},
    last_applied,
    object::Typed,
    set::Set,
    time::Timestamp,
    typed::{self, Duplicates},
    updater::{Filter, UpdateError, Updater, VersionedSet},
    upkeep::{STRIPPED, cap_updaters, strip_metadata},
};
use crate::{limits::check_depth, shape::Shape};
use rdd_meta::go_text;
use serde_json::{Value, json};
use std::borrow::Cow;

/// The manager of all fields that an object had before the first apply to it.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Why the field manager rejects a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// 400: the patch or an object is malformed. The message is upstream's.
    #[error("{0}")]
    BadRequest(String),
    /// 409: the apply changes fields of other managers. The Status has one cause per field.
    #[error(transparent)]
    Conflict(Conflicts),
    /// 500: an object does not fit its schema, or a conversion fails. The message is upstream's.
    #[error("{0}")]
    Internal(String),
}

/// The options of an apply.
#[derive(Debug, Clone, Copy)]
pub struct ApplyOptions<'a> {
    /// The name of the applying manager; empty means `unknown`.
    pub manager: &'a str,
    /// Whether the manager takes over fields that others own, instead of failing with a conflict.
    pub force: bool,
    /// The time of the request, for the timestamps of changed entries.
    pub now: Timestamp,
}

/// Tracks the owners of fields for one endpoint: a version of a kind, or a subresource of it.
///
/// # Flow
/// The server calls [`apply`](Self::apply) for a server-side apply and [`update`](Self::update) for any other write.
/// Both return the object with its `metadata.managedFields`.
///
/// # Assumptions
/// The converter knows the endpoint's version. Live and updated objects may be of any version that it serves.
#[derive(Clone, Copy)]
pub struct FieldManager<'a> {
    /// The `apiVersion` of the endpoint.
    pub api_version: &'a str,
    /// The kind of the objects.
    pub kind: &'a str,
    /// The name of the subresource; empty for the main resource.
    pub subresource: &'a str,
    /// Converts objects between the kind's versions.
    pub converter: &'a dyn Convert,
    /// The fields that requests to this endpoint cannot change, by version.
    pub reset_fields: &'a Filter,
    /// A new object of the kind before any field is set. For custom resources it only has its type; upstream's built-in
    /// types start with their empty structs (`spec: {}`), which then have no owner.
    pub empty: Option<&'a Value>,
    /// Sets the defaults of the object that an apply produced.
    pub default: &'a dyn Fn(&mut Value),
}

impl std::fmt::Debug for FieldManager<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FieldManager")
            .field("api_version", &self.api_version)
            .field("kind", &self.kind)
            .field("subresource", &self.subresource)
            .finish_non_exhaustive()
    }
}

impl FieldManager<'_> {
    /// Records who owns which field in `new`, after `manager` turned `live` into `new` with a create, update or patch.
    /// Returns `new` with its entries.
    ///
    /// For a create, `live` is the [`empty`](Self::empty) object. A client may edit the entries directly or reset them
    /// with an empty list, but not through a subresource. An existing object without owners stays without owners until
    /// the first apply.
    ///
    /// # Errors
    /// When an object exceeds the maximum depth, does not fit its schema, or cannot be converted.
    pub fn update(&self, live: &Value, mut new: Value, manager: &str, now: Timestamp) -> Result<Value, Error> {
        self.record(live, &mut new, manager, now)?;
        Ok(new)
    }

    /// Replaces the entries of `new`. After an error its entries are invalid.
    fn record(&self, live: &Value, new: &mut Value, manager: &str, now: Timestamp) -> Result<(), Error> {
        for object in [live, &*new] {
            check_depth(object).map_err(|error| Error::BadRequest(error.to_string()))?;
        }
        // Read the requested owners before the entries are removed: fields are compared without `managedFields`.
        let managed = self.requested_owners(live, new);
        remove_entries(new);
        // Only a stored object has a uid.
        let is_create = live["metadata"]["uid"].as_str().unwrap_or("").is_empty();
        let managed = if managed.owners.is_empty() && !is_create {
            managed
        } else {
            self.update_owners(live, new, managed, manager, now)?
        };
        managed.write(new);
        Ok(())
    }

    /// Like [`update`](Self::update), for requests that must not fail because of ownership. On an error the object is
    /// returned without owners; the caller should log the error.
    pub fn update_or_forget(
        &self,
        live: &Value,
        mut new: Value,
        manager: &str,
        now: Timestamp,
    ) -> (Value, Option<Error>) {
        let error = self.record(live, &mut new, manager, now).err();
        if error.is_some() {
            remove_entries(&mut new);
        }
        (new, error)
    }

    /// Applies `patch` to `live`. Returns the resulting object with its owners; if nothing changed, not even an owner,
    /// it equals `live`.
    ///
    /// For a create, `live` is the [`empty`](Self::empty) object.
    ///
    /// # Guarantees
    /// Fields that the manager applied before and leaves out now are removed, unless another manager owns them.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the patch changes fields of other managers without force. [`Error::BadRequest`] if the
    /// patch is of another type, has managed fields or exceeds the maximum depth. [`Error::Internal`] if an object does
    /// not fit its schema or cannot be converted.
    pub fn apply(&self, live: &Value, patch: &Value, options: ApplyOptions<'_>) -> Result<Value, Error> {
        for object in [live, patch] {
            check_depth(object).map_err(|error| Error::BadRequest(error.to_string()))?;
        }
        let managed = Managed::read(live)
            .map_err(|error| Error::Internal(format!("failed to decode managed fields: {error}")))?;
        let found = GroupVersionKind::of(patch);
        if found != GroupVersionKind::new(self.api_version, self.kind) {
            return Err(Error::BadRequest(format!("invalid object type: {found}")));
        }
        let (mut object, managed) = self.apply_over_annotation(live, patch, managed, options)?;
        if options.manager == last_applied::KUBECTL {
            last_applied::refresh(&mut object, patch);
        }
        managed.write(&mut object);
        Ok(object)
    }

    /// The owners before an update: those that the client sent, or else those of the live object.
    fn requested_owners(&self, live: &Value, new: &Value) -> Managed {
        let of_live = || Managed::read(live).unwrap_or_default();
        if !self.subresource.is_empty() {
            return of_live();
        }
        let entries = read_entries(new);
        if is_reset(entries.as_deref()) {
            return Managed::default();
        }
        match Managed::decode(&entries.unwrap_or_default()) {
            Ok(managed) if !managed.owners.is_empty() => managed,
            _ => of_live(),
        }
    }

    /// Applies, and lets kubectl take over the fields that client-side apply last set without a conflict.
    fn apply_over_annotation(
        &self,
        live: &Value,
        patch: &Value,
        managed: Managed,
        options: ApplyOptions<'_>,
    ) -> Result<(Value, Managed), Error> {
        let result = self.apply_tracking(live, patch, managed.clone(), options);
        let Err(Error::Conflict(conflicts)) = &result else { return result };
        if options.manager != last_applied::KUBECTL {
            return result;
        }
        let allowed = self
            .converter
            .shape(self.api_version)
            .and_then(|shape| last_applied::allowed_conflicts(live, self.api_version, self.kind, &shape));
        let Some(allowed) = allowed else { return result };
        if conflicts.to_set().difference(&allowed).is_empty() {
            // All conflicts are with fields that client-side apply set: kubectl owns them in effect.
            return self.apply_tracking(live, patch, managed, ApplyOptions { force: true, ..options });
        }
        let left = conflicts.0.iter().filter(|conflict| !allowed.contains(&conflict.path));
        Err(Error::Conflict(Conflicts(left.cloned().collect())))
    }

    /// Applies, and first gives an object without owners a manager for all its existing fields.
    fn apply_tracking(
        &self,
        live: &Value,
        patch: &Value,
        managed: Managed,
        options: ApplyOptions<'_>,
    ) -> Result<(Value, Managed), Error> {
        let managed = if managed.owners.is_empty() {
            self.update_owners(&self.empty_object(), live, managed, BEFORE_FIRST_APPLY, options.now)
                .map_err(|error| Error::Internal(format!("failed to create manager for existing fields: {error}")))?
        } else {
            managed
        };
        let identity = self.identity(options.manager, Operation::Apply);
        let (object, mut managed) = self.apply_merged(live, patch, managed, &identity, options.force)?;
        strip_metadata(&mut managed, &identity);
        let object = match object {
            Some(object) => {
                managed.times.insert(identity, options.now);
                object
            }
            None => {
                let mut object = live.clone();
                remove_entries(&mut object);
                object
            }
        };
        Ok((object, managed))
    }

    fn apply_merged(
        &self,
        live: &Value,
        patch: &Value,
        managed: Managed,
        identity: &Identity,
        force: bool,
    ) -> Result<(Option<Value>, Managed), Error> {
        if read_entries(patch).is_some() {
            return Err(Error::BadRequest("metadata.managedFields must be nil".to_owned()));
        }
        let live =
            self.versioned(live, || format!("failed to convert live object ({}) to proper version", describe(live)))?;
        let patch_shape = self.checked_shape(patch, Duplicates::Refuse, || {
            format!("failed to create typed patch object ({})", describe(patch))
        })?;
        let live_shape = self.checked_shape(&live, Duplicates::Allow, || {
            format!("failed to create typed live object ({})", describe(&live))
        })?;
        let Managed { owners, times } = managed;
        let result = self.updater().apply(
            &Typed::new(&live, live_shape),
            &Typed::new(patch, patch_shape),
            self.api_version,
            owners,
            identity,
            force,
        );
        let (object, owners) = result.map_err(|error| match error {
            UpdateError::Conflicts(conflicts) => Error::Conflict(conflicts),
            UpdateError::Failed(text) => Error::Internal(text),
        })?;
        let object = match object {
            Some(Value::Object(fields)) => {
                let mut object = Value::Object(fields);
                (self.default)(&mut object);
                Some(object)
            }
            Some(other) => {
                let found = go_text::type_name(&other);
                return Err(Error::Internal(format!(
                    "failed to convert new typed object ({}) to object: failed to convert value to unstructured for type {found}",
                    describe(patch)
                )));
            }
            None => None,
        };
        Ok((object, Managed { owners, times }))
    }

    /// The owners after `manager` turned `live` into `new`.
    fn update_owners(
        &self,
        live: &Value,
        new: &Value,
        managed: Managed,
        manager: &str,
        now: Timestamp,
    ) -> Result<Managed, Error> {
        let identity = self.identity(manager, Operation::Update);
        let (mut managed, taken) = self.update_merged(live, new, managed)?;
        // An update that only changes fields without owners must not create an entry.
        let taken = taken.difference(&STRIPPED);
        if !taken.is_empty() {
            let previous = managed.owners.remove(&identity);
            let set = previous.map_or(taken.clone(), |previous| taken.union(&previous.set));
            let owned = VersionedSet { set, api_version: self.api_version.to_owned(), applied: false };
            managed.owners.insert(identity.clone(), owned);
            managed.times.insert(identity, now);
        }
        cap_updaters(&mut managed);
        Ok(managed)
    }

    /// The remaining owners, and the fields that the change takes over.
    fn update_merged(&self, live: &Value, new: &Value, managed: Managed) -> Result<(Managed, Set), Error> {
        let new = self.versioned(new, || {
            format!("failed to convert new object ({}) to proper version ({})", describe(new), self.api_version)
        })?;
        let live =
            self.versioned(live, || format!("failed to convert live object ({}) to proper version", describe(live)))?;
        let new_shape = self.checked_shape(&new, Duplicates::Allow, || {
            format!("failed to convert new object ({}) to smd typed", describe(&new))
        })?;
        let live_shape = self.checked_shape(&live, Duplicates::Allow, || {
            format!("failed to convert live object ({}) to smd typed", describe(&live))
        })?;
        let Managed { owners, times } = managed;
        let (owners, taken) = self
            .updater()
            .update(&Typed::new(&live, live_shape), &Typed::new(&new, new_shape), self.api_version, owners)
            .map_err(|error| {
                Error::Internal(format!("failed to update ManagedFields ({}): {error}", describe(&new)))
            })?;
        Ok((Managed { owners, times }, taken))
    }

    fn updater(&self) -> Updater<'_> {
        Updater { converter: self.converter, reset_fields: self.reset_fields }
    }

    fn identity(&self, manager: &str, operation: Operation) -> Identity {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        Identity::new(manager, operation, self.api_version, self.subresource)
    }

    /// The live object of a create.
    pub fn empty_object(&self) -> Cow<'_, Value> {
        match self.empty {
            Some(empty) => Cow::Borrowed(empty),
            None => Cow::Owned(json!({"apiVersion": self.api_version, "kind": self.kind})),
        }
    }

    /// Converts an object to this endpoint's version.
    fn versioned<'v>(&self, object: &'v Value, what: impl Fn() -> String) -> Result<Cow<'v, Value>, Error> {
        match object.get("apiVersion").and_then(Value::as_str) {
            Some(found) if found != self.api_version => {
                let converted = self.converter.convert(object, self.api_version);
                converted.map(Cow::Owned).map_err(|error| Error::Internal(format!("{}: {error}", what())))
            }
            _ => Ok(Cow::Borrowed(object)),
        }
    }

    /// The shape of this endpoint's version, after checking that the object fits it.
    fn checked_shape(&self, object: &Value, duplicates: Duplicates, what: impl Fn() -> String) -> Result<Shape, Error> {
        let found = GroupVersionKind::of(object);
        let shape = self.converter.shape(self.api_version);
        let shape = shape.filter(|_| found == GroupVersionKind::new(self.api_version, self.kind));
        let shape = shape.ok_or_else(|| Error::Internal(format!("{}: no corresponding type for {found}", what())))?;
        typed::validate(object, &shape, duplicates)
            .map_err(|errors| Error::Internal(format!("{}: {errors}", what())))?;
        Ok(shape)
    }
}
