//! Writing the scale of an object: a Scale is changed, and the object gets what it says.

use std::sync::Arc;

use rdd_meta::{
    Reason, Status,
    metadata::{Metadata, MetadataMut},
};
use rdd_patch::ssa::{self, ApplyOptions, FieldManager, Filter, SameSchema};
use rdd_schema::strict::{Document, Finding};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    Api, Context, PatchType, Target, decode, error,
    patch::Patched,
    scale::{self, API_VERSION, KIND},
    update::{ATTEMPTS_MAX, Change, StandIn, check_name, write},
    writing::{Writing, Written},
};
use crate::{
    admission::Operation,
    registry::{Origin, form},
};

/// Replaces the scale of an object by a body.
pub(super) async fn update(api: &Api, target: &Target, context: &Context, body: Document) -> Result<Written, Status> {
    let writing = Writing::new(api, target, context);
    let mut wanted = read(&writing, body)?;
    writing.place(&mut wanted)?;
    check_name(&writing, &wanted)?;
    rescale(&writing, &|before| own(&writing, before, wanted.clone())).await
}

/// Patches the scale of an object.
pub(super) async fn patch(
    api: &Api,
    target: &Target,
    context: &Context,
    patch_type: PatchType,
    body: Document,
) -> Result<Written, Status> {
    let writing = Writing::new(api, target, context);
    if patch_type == PatchType::Apply {
        return rescale(&writing, &|before| apply(&writing, before, &body.value)).await;
    }
    let patched = Patched::read(patch_type, &writing, body)?;
    rescale(&writing, &|before| {
        let wanted = patched.apply(&writing, before, &decode)?;
        check_name(&writing, &wanted)?;
        own(&writing, before, wanted)
    })
    .await
}

/// Changes the scale that an object has, again if somebody else was quicker.
async fn rescale(
    writing: &Writing<'_>,
    edit: &(dyn Fn(&Value) -> Result<Value, Status> + Send + Sync),
) -> Result<Written, Status> {
    let target = writing.target;
    let key = target.key()?;
    for _ in 0..ATTEMPTS_MAX {
        let object = writing.api.state.get(&key).ok_or_else(|| writing.not_found())?;
        let current = form::value(&target.def, target.version(), &object)?;
        let before = Arc::new(scale::before(target, &current)?);
        let wanted = edit(&before)?;
        let reformed = |scale: &mut Value| scale::decode(scale, Origin::Request).map(drop);
        let wanted = writing.mutate_as(Operation::Update, wanted, Some(&before), &reformed).await?;
        let parent = Target { subresource: None, ..target.clone() };
        let set = Set { target, wanted, base: Metadata::of(&current).resource_version().to_owned() };
        let outcome = write(&Writing { target: &parent, ..*writing }, &set).await;
        match outcome {
            // The object changed between our look at it and the write, and the client does not insist on a version.
            Err(status) if is_race(&status) && Instant::now() < writing.context.deadline => {}
            other => return other,
        }
    }
    Err(Status::conflict_modified(&target.def.group_resource(), writing.name()))
}

/// A scale, to be put into the object that it was made of.
struct Set<'a> {
    /// The scale itself; what is written is its object.
    target: &'a Target,
    wanted: Value,
    base: String,
}

const RACE: &str = "the object changed while its scale was being written";

fn is_race(status: &Status) -> bool {
    status.reason == Some(Reason::Conflict) && status.message.ends_with(RACE)
}

impl Change for Set<'_> {
    fn uid(&self) -> Option<&str> {
        Some(Metadata::of(&self.wanted).uid()).filter(|uid| !uid.is_empty())
    }

    fn is_admitted(&self) -> bool {
        true
    }

    /// Validating plug-ins see what the object says as a whole, whatever of it the client sent; nobody owns fields of that.
    fn stand_in(&self, new: &Value, old: &Value) -> Result<Option<StandIn<'_>>, Status> {
        let (new, old) = (scale::after(self.target, new)?, scale::after(self.target, old)?);
        Ok(Some(StandIn { target: self.target, new, old }))
    }

    fn change(&self, writing: &Writing<'_>, current: Option<&Value>) -> Result<Value, Status> {
        let current = current.ok_or_else(|| writing.not_found())?;
        if Metadata::of(current).resource_version() != self.base {
            return Err(Status::conflict(&writing.target.def.group_resource(), writing.name(), RACE));
        }
        let mut object = current.clone();
        scale::applied(self.target, &mut object, &self.wanted)?;
        Ok(object)
    }
}

fn read(writing: &Writing<'_>, body: Document) -> Result<Value, Status> {
    let Document { value: mut wanted, mut findings, .. } = body;
    findings.extend(decode(&mut wanted)?);
    decode::report(writing, &findings)
        .map_err(|why| Status::bad_request(format!("{KIND} in version \"v1\" cannot be handled as a {KIND}: {why}")))?;
    Ok(wanted)
}

/// Makes a Scale of what a client sent, or what a patch made.
fn decode(wanted: &mut Value) -> Result<Vec<Finding>, Status> {
    for (field, fixed) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        match wanted.get(field).and_then(Value::as_str) {
            None | Some("") => wanted[field] = fixed.into(),
            Some(found) if found == fixed => {}
            Some(found) if field == "apiVersion" => {
                return Err(Status::bad_request(format!(
                    "the API version in the data ({found}) does not match the expected API version ({fixed})"
                )));
            }
            Some(found) => {
                return Err(Status::bad_request(format!(
                    "{found} in version \"v1\" cannot be handled as a {KIND}: no kind is registered under that name"
                )));
            }
        }
    }
    let findings = scale::decode(wanted, Origin::Request)?;
    if let Some(mut metadata) = MetadataMut::of(wanted) {
        metadata.set_creation_timestamp(None);
    }
    Ok(findings)
}

fn own(writing: &Writing<'_>, before: &Value, wanted: Value) -> Result<Value, Status> {
    let now = ssa::Timestamp(writing.now().seconds());
    Ok(with_field_manager(|manager| manager.update_or_forget(before, wanted, &writing.context.manager, now).0))
}

fn apply(writing: &Writing<'_>, before: &Value, wanted: &Value) -> Result<Value, Status> {
    let options = ApplyOptions {
        manager: &writing.context.options.field_manager,
        force: writing.context.options.force.unwrap_or(false),
        now: ssa::Timestamp(writing.now().seconds()),
    };
    with_field_manager(|manager| manager.apply(before, wanted, options)).map_err(error::of_ownership)
}

fn with_field_manager<T>(act: impl FnOnce(&FieldManager<'_>) -> T) -> T {
    let converter = SameSchema([(API_VERSION.to_owned(), scale::shape())].into());
    act(&FieldManager {
        api_version: API_VERSION,
        kind: KIND,
        subresource: "scale",
        converter: &converter,
        reset_fields: &Filter::new(),
        empty: None,
        default: &|_| {},
    })
}
