//! One read-modify-write loop for update, patch and apply, which differ in how they compute the new object.

use std::sync::Arc;

use rdd_meta::{
    FieldError, GroupKind, Status,
    metadata::{Metadata, MetadataMut},
};
use rdd_patch::ssa;
use rdd_schema::strict::Document;
use rdd_store::{Expect, Revision};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Api, Context, Target,
    create::{self, Inserted},
    decode, error,
    writing::{Content, Fate, Writing, Written, common_errors, resource_version},
};
use crate::{
    admission::Operation,
    crd, offload,
    registry::form,
    state::{Object, Write},
};

/// How often a write is retried after a conflict. Each conflict means that another write succeeded, so only a single client
/// against a crowd comes near this limit.
pub(super) const ATTEMPTS_MAX: usize = 500;

/// Computes a new object from the current one. The write loop calls it again after each conflict.
pub(crate) trait Change: Send + Sync {
    /// The uid that the object must have.
    fn uid(&self) -> Option<&str> {
        None
    }

    /// Whether it creates an absent object, whatever the options of the resource are.
    fn creates(&self) -> bool {
        false
    }

    /// Whether mutating admission already ran, on another form of the object (a Scale).
    fn is_admitted(&self) -> bool {
        false
    }

    /// The objects that validating admission sees instead of `_new` and `_old`, and their target.
    fn stand_in(&self, _new: &Value, _old: &Value) -> Result<Option<StandIn<'_>>, Status> {
        Ok(None)
    }

    /// The new object, with its managed fields. `current` is `None` if the object does not exist.
    fn change(&self, writing: &Writing<'_>, current: Option<&Value>) -> Result<Value, Status>;
}

/// The objects that validating admission sees instead of the stored ones: a Scale for its object.
pub(crate) struct StandIn<'a> {
    pub(crate) target: &'a Target,
    pub(crate) new: Value,
    pub(crate) old: Value,
}

/// Replaces an object, or the part that a subresource writes, with a body.
pub async fn update(api: &Api, target: &Target, context: &Context, body: Document) -> Result<Written, Status> {
    let writing = Writing::new(api, target, context);
    let mut object = decode::object(&writing, body)?;
    writing.place(&mut object)?;
    check_name(&writing, &object)?;
    writing.dedupe_owners(&mut object, false);
    offload::pause().await;
    write(&writing, &Replace { object }).await
}

/// A body that replaces the current object.
struct Replace {
    object: Value,
}

impl Change for Replace {
    fn uid(&self) -> Option<&str> {
        Some(Metadata::of(&self.object).uid()).filter(|uid| !uid.is_empty())
    }

    fn change(&self, writing: &Writing<'_>, current: Option<&Value>) -> Result<Value, Status> {
        Ok(writing.own(current, self.object.clone()))
    }
}

/// Refuses an object whose name is not that of the path.
pub(crate) fn check_name(writing: &Writing<'_>, object: &Value) -> Result<(), Status> {
    let (found, wanted) = (Metadata::of(object).name(), writing.name());
    if found.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        )));
    }
    if found != wanted {
        return Err(Status::bad_request(format!(
            "the name of the object ({found}) does not match the name on the URL ({wanted})"
        )));
    }
    Ok(())
}

/// Applies a change to the current object, and retries while other writes get in between.
pub(crate) async fn write(writing: &Writing<'_>, change: &dyn Change) -> Result<Written, Status> {
    let key = writing.target.key()?;
    for _ in 0..ATTEMPTS_MAX {
        let current = writing.api.state.get(&key);
        let attempt = match &current {
            Some(object) => replace(writing, change, object).await,
            None => make(writing, change).await,
        };
        match attempt? {
            Attempt::Done(written) => return Ok(written),
            Attempt::Lost(actual) => {
                if Instant::now() >= writing.context.deadline {
                    break;
                }
                let wait = writing.context.deadline.saturating_duration_since(Instant::now());
                // The next attempt must see the other write, or it would conflict with it again.
                if let Some(actual) = actual {
                    writing.api.state.reach(actual, wait).await.map_err(|error| error::of_state(&error))?;
                }
            }
        }
    }
    Err(Status::conflict_modified(&writing.target.def.group_resource(), writing.name()))
}

enum Attempt {
    Done(Written),
    /// Another write changed the object, at this revision.
    Lost(Option<Revision>),
}

/// Creates an absent object, if the change or the resource allows it.
async fn make(writing: &Writing<'_>, change: &dyn Change) -> Result<Attempt, Status> {
    let def = &writing.target.def;
    if !(change.creates() || def.manners.create_on_update) || writing.target.subresource.is_some() {
        return Err(writing.not_found());
    }
    if let Some(uid) = change.uid() {
        return Err(precondition_failed(writing, "UID", uid, ""));
    }
    crd::refuse_create(def, writing.name())?;
    let object = change.change(writing, None)?;
    offload::pause().await;
    let mut object = writing.mutate(Operation::Create, object, None).await?;
    writing.dedupe_owners(&mut object, true);
    // A create replaces no version, so a version that the object carries is dropped.
    if let Some(mut metadata) = MetadataMut::of(&mut object) {
        metadata.set_resource_version("");
    }
    Ok(match create::insert_at(writing, object, Some(writing.target.key()?)).await? {
        Inserted::Done(written) => Attempt::Done(written),
        Inserted::Taken { since, .. } => Attempt::Lost(since),
    })
}

async fn replace(writing: &Writing<'_>, change: &dyn Change, object: &Arc<Object>) -> Result<Attempt, Status> {
    let def = &writing.target.def;
    let version = writing.target.version();
    let kind = writing.kind();
    offload::announce(object.wire().len()).await;
    let old = Arc::new(form::value(def, version, object)?);
    if let Some(uid) = change.uid()
        && uid != Metadata::of(&old).uid()
    {
        return Err(precondition_failed(writing, "UID", uid, Metadata::of(&old).uid()));
    }
    let new = change.change(writing, Some(&old))?;
    offload::pause().await;
    let mut new = if change.is_admitted() { new } else { writing.mutate(Operation::Update, new, Some(&old)).await? };
    writing.dedupe_owners(&mut new, true);
    check_version(writing, &mut new, &old)?;
    complete(writing, &mut new, &old)?;
    // The common metadata errors come first. Built-in kinds report them themselves, in upstream's order.
    let shared = def.custom.as_ref().map(|_| common_errors(&new, def.namespaced, &old));
    let mut errors = shared.unwrap_or_default();
    errors.extend(kind.validate_update(writing.target.subresource_name(), &new, &old));
    if !errors.is_empty() {
        return Err(writing.invalid(&new, &errors));
    }
    kind.warnings(&new, Some(&old)).into_iter().for_each(|text| writing.context.warnings.add(text));
    ssa::keep_timestamps_of_unchanged(&old, &mut new);
    offload::pause().await;
    match change.stand_in(&new, &old)? {
        None => new = writing.agree(Operation::Update, new, Some(&old)).await?,
        Some(StandIn { target, new, old }) => {
            Writing { target, ..*writing }.agree(Operation::Update, new, Some(&Arc::new(old))).await?;
        }
    }
    let expect = Expect::Revision(object.revision());
    // The update removed the last finalizer, so the object goes instead of being stored.
    if vanishes(&new, &old) && kind.may_vanish(&new) {
        return vanish(writing, new, expect).await;
    }
    let dry_run = writing.context.options.is_dry_run();
    let stored = form::to_stored(def, version, &new);
    // A write that changes nothing commits nothing, as upstream: watches see no event.
    if object.is_stored_as(&stored) {
        return Ok(Attempt::Done(Written { content: Content::Stored(Arc::clone(object)), created: false }));
    }
    if dry_run {
        let shown = form::as_stored(version, new);
        return Ok(Attempt::Done(Written { content: Content::Shown(shown), created: false }));
    }
    let key = object.key().clone();
    let put = match def.manners.ttl {
        Some(ttl) => Write::put_for(key, expect, stored, ttl),
        None => Write::put(key, expect, stored),
    };
    match writing.store(put).await? {
        Fate::Done(committed) => {
            let object = committed.object.ok_or_else(|| writing.not_found())?;
            Ok(Attempt::Done(Written { content: Content::Stored(object), created: false }))
        }
        Fate::Lost(actual) => Ok(Attempt::Lost(actual)),
    }
}

/// The new object must carry the current resourceVersion, or none if its resource allows unconditional updates.
fn check_version(writing: &Writing<'_>, new: &mut Value, old: &Value) -> Result<(), Status> {
    let def = &writing.target.def;
    let (wanted, current) = (resource_version(new)?, resource_version(old)?);
    if wanted == 0 && !def.manners.unconditional_update {
        let error =
            FieldError::invalid_text("metadata.resourceVersion", "0".to_owned(), "must be specified for an update");
        // Upstream names the resource where the kind should be.
        return Err(Status::invalid(&GroupKind::new(&def.group, &def.plural), writing.name(), &[error]));
    }
    if wanted != 0 && wanted != current {
        return Err(Status::conflict_modified(&def.group_resource(), writing.name()));
    }
    if let Some(mut metadata) = MetadataMut::of(new) {
        metadata.set_resource_version(&current.to_string());
    }
    Ok(())
}

/// Restores the fields that no update can change, and lets the kind do the same.
fn complete(writing: &Writing<'_>, new: &mut Value, old: &Value) -> Result<(), Status> {
    writing.place(new)?;
    let before = Metadata::of(old);
    if let Some(mut metadata) = MetadataMut::of(new) {
        metadata.set_generation(before.generation());
    }
    writing.kind().prepare_for_update(writing.target.subresource_name(), new, old);
    if let Some(mut metadata) = MetadataMut::of(new) {
        if metadata.view().uid().is_empty() {
            metadata.set_uid(before.uid());
        }
        for field in ["creationTimestamp", "deletionTimestamp"] {
            if let Some(value) = before.get(field) {
                metadata.set(field, Some(value.clone()));
            }
        }
        if let (Some(seconds), None) =
            (before.deletion_grace_period_seconds(), metadata.view().deletion_grace_period_seconds())
        {
            metadata.set("deletionGracePeriodSeconds", Some(json!(seconds)));
        }
    }
    Ok(())
}

/// Whether an update removed the last finalizer of an object that is being deleted.
fn vanishes(new: &Value, old: &Value) -> bool {
    let before = Metadata::of(old);
    Metadata::of(new).finalizers().is_empty()
        && before.is_terminating()
        && matches!(before.deletion_grace_period_seconds(), None | Some(0))
}

/// Deletes an object without finalizers. The client gets the object that the update would have stored.
async fn vanish(writing: &Writing<'_>, new: Value, expect: Expect) -> Result<Attempt, Status> {
    if !writing.context.options.is_dry_run() {
        let stored = writing.store(Write::delete(writing.target.key()?, expect)).await?;
        if let Fate::Lost(actual) = stored {
            return Ok(Attempt::Lost(actual));
        }
    }
    Ok(Attempt::Done(Written { content: Content::Shown(new), created: false }))
}

/// 409 in the words of upstream's storage.
pub(crate) fn precondition_failed(writing: &Writing<'_>, what: &str, wanted: &str, found: &str) -> Status {
    let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
    invalid_stored(writing, &why)
}

/// 409 with upstream's storage error for an object that is not as expected.
pub(crate) fn invalid_stored(writing: &Writing<'_>, why: &str) -> Status {
    let def = &writing.target.def;
    // The key in upstream's store, where built-in resources are not grouped by API group.
    let prefix = match (&*def.group, &*def.plural) {
        _ if def.custom.is_some() => format!("{}/{}", def.group, def.plural),
        ("apiextensions.k8s.io" | "apiregistration.k8s.io", plural) => format!("{}/{plural}", def.group),
        ("", "services") => "services/specs".to_owned(),
        (_, plural) => plural.to_owned(),
    };
    let namespace = writing.target.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let key = format!("/registry/{prefix}/{namespace}{}", writing.name());
    let why =
        format!("StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}");
    Status::conflict(&def.group_resource(), writing.name(), &why)
}
