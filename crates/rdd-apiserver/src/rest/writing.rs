//! What every write does on its way: ownership, admission, the checks that all kinds share.

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

/// A write on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writing<'a> {
    pub(crate) api: &'a Api,
    pub(crate) target: &'a Target,
    pub(crate) context: &'a Context,
}

/// What came of a write.
#[derive(Debug)]
pub struct Written {
    /// The object.
    pub content: Content,
    /// Whether it had not been there before.
    pub created: bool,
}

/// An object that a write answers with.
#[derive(Debug)]
pub enum Content {
    /// As it is stored now.
    Stored(Arc<Object>),
    /// In the version of the request: what would be stored (dry run), or what was there last (a write that deletes).
    Shown(Value),
    /// It is gone.
    Status(Box<Status>),
}

/// What the store made of a write.
#[derive(Debug)]
pub(crate) enum Fate {
    /// It has it.
    Done(Committed),
    /// Somebody else was quicker, with this revision.
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

    /// The name of the object as messages have it.
    pub(crate) fn name(&self) -> &'a str {
        self.target.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn not_found(&self) -> Status {
        Status::not_found(&self.target.def.group_resource(), self.name())
    }

    /// 422. It names the kind that the object says it is, and what is stored under another group by that group.
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
            // The one built-in kind that is so is an Event, which is of the core to who checks it.
            kind.group.clear();
        }
        Status::invalid(&kind, Metadata::of(object).name(), errors)
    }

    /// Hands out what the field manager needs; the shapes live as long as the call.
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

    /// Records who owns what after the object was changed by other means than apply. `live` is none for a create.
    pub(crate) fn own(&self, live: Option<&Value>, new: Value) -> Value {
        let now = ssa::Timestamp(self.now().seconds());
        self.with_field_manager(|manager| {
            let empty = manager.empty_object();
            let (object, error) = manager.update_or_forget(live.unwrap_or(&empty), new, &self.context.manager, now);
            if let Some(error) = error {
                tracing::warn!(%error, resource = %self.target.def.plural, name = self.name(), "owners of fields were lost");
            }
            object
        })
    }

    /// Puts an object in the namespace of the request, or refuses one that is in another.
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

    /// Removes owner references that are there twice, with a warning.
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

    /// Lets plug-ins change an object. The result is in form again.
    pub(crate) async fn mutate(
        &self,
        operation: Operation,
        object: Value,
        old: Option<&Arc<Value>>,
    ) -> Result<Value, Status> {
        let kind = self.kind();
        self.mutate_as(operation, object, old, &|object| kind.decode(object, Origin::Request).map(drop)).await
    }

    /// The same for an object that `reform` brings into form.
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

    /// Asks plug-ins whether they agree, and hands the object back if they do.
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

    /// Stores what was judged, if what it was judged by still holds.
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

    /// Stores the mark of a deletion, or deletes; that was judged by nothing but the object itself.
    pub(crate) async fn store_deletion(&self, write: Write) -> Result<Fate, Status> {
        let _alone = if self.is_judged_by() { Some(self.api.order.0.write().await) } else { None };
        self.commit(write).await
    }

    async fn commit(&self, write: Write) -> Result<Fate, Status> {
        let name_bytes = write.key.name().len();
        match self.api.state.commit(write).await {
            Ok(committed) => Ok(Fate::Done(committed)),
            // Names of most kinds are far shorter; some kinds, such as Events, have no limit of their own.
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

    /// Whether other writes are judged by what these objects say.
    fn is_judged_by(&self) -> bool {
        let def = &self.target.def;
        matches!(
            (&*def.group, &*def.plural),
            ("", "namespaces") | ("apiextensions.k8s.io", "customresourcedefinitions")
        )
    }

    /// Looks again at what may have gone since the write was judged: its definition, and its namespace if it is new.
    pub(crate) fn confirm(&self, is_new: bool) -> Result<(), Status> {
        let def = &self.target.def;
        if def.custom.is_some() {
            let served = self.api.registry.served();
            let now = served.get(&def.group, &def.plural).ok_or_else(Status::not_found_path)?;
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

    /// A delete goes through both halves of the chain at once, for there is nothing to change.
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

    /// A Namespace counts as being in itself.
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

/// 400 for an object that says it is in another namespace than its path.
pub(crate) fn elsewhere() -> Status {
    Status::bad_request("the namespace of the provided object does not match the namespace sent on the request")
}

/// The checks of metadata that all kinds share, of an update, which makes them before those of its kind.
pub(crate) fn common_errors(object: &Value, namespaced: bool, old: &Value) -> Vec<FieldError> {
    let metadata = Metadata::of(object);
    let mut errors = metadata.validate_create(namespaced, NameRule::PathSegment);
    errors.extend(metadata.validate_update(Metadata::of(old)));
    errors
}

/// The resource version in an object, 0 if it has none.
pub(crate) fn resource_version(object: &Value) -> Result<u64, Status> {
    match Metadata::of(object).resource_version() {
        "" => Ok(0),
        text => rdd_meta::go_text::parse_uint(text).map_err(|error| error::plain(error.to_string())),
    }
}
