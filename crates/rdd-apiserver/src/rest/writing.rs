//! The steps that all writes share: field ownership, admission, common validation, the commit.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use rdd_meta::{
    FieldError, Status,
    metadata::{Metadata, MetadataMut},
    names::NameRule,
    time::Timestamp,
};
use rdd_patch::ssa::{self, FieldManager, SameSchema};
use rdd_store::{Action, Expect, KEY_BYTES_MAX, Revision};
use serde_json::{Value, json};

use super::{Api, Context, Target, error};
use crate::{
    admission::{Attributes, Operation},
    crd,
    registry::{Kind, Origin, Stored},
    state::{self, Committed, Object, Write},
};

/// A write in progress: what it writes to, and on whose behalf.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writing<'a> {
    pub(crate) api: &'a Api,
    pub(crate) target: &'a Target,
    pub(crate) context: &'a Context,
}

/// The result of a write.
#[derive(Debug)]
pub struct Written {
    /// The content of the response.
    pub content: Content,
    /// Whether the write created the object.
    pub created: bool,
}

/// The content of a response to a write.
#[derive(Debug)]
pub enum Content {
    /// The object as it is stored now.
    Stored(Arc<Object>),
    /// An object in the version of the request: what a dry run would store, or the last state of a deleted object.
    Shown(Value),
    /// A Status: the object is removed.
    Status(Box<Status>),
}

/// The outcome of a commit.
#[derive(Debug)]
pub(crate) enum Fate {
    /// The store committed the write.
    Done(Committed),
    /// Another write changed the object first, at this revision if it is known.
    Lost(Option<Revision>),
}

impl<'a> Writing<'a> {
    pub(crate) fn new(api: &'a Api, target: &'a Target, context: &'a Context) -> Self {
        Self { api, target, context }
    }

    pub(crate) fn kind(&self) -> &'a dyn Kind {
        &*self.target.version().kind
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.api.now()
    }

    /// The name of the object for messages.
    pub(crate) fn name(&self) -> &'a str {
        self.target.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn not_found(&self) -> Status {
        Status::not_found(&self.target.def.group_resource(), self.name())
    }

    /// 422. For a custom resource it names the kind and the group that the object itself carries.
    pub(crate) fn invalid(&self, object: &Value, errors: &[FieldError]) -> Status {
        let def = &self.target.def;
        let mut kind = def.group_kind();
        if def.custom.is_some() {
            let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
            text("kind").clone_into(&mut kind.kind);
            if !text("apiVersion").is_empty() {
                text("apiVersion").split_once('/').map_or("", |(group, _)| group).clone_into(&mut kind.group);
            }
        } else if matches!(self.target.version().stored, Stored::Converted(_)) {
            // The only built-in kind with a conversion is Event. Upstream validates it in the core group, so its errors carry
            // no group.
            kind.group.clear();
        }
        Status::invalid(&kind, Metadata::of(object).name(), errors)
    }

    /// Calls `act` with a field manager, which borrows the shapes of all versions.
    pub(crate) fn with_field_manager<T>(&self, act: impl FnOnce(&FieldManager<'_>) -> T) -> T {
        let def = &self.target.def;
        let version = self.target.version();
        let shapes = def.versions.iter().map(|version| (def.api_version(&version.name), version.kind.shape()));
        let converter = SameSchema(shapes.collect::<BTreeMap<_, _>>());
        let empty = version.kind.empty();
        act(&FieldManager {
            api_version: &def.api_version(&version.name),
            kind: &def.kind,
            subresource: self.target.subresource_name(),
            converter: &converter,
            reset_fields: version.kind.reset_fields(self.target.subresource_name()),
            empty: Some(&*empty),
            default: &|object| version.kind.default(object),
        })
    }

    /// Updates the managed fields after a change by other means than apply. `live` is `None` for a create.
    pub(crate) fn own(&self, live: Option<&Value>, new: Value) -> Value {
        let now = ssa::Timestamp(self.now().seconds());
        self.with_field_manager(|manager| {
            let empty = manager.empty_object();
            let (object, error) = manager.update_or_forget(live.unwrap_or(&empty), new, &self.context.manager, now);
            // As upstream: broken managed fields do not fail a write, they are dropped.
            if let Some(error) = error {
                tracing::warn!(%error, resource = %self.target.def.plural, name = self.name(), "owners of fields were lost");
            }
            object
        })
    }

    /// Sets the namespace of the request, or refuses an object of another namespace.
    pub(crate) fn place(&self, object: &mut Value) -> Result<(), Status> {
        let wanted = if self.target.def.namespaced { self.target.namespace.as_deref().unwrap_or_default() } else { "" };
        let Some(mut metadata) = MetadataMut::of(object) else {
            return Err(Status::bad_request("the metadata of the provided object is not an object"));
        };
        let found = metadata.view().namespace();
        if found != wanted {
            if !found.is_empty() && !wanted.is_empty() {
                return Err(elsewhere());
            }
            metadata.set_namespace(wanted);
        }
        Ok(())
    }

    /// Removes duplicate owner references, with a warning.
    pub(crate) fn dedupe_owners(&self, object: &mut Value, after_admission: bool) {
        let owners = Metadata::of(object).owner_references();
        if owners.len() < 2 {
            return;
        }
        let mut seen = HashSet::with_capacity(owners.len());
        let (kept, again): (Vec<_>, Vec<_>) = owners.iter().partition(|owner| seen.insert(*owner));
        if again.is_empty() {
            return;
        }
        let uids = again.iter().map(|owner| owner.uid.as_str()).collect::<Vec<_>>().join(", ");
        self.context.warnings.add(if after_admission {
            format!(
                ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups \
                 owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; \
                 duplicate UID(s) observed: {uids}"
            )
        } else {
            format!(
                ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may \
                 reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
            )
        });
        if let Some(mut metadata) = MetadataMut::of(object) {
            metadata.set_owner_references(&kept.into_iter().cloned().collect::<Vec<_>>());
        }
    }

    /// Runs mutating admission. The returned object is decoded again.
    pub(crate) async fn mutate(
        &self,
        operation: Operation,
        object: Value,
        old: Option<&Arc<Value>>,
    ) -> Result<Value, Status> {
        let kind = self.kind();
        self.mutate_as(operation, object, old, &|object| kind.decode(object, Origin::Request).map(drop)).await
    }

    /// The same for an object that `reform` decodes after each change.
    pub(crate) async fn mutate_as(
        &self,
        operation: Operation,
        object: Value,
        old: Option<&Arc<Value>>,
        reform: &(dyn Fn(&mut Value) -> Result<(), Status> + Send + Sync),
    ) -> Result<Value, Status> {
        if self.api.admission.is_empty() {
            return Ok(object);
        }
        let options = self.options(operation);
        let (gvk, gvr) = self.types();
        let mut attributes = self.attributes(operation, Some(object), old, &options, (&gvk, &gvr));
        // The managed fields before the first plug-in that changes the object: restored if the plug-ins break them.
        let mut owners: Option<Option<Value>> = None;
        let mut keep_owners = |attributes: &Attributes<'_>| {
            let of_object = || attributes.object.as_ref().and_then(|object| Metadata::of(object).get("managedFields"));
            owners.get_or_insert_with(|| of_object().cloned());
        };
        self.api.admission.mutate(&mut attributes, reform, &mut keep_owners).await?;
        let mut object = attributes.object.unwrap_or_default();
        if let Some(before) = owners
            && let Some(warning) = ssa::keep_valid_entries(before, &mut object)
        {
            self.context.warnings.add(warning);
        }
        Ok(object)
    }

    /// Runs validating admission, and returns the object if it passes.
    pub(crate) async fn agree(
        &self,
        operation: Operation,
        object: Value,
        old: Option<&Arc<Value>>,
    ) -> Result<Value, Status> {
        if self.api.admission.is_empty() {
            return Ok(object);
        }
        let options = self.options(operation);
        let (gvk, gvr) = self.types();
        let attributes = self.attributes(operation, Some(object), old, &options, (&gvk, &gvr));
        self.api.admission.validate(&attributes).await?;
        Ok(attributes.object.unwrap_or_default())
    }

    /// Commits a validated write, after it rechecked that its definition and namespace are still there.
    pub(crate) async fn store(&self, write: Write) -> Result<Fate, Status> {
        if self.is_judged_by() {
            let _alone = self.api.order.0.write().await;
            return self.commit(write).await;
        }
        let _shared = self.api.order.0.read().await;
        if let Action::Put { .. } = write.action {
            self.confirm(write.expect == Expect::Absent)?;
        }
        self.commit(write).await
    }

    /// Commits a deletion or its mark. It depends on nothing but the object itself, so there is nothing to recheck.
    pub(crate) async fn store_deletion(&self, write: Write) -> Result<Fate, Status> {
        let _alone = if self.is_judged_by() { Some(self.api.order.0.write().await) } else { None };
        self.commit(write).await
    }

    async fn commit(&self, write: Write) -> Result<Fate, Status> {
        let name_bytes = write.key.name().len();
        match self.api.state.commit(write).await {
            Ok(committed) => Ok(Fate::Done(committed)),
            // Most kinds limit names far below the limit of the store. Some, such as Event, have no limit of their own.
            Err(state::Error::Store { source: rdd_store::Error::KeyTooLong { bytes } }) => {
                let bytes_max = (name_bytes + KEY_BYTES_MAX).saturating_sub(bytes);
                Err(Status::invalid(
                    &self.target.def.group_kind(),
                    "",
                    &[FieldError::too_long("metadata.name", bytes_max)],
                ))
            }
            Err(state::Error::Conflict { actual, .. }) => Ok(Fate::Lost(actual)),
            Err(error) => Err(error::of_state(&error)),
        }
    }

    /// Namespaces and CustomResourceDefinitions: other writes are validated against them.
    fn is_judged_by(&self) -> bool {
        let def = &self.target.def;
        matches!(
            (&*def.group, &*def.plural),
            ("", "namespaces") | ("apiextensions.k8s.io", "customresourcedefinitions")
        )
    }

    /// Rechecks what may have changed since validation: the definition, and for a new object its namespace.
    pub(crate) fn confirm(&self, is_new: bool) -> Result<(), Status> {
        let def = &self.target.def;
        if def.custom.is_some() {
            let served = self.api.registry.served();
            let now = served.get(&def.group, &def.plural).ok_or_else(Status::not_found_path)?;
            // Another table entry means that the definition changed. The client must try again with the new one.
            if !Arc::ptr_eq(now, def) {
                if is_new {
                    crd::refuse_create(now, self.name())?;
                }
                let why = format!("the definition of {} has changed, please try again", def.group_resource());
                return Err(Status::too_many_requests(why, 1));
            }
        }
        if !is_new || self.api.admission.is_empty() {
            return Ok(());
        }
        let options = Value::Null;
        let (gvk, gvr) = self.types();
        self.api.admission.confirm(&self.attributes(Operation::Create, None, None, &options, (&gvk, &gvr)))
    }

    /// Runs mutating and validating admission for a delete, which has no object to change.
    pub(crate) async fn agree_to_delete(
        &self,
        old: &Arc<Value>,
        options: &Value,
        (dry_run, is_one_of_many): (bool, bool),
    ) -> Result<(), Status> {
        if self.api.admission.is_empty() {
            return Ok(());
        }
        let (gvk, gvr) = self.types();
        let mut attributes = self.attributes(Operation::Delete, None, Some(old), options, (&gvk, &gvr));
        attributes.dry_run = dry_run;
        // A deletecollection request has no name, so plug-ins do not see one either.
        attributes.name = if is_one_of_many { "" } else { Metadata::of(old).name() };
        self.api.admission.mutate(&mut attributes, &|_| Ok(()), &mut |_| {}).await?;
        self.api.admission.validate(&attributes).await
    }

    fn types(&self) -> (rdd_meta::GroupVersionKind, rdd_meta::GroupVersionResource) {
        let def = &self.target.def;
        let version = &self.target.version().name;
        let kind = match self.target.subresource().map(|subresource| &subresource.part) {
            Some(crate::registry::Part::Scale(_)) => rdd_meta::GroupVersionKind::new("autoscaling", "v1", "Scale"),
            Some(crate::registry::Part::Question(question)) => question.kind(),
            _ => def.group_version_kind(version),
        };
        (kind, def.group_version_resource(version))
    }

    fn attributes<'f>(
        &'f self,
        operation: Operation,
        object: Option<Value>,
        old: Option<&Arc<Value>>,
        options: &'f Value,
        types: (&'f rdd_meta::GroupVersionKind, &'f rdd_meta::GroupVersionResource),
    ) -> Attributes<'f> {
        Attributes {
            operation,
            kind: types.0,
            resource: types.1,
            subresource: self.target.subresource_name(),
            name: self.name(),
            namespace: self.admission_namespace(),
            object,
            old: old.cloned(),
            options,
            dry_run: self.context.options.is_dry_run(),
            user: &self.context.user,
            deadline: self.context.deadline,
            warnings: &self.context.warnings,
        }
    }

    /// As upstream: the namespace of a Namespace is its own name.
    fn admission_namespace(&self) -> Option<&'a str> {
        let def = &self.target.def;
        let is_namespace = def.group.is_empty() && def.plural == "namespaces";
        if is_namespace { self.target.name.as_deref() } else { self.target.namespace.as_deref() }
    }

    fn options(&self, operation: Operation) -> Value {
        let kind = if operation == Operation::Create { "CreateOptions" } else { "UpdateOptions" };
        let given = &self.context.options;
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        for (name, value) in [("fieldManager", &given.field_manager), ("fieldValidation", &given.field_validation)] {
            if !value.is_empty() {
                options[name] = json!(value);
            }
        }
        if given.is_dry_run() {
            options["dryRun"] = json!(given.dry_run);
        }
        options
    }
}

/// 400 for an object of another namespace than its path.
pub(crate) fn elsewhere() -> Status {
    Status::bad_request("the namespace of the provided object does not match the namespace sent on the request")
}

/// Errors of metadata that all kinds share. An update reports them before the errors of its kind.
pub(crate) fn common_errors(object: &Value, namespaced: bool, old: &Value) -> Vec<FieldError> {
    let metadata = Metadata::of(object);
    let mut errors = metadata.validate_create(namespaced, NameRule::PathSegment);
    errors.extend(metadata.validate_update(Metadata::of(old)));
    errors
}

/// The resourceVersion of an object; 0 if it has none.
pub(crate) fn resource_version(object: &Value) -> Result<u64, Status> {
    match Metadata::of(object).resource_version() {
        "" => Ok(0),
        text => rdd_meta::go_text::parse_uint(text).map_err(|error| error::plain(error.to_string())),
    }
}
