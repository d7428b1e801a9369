//! `delete`: removes an object at once, or marks it for deletion until its finalizers are removed.

use std::{collections::HashSet, sync::Arc};

use rdd_meta::{
    GroupResource, Status,
    metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN, Metadata, MetadataMut},
    options::DeleteOptions,
};
use rdd_store::{Expect, Revision};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Api, Context, Target, error,
    writing::{Content, Fate, Writing, Written},
};
use crate::{
    offload,
    registry::{Manners, form},
    state::{Object, Write},
};

/// Deletes an object. The result is the object while finalizers hold it, and a Status (for some kinds the object) once it is
/// removed.
pub async fn delete(api: &Api, target: &Target, context: &Context, options: &DeleteOptions) -> Result<Deleted, Status> {
    delete_as(api, target, context, options, false).await
}

/// The same for an object that a deletecollection selected: plug-ins then see no name, as the request has none.
pub(super) async fn delete_as(
    api: &Api,
    target: &Target,
    context: &Context,
    options: &DeleteOptions,
    is_one_of_many: bool,
) -> Result<Deleted, Status> {
    let writing = Writing::new(api, target, context);
    let key = target.key()?;
    let mut options = options.clone();
    loop {
        let object = api.state.get(&key).ok_or_else(|| writing.not_found())?;
        if target.def.manners.own_deletion && options.precondition_uid.is_none() {
            // Pins the uid, so that a retry does not delete another object that took the same name.
            options.precondition_uid = object.uid().map(str::to_owned);
        }
        match attempt(&writing, &object, &options, is_one_of_many).await? {
            Attempt::Done(deleted) => return Ok(deleted),
            Attempt::Lost(actual) => {
                if Instant::now() >= context.deadline {
                    return Err(Status::conflict_modified(&target.def.group_resource(), writing.name()));
                }
                let wait = context.deadline.saturating_duration_since(Instant::now());
                if let Some(actual) = actual {
                    api.state.reach(actual, wait).await.map_err(|error| error::of_state(&error))?;
                }
            }
        }
    }
}

/// The result of a delete.
#[derive(Debug)]
pub struct Deleted {
    /// The content of the response.
    pub written: Written,
    /// Whether the object is removed, rather than marked.
    pub gone: bool,
}

enum Attempt {
    Done(Deleted),
    Lost(Option<Revision>),
}

async fn attempt(
    writing: &Writing<'_>,
    object: &Arc<Object>,
    options: &DeleteOptions,
    is_one_of_many: bool,
) -> Result<Attempt, Status> {
    let def = &writing.target.def;
    let version = writing.target.version();
    offload::announce(object.wire().len()).await;
    let old = Arc::new(form::value(def, version, object)?);
    check_preconditions(writing, &old, options)?;
    if def.manners.own_deletion && Metadata::of(&old).is_terminating() {
        let mut ends = Value::clone(&old);
        if writing.kind().begin_deletion(&mut ends, writing.now()) {
            // The object is already ending in the way of its kind, so there is nothing to change.
            return Ok(Attempt::Done(Deleted::marked(Content::Stored(Arc::clone(object)))));
        }
    }
    writing.agree_to_delete(&old, &options_value(options), (options.is_dry_run(), is_one_of_many)).await?;
    let mut marked = Value::clone(&old);
    let stays = mark(writing, &mut marked, options);
    let expect = Expect::Revision(object.revision());
    let write = if stays {
        let stored = form::to_stored(def, version, &marked);
        // A second delete with the same options changes nothing and commits nothing.
        if object.is_stored_as(&stored) {
            return Ok(Attempt::Done(Deleted::marked(Content::Stored(Arc::clone(object)))));
        }
        if options.is_dry_run() {
            return Ok(Attempt::Done(Deleted::marked(Content::Shown(marked))));
        }
        Write::put(object.key().clone(), expect, stored)
    } else if options.is_dry_run() {
        return Ok(Attempt::Done(Deleted::gone(writing, &old, Content::Stored(Arc::clone(object)))));
    } else {
        Write::delete(object.key().clone(), expect)
    };
    match writing.store_deletion(write).await? {
        Fate::Done(committed) => {
            let content = Content::Stored(committed.object.unwrap_or_else(|| Arc::clone(object)));
            Ok(Attempt::Done(if stays { Deleted::marked(content) } else { Deleted::gone(writing, &old, content) }))
        }
        Fate::Lost(actual) => Ok(Attempt::Lost(actual)),
    }
}

impl Deleted {
    fn marked(content: Content) -> Self {
        Self { written: Written { content, created: false }, gone: false }
    }

    fn gone(writing: &Writing<'_>, object: &Value, content: Content) -> Self {
        let def = &writing.target.def;
        let metadata = Metadata::of(object);
        let content = if def.manners.returns_deleted {
            content
        } else {
            Content::Status(Box::new(Status::deleted(&def.group_resource(), metadata.name(), metadata.uid())))
        };
        Self { written: Written { content, created: false }, gone: true }
    }
}

fn check_preconditions(writing: &Writing<'_>, object: &Value, options: &DeleteOptions) -> Result<(), Status> {
    let metadata = Metadata::of(object);
    let def = &writing.target.def;
    if def.manners.own_deletion {
        return match options.failed_precondition(metadata) {
            Some(why) => Err(Status::conflict(&def.group_resource(), writing.name(), &why)),
            None => Ok(()),
        };
    }
    let checks = [
        ("UID", &options.precondition_uid, metadata.uid(), "deleted and then recreated"),
        ("ResourceVersion", &options.precondition_resource_version, metadata.resource_version(), "modified"),
    ];
    for (what, wanted, found, fate) in checks {
        if let Some(wanted) = wanted
            && wanted != found
        {
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might \
                 have been {fate}"
            );
            // Upstream names the kind where the resource should be.
            let named = GroupResource::new(&def.group, &def.kind);
            return Err(Status::conflict(&named, writing.name(), &why));
        }
    }
    Ok(())
}

/// Marks an object for deletion. Returns whether finalizers or its kind hold it.
fn mark(writing: &Writing<'_>, object: &mut Value, options: &DeleteOptions) -> bool {
    let now = writing.now();
    let manners = &writing.target.def.manners;
    let finalizers = finalizers_after(object, options, manners);
    if let (Some(mut metadata), Some(finalizers)) = (MetadataMut::of(object), &finalizers) {
        metadata.set_finalizers(finalizers);
    }
    if writing.kind().begin_deletion(object, now) {
        if let Some(mut metadata) = MetadataMut::of(object)
            && !metadata.view().is_terminating()
        {
            metadata.set_deletion(Some(now), None);
        }
        return true;
    }
    if Metadata::of(object).finalizers().is_empty() {
        return false;
    }
    if let Some(mut metadata) = MetadataMut::of(object) {
        let view = metadata.view();
        let (generation, first, at) = (view.generation(), !view.is_terminating(), view.deletion_timestamp());
        if first && generation > 0 {
            metadata.set_generation(generation + 1);
        }
        // A deletion timestamp in the future (a grace period that still runs) is moved to now.
        let at = at.filter(|at| *at <= now).unwrap_or(now);
        metadata.set_deletion(Some(at), Some(0));
    }
    true
}

/// The finalizers after the garbage collector's ones are set as the options ask; `None` if they do not change.
fn finalizers_after(object: &Value, options: &DeleteOptions, manners: &Manners) -> Option<Vec<String>> {
    let before = Metadata::of(object).finalizers();
    let holds = |name: &str| {
        before
            .iter()
            .find(|found| [FINALIZER_ORPHAN, FINALIZER_FOREGROUND].contains(found))
            .is_some_and(|found| *found == name)
    };
    let (orphan, foreground) = match (options.orphan_dependents, options.propagation_policy.as_deref()) {
        _ if manners.no_dependents => (false, false),
        (Some(orphan), _) => (orphan, false),
        (None, Some(policy)) => (policy == "Orphan", policy == "Foreground"),
        (None, None) if holds(FINALIZER_ORPHAN) => (true, false),
        (None, None) if holds(FINALIZER_FOREGROUND) => (false, true),
        (None, None) => (manners.orphan_by_default, false),
    };
    let others = before.iter().filter(|name| ![FINALIZER_ORPHAN, FINALIZER_FOREGROUND].contains(name));
    let mut after: Vec<String> = others.map(|name| (*name).to_owned()).collect();
    after.extend(orphan.then(|| FINALIZER_ORPHAN.to_owned()));
    after.extend(foreground.then(|| FINALIZER_FOREGROUND.to_owned()));
    let known: HashSet<&str> = before.iter().copied().collect();
    let same = after.len() == before.len() && after.iter().all(|name| known.contains(name.as_str()));
    (!same).then_some(after)
}

/// The options as an object, for admission.
pub(crate) fn options_value(options: &DeleteOptions) -> Value {
    let mut value = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
    let mut set = |name: &str, given: Option<Value>| {
        if let Some(given) = given {
            value[name] = given;
        }
    };
    set("gracePeriodSeconds", options.grace_period_seconds.map(Value::from));
    set("orphanDependents", options.orphan_dependents.map(Value::from));
    set("propagationPolicy", options.propagation_policy.clone().map(Value::from));
    set("dryRun", options.is_dry_run().then(|| json!(options.dry_run)));
    let mut preconditions = serde_json::Map::new();
    let given = [("uid", &options.precondition_uid), ("resourceVersion", &options.precondition_resource_version)];
    for (name, wanted) in given {
        if let Some(wanted) = wanted {
            preconditions.insert(name.to_owned(), json!(wanted));
        }
    }
    set("preconditions", (!preconditions.is_empty()).then_some(Value::Object(preconditions)));
    value
}
