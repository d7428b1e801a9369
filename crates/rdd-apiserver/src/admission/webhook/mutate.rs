//! Webhooks that may change an object: one after the other, some of them twice.

use std::collections::HashSet;

use rdd_meta::{Status, go_text::quote, gvk::GroupVersionKind};
use rdd_patch::json::Patch;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    super::{Attributes, Reform},
    answer::Answer,
    call::{Caller, Role, syntax_error},
    choose::Chooser,
    hook::Hook,
    problem::{self, Problem},
    timed_out,
    version::Naming,
};

/// Who has seen what, and who has to look again. Mirrors upstream's `webhookReinvokeContext`.
#[derive(Debug, Default)]
struct Memory<'a> {
    /// Those who want to see later changes and have been asked since the last one.
    asked: HashSet<&'a str>,
    /// Those among them after whom something changed.
    outdated: HashSet<&'a str>,
    changed: bool,
}

impl<'a> Memory<'a> {
    fn note_change(&mut self) {
        self.changed = true;
        self.outdated.extend(self.asked.drain());
    }
}

/// Asks all webhooks in order; then, if any changed the object, once more those who want to see that.
///
/// In upstream the second round runs through all mutating plug-ins. None of ours before this one depends on what a webhook may
/// change, so it is a round of webhooks.
pub(super) async fn run(
    caller: &Caller,
    chooser: &Chooser<'_>,
    hooks: &[std::sync::Arc<Hook>],
    attributes: &mut Attributes<'_>,
    reform: Reform<'_>,
) -> Result<(), Status> {
    let mut memory = Memory::default();
    for is_second in [false, true] {
        for hook in hooks {
            // One that was not asked in the first round is not asked in the second.
            let Some(naming) = chooser.naming(hook, attributes)? else { continue };
            if is_second && !memory.outdated.contains(hook.uid.as_str()) {
                continue;
            }
            let asked = Box::pin(ask(caller, hook, attributes, &naming, reform)).await;
            if matches!(asked, Ok(true)) {
                memory.note_change();
            }
            if hook.reinvoked {
                memory.asked.insert(&hook.uid);
            }
            if let Err(problem) = asked {
                conclude(hook, problem, attributes)?;
            }
        }
        if !memory.changed {
            break;
        }
    }
    Ok(())
}

fn conclude(hook: &Hook, problem: Problem, attributes: &Attributes<'_>) -> Result<(), Status> {
    match problem::conclude(hook, problem) {
        Some(status) => Err(status),
        // It ran out of the time of the request, not only of its own.
        None if Instant::now() >= attributes.deadline => Err(timed_out()),
        None => Ok(()),
    }
}

/// Whether the webhook changed the object.
async fn ask(
    caller: &Caller,
    hook: &Hook,
    attributes: &mut Attributes<'_>,
    naming: &Naming,
    reform: Reform<'_>,
) -> Result<bool, Problem> {
    let shown = attributes.object.as_ref().map(|object| naming.show(object));
    let old = attributes.old.as_deref().map(|object| naming.show(object));
    let answer = caller.ask(hook, Role::Mutating, attributes, naming, (shown.clone(), old)).await?;
    let Some(patch) = decode(&answer)? else { return Ok(false) };
    let Some(shown) = shown else {
        let text = format!(
            "admission webhook {} attempted to modify the object, which is not supported for this operation",
            quote(&hook.name)
        );
        return Err(Problem::Final(Status::internal(text)));
    };
    if answer.patch_type != "JSONPatch" {
        return Err(Problem::Calling(format!("unsupported patch type {}", quote(&answer.patch_type))));
    }
    let internal = |text: String| Problem::Final(Status::internal(text));
    let mut patched = patch.apply(&shown).map_err(|error| internal(error.to_string()))?;
    keep_type(&shown, &mut patched)?;
    let mut object = naming.take_back(patched);
    // Upstream decodes what came out of the patch, and what it cannot decode is nobody's bad request.
    reform(&mut object).map_err(|status| internal(cause(&status)))?;
    let changed = attributes.object.as_ref() != Some(&object);
    attributes.object = Some(object);
    Ok(changed)
}

/// The patch of an answer; none if it has no operation.
fn decode(answer: &Answer) -> Result<Option<Patch>, Problem> {
    if answer.patch.is_empty() {
        return Ok(None);
    }
    let undecodable = |why: String| Problem::Calling(format!("received undecodable patch in webhook response: {why}"));
    let document: Value =
        serde_json::from_slice(&answer.patch).map_err(|error| undecodable(syntax_error(&error, &answer.patch)))?;
    let patch = Patch::decode(&document).map_err(|error| undecodable(error.to_string()))?;
    Ok(document.as_array().is_some_and(|operations| !operations.is_empty()).then_some(patch))
}

/// A patch that takes the type away takes nothing, and one that makes another thing of the object is an error.
fn keep_type(shown: &Value, patched: &mut Value) -> Result<(), Problem> {
    let Some(members) = patched.as_object_mut() else {
        let text = "json: cannot unmarshal array into Go value of type runtime.Object";
        return Err(Problem::Final(Status::internal(text)));
    };
    for field in ["apiVersion", "kind"] {
        let is_missing = members.get(field).and_then(Value::as_str).is_none_or(str::is_empty);
        if let Some(value) = shown.get(field).filter(|_| is_missing) {
            members.insert(field.to_owned(), value.clone());
        }
    }
    let (before, after) = (kind_of(shown), kind_of(patched));
    if after == before {
        return Ok(());
    }
    let group = if before.group.is_empty() { "core" } else { &before.group };
    let (version, from, to) = (&after.version, &after.kind, &before.kind);
    let mut status = Status::internal("");
    status.message = format!("converting ({version}.{from}) to ({group}.{to}): unknown conversion");
    (status.reason, status.details) = (None, None);
    Err(Problem::Final(status))
}

fn kind_of(object: &Value) -> GroupVersionKind {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    GroupVersionKind::from_type_meta(text("apiVersion"), text("kind"))
}

/// What is behind `… cannot be handled as a …: `, in which the handlers of requests wrap it.
fn cause(status: &Status) -> String {
    let wrapped = status.message.split_once(" cannot be handled as a ").and_then(|(_, rest)| rest.split_once(": "));
    wrapped.map_or_else(|| status.message.clone(), |(_, cause)| cause.to_owned())
}
