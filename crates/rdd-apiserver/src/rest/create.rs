//! `create`: a new object.

use rdd_meta::{
    GroupKind, Status,
    metadata::{Metadata, MetadataMut},
    names,
};
use rdd_schema::strict::Document;
use rdd_store::{Expect, Revision};
use serde_json::Value;

use super::{
    Api, Context, Target, decode, error,
    writing::{Content, Fate, Writing, Written, resource_version},
};
use crate::{
    admission::Operation,
    crd, offload,
    registry::{Backing, form},
    state::{Key, Write},
};

/// How many names a create with generateName tries, as long as they are taken.
const NAMES_MAX: usize = 8;

/// Creates an object from a body.
pub async fn create(api: &Api, target: &Target, context: &Context, body: Document) -> Result<Written, Status> {
    let writing = Writing::new(api, target, context);
    let mut object = decode::object(&writing, body)?;
    let mut named = target.clone();
    if named.name.is_none() {
        named.name = Some(Metadata::of(&object).name().to_owned()).filter(|name| !name.is_empty());
    }
    let writing = Writing { target: &named, ..writing };
    offload::pause().await;
    forget_system_fields(&mut object);
    writing.place(&mut object)?;
    crd::refuse_create(&target.def, writing.name())?;
    if let Backing::Answered(answerer) = &target.def.backing {
        return ask(&writing, object, &**answerer).await;
    }
    writing.dedupe_owners(&mut object, false);
    let object = writing.own(None, object);
    offload::pause().await;
    let mut object = writing.mutate(Operation::Create, object, None).await?;
    writing.dedupe_owners(&mut object, true);
    if wants_a_name(&object) {
        return insert_somewhere(&writing, object).await;
    }
    match insert(&writing, object).await? {
        Inserted::Done(written) => Ok(written),
        Inserted::Taken { name, .. } => Err(already_exists(&writing, &name)),
    }
}

/// Stores an object under a generated name, and tries other names while they are taken.
async fn insert_somewhere(writing: &Writing<'_>, mut object: Value) -> Result<Written, Status> {
    for attempt in 1.. {
        generate_name(&mut object);
        match insert(writing, object).await? {
            Inserted::Done(written) => return Ok(written),
            // The next attempt sets every field again that this one has set.
            Inserted::Taken { object: given_back, .. } if attempt < NAMES_MAX => object = given_back,
            Inserted::Taken { name, .. } => {
                return Err(Status::generated_name_exists(&writing.target.def.group_resource(), &name, 1));
            }
        }
    }
    unreachable!("the last attempt returns")
}

/// The outcome of an insert.
pub(super) enum Inserted {
    /// The object is stored.
    Done(Written),
    /// An object of this name exists, perhaps since this revision. Nothing was stored; the object is returned for another
    /// attempt.
    Taken { name: String, since: Option<Revision>, object: Value },
}

/// Prepares, validates and stores an object after mutating admission, under its own name.
pub(super) async fn insert(writing: &Writing<'_>, object: Value) -> Result<Inserted, Status> {
    insert_at(writing, object, None).await
}

/// The same under the given key. A create by update stores under the name of its path, even if a webhook renamed the object, as
/// upstream's storage does.
pub(super) async fn insert_at(writing: &Writing<'_>, mut object: Value, key: Option<Key>) -> Result<Inserted, Status> {
    let def = &writing.target.def;
    if let Some(mut metadata) = MetadataMut::of(&mut object) {
        metadata.set_uid(&uuid::Uuid::new_v4().to_string());
        metadata.set_creation_timestamp(Some(writing.now()));
    }
    writing.place(&mut object)?;
    let kind = writing.kind();
    kind.prepare_for_create(&mut object);
    let errors = kind.validate_create(&object);
    if !errors.is_empty() {
        return Err(writing.invalid(&object, &errors));
    }
    kind.warnings(&object, None).into_iter().for_each(|text| writing.context.warnings.add(text));
    offload::pause().await;
    let object = writing.agree(Operation::Create, object, None).await?;
    let name = Metadata::of(&object).name().to_owned();
    let key = key.map_or_else(|| key_of(writing, &name), Ok)?;
    if writing.context.options.is_dry_run() {
        if writing.api.state.get(&key).is_some() {
            return Ok(Inserted::Taken { name, since: None, object });
        }
        let shown = form::as_stored(writing.target.version(), object);
        return Ok(Inserted::Done(Written { content: Content::Shown(shown), created: true }));
    }
    // Upstream's store makes this check, so a dry run skips it, and a version that is not a number counts as none.
    if resource_version(&object).is_ok_and(|version| version != 0) {
        return Err(error::plain("resourceVersion should not be set on objects to be created"));
    }
    let stored = form::to_stored(def, writing.target.version(), &object);
    let write = match def.manners.ttl {
        Some(ttl) => Write::put_for(key, Expect::Absent, stored, ttl),
        None => Write::put(key, Expect::Absent, stored),
    };
    match writing.store(write).await? {
        Fate::Done(committed) => {
            let object = committed.object.ok_or_else(|| writing.not_found())?;
            Ok(Inserted::Done(Written { content: Content::Stored(object), created: true }))
        }
        Fate::Lost(since) => Ok(Inserted::Taken { name, since, object }),
    }
}

fn key_of(writing: &Writing<'_>, name: &str) -> Result<Key, Status> {
    let storage = writing.target.def.storage().ok_or_else(|| writing.not_found())?;
    let namespace = writing.target.namespace.as_deref();
    storage.key(namespace, name).map_err(|error| Status::bad_request(error.to_string()))
}

/// Answers a create of a virtual resource: admission and validation as for any object, but nothing is stored.
async fn ask(
    writing: &Writing<'_>,
    object: Value,
    answerer: &dyn crate::registry::Answerer,
) -> Result<Written, Status> {
    let object = writing.own(None, object);
    let object = writing.mutate(Operation::Create, object, None).await?;
    let errors = writing.kind().validate_create(&object);
    if !errors.is_empty() {
        // Upstream's validation of reviews no longer knows the kind, so the error does not name it.
        return Err(Status::invalid(&GroupKind::new(&writing.target.def.group, ""), "", &errors));
    }
    let object = writing.agree(Operation::Create, object, None).await?;
    let namespace = writing.target.namespace.as_deref();
    let answer = answerer.answer(object, &writing.context.user, namespace)?;
    Ok(Written { content: Content::Shown(answer), created: true })
}

fn already_exists(writing: &Writing<'_>, name: &str) -> Status {
    let mut status = Status::already_exists(&writing.target.def.group_resource(), name);
    let existing = key_of(writing, name).ok().and_then(|key| writing.api.state.get(&key));
    let going = existing.and_then(|object| serde_json::from_slice::<Value>(object.wire()).ok());
    if going.is_some_and(|object| Metadata::of(&object).is_terminating()) {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

/// Clears the fields that only the server sets.
fn forget_system_fields(object: &mut Value) {
    if let Some(mut metadata) = MetadataMut::of(object) {
        metadata.set_creation_timestamp(None);
        metadata.set_uid("");
        metadata.set_deletion(None, None);
        metadata.set("selfLink", None);
    }
}

/// Whether an object has no name but a generateName.
fn wants_a_name(object: &Value) -> bool {
    let metadata = Metadata::of(object);
    metadata.name().is_empty() && !metadata.generate_name().is_empty()
}

/// Sets a random name that begins with the generateName.
fn generate_name(object: &mut Value) {
    let random: [u8; 16] = *uuid::Uuid::new_v4().as_bytes();
    // Bytes 6 and 8 of a random UUID carry its version; the last five are random throughout.
    let [.., a, b, c, d, e] = random;
    let name = names::generate_name(Metadata::of(object).generate_name(), [a, b, c, d, e]);
    if let Some(mut metadata) = MetadataMut::of(object) {
        metadata.set_name(&name);
    }
}
