//! Executes a request for a container: claim it, act, record the result, remove the claim.

use std::collections::BTreeMap;

use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use rdd_docker::Container as Found;
use rdd_runtime::{Error, apply, conditions};
use rdd_types::{
    containers::{Container, LastAction},
    names::{
        annotation::{ACTING, ACTION},
        field_manager,
    },
};
use serde_json::{Value, json};

use super::{
    desk::Desk,
    intent::{self, Claim, Fate, Next},
};

/// How often the removal of a request is tried when other clients write to the same object.
const ATTEMPTS: u32 = 8;

/// Handles the next request of a container. If another one follows, the write of this result enqueues the container again.
pub(super) async fn attend(desk: &Desk, object: &Container, found: Found) -> Result<(), Error> {
    let now = conditions::now(&*desk.cx.clock);
    match intent::next(object, found.state(), &found.runs, now) {
        // `intent` makes all decisions without I/O; this function only carries them out.
        Next::Nothing => Ok(()),
        Next::Discard => unclaim(desk, object, None).await,
        Next::Acknowledge(generation) => {
            let recorded = record(desk, object, last(object), Some(generation));
            desk.cx.step("record", recorded).await
        }
        Next::Begin(claim) => {
            let claimed = desk.cx.step("claim", write_claim(desk, object, &claim)).await?;
            begin(desk, &claimed, &claim, &found).await
        }
        Next::Clear(claim) => unclaim(desk, object, Some(&claim)).await,
        Next::Resume(claim) => match intent::fate(&claim, found.state(), &found.runs) {
            Fate::Done => finish(desk, object, &claim, Ok(())).await,
            Fate::Again => begin(desk, object, &claim, &found).await,
            Fate::Unknown => finish(desk, object, &claim, Err(intent::INTERRUPTED.to_owned())).await,
        },
    }
}

fn last(object: &Container) -> Option<LastAction> {
    object.status.as_ref().and_then(|status| status.last_action.clone())
}

async fn begin(desk: &Desk, object: &Container, claim: &Claim, found: &Found) -> Result<(), Error> {
    let acting = async {
        match intent::shortcut(claim.action, &found.id, found.state()) {
            Some(answer) => Ok(answer),
            None => match desk.engine.act(claim.action, &found.id).await {
                Ok(()) => Ok(Ok(())),
                // The request never reached the engine, so it remains for the next connection.
                Err(error) if error.was_never_sent() => Err(Error::because("act on the container", error)),
                Err(error) => Ok(Err(error.answer())),
            },
        }
    };
    match desk.cx.step("act", acting).await {
        Ok(ended) => finish(desk, object, claim, ended).await,
        // Without the claim, the next attempt begins the request again instead of resuming it.
        Err(error) => {
            write(desk, object, &json!({ ACTING: Value::Null })).await?;
            Err(error)
        }
    }
}

async fn finish(desk: &Desk, object: &Container, claim: &Claim, ended: Result<(), String>) -> Result<(), Error> {
    let now = conditions::now(&*desk.cx.clock);
    let ended = ended.map_err(|text| conditions::cut(&text));
    let last = intent::result(claim, ended, now);
    desk.cx.step("record", record(desk, object, Some(last), claim.generation)).await?;
    unclaim(desk, object, Some(claim)).await
}

/// Writes the result of an action under a separate field manager, so that status applies for the engine's state do not remove it.
async fn record(
    desk: &Desk,
    object: &Container,
    last: Option<LastAction>,
    generation: Option<i64>,
) -> Result<(), Error> {
    let known = object.status.as_ref().and_then(|status| status.observed_generation);
    let mut status = json!({});
    if let Some(last) = last {
        status["lastAction"] = json!(last);
    }
    if let Some(generation) = generation.max(known) {
        status["observedGeneration"] = json!(generation);
    }
    let applied = apply::status(&desk.cx.client, field_manager::ENGINE_ACTIONS, object, &status).await;
    gone_is_fine(applied.map(drop))
}

/// The object was deleted while the engine acted: there is no status to write.
fn gone_is_fine(done: Result<(), Error>) -> Result<(), Error> {
    match done {
        Err(error) if error.code() == Some(404) => Ok(()),
        other => other,
    }
}

/// Writes the claim, on condition that the object has not changed since it was read: another process may have claimed the request.
async fn write_claim(desk: &Desk, object: &Container, claim: &Claim) -> Result<Container, Error> {
    let text = serde_json::to_string(claim).map_err(|error| Error::because("write a claim as JSON", error))?;
    write(desk, object, &json!({ ACTING: text })).await
}

async fn write(desk: &Desk, object: &Container, annotations: &Value) -> Result<Container, Error> {
    let patch = json!({"metadata": {
        "uid": object.uid(), "resourceVersion": object.resource_version(), "annotations": annotations,
    }});
    let written = api(desk).patch(&object.name_any(), &parameters(), &Patch::Merge(&patch)).await;
    written.map_err(|error| Error::from(error).context(format!("annotate Container/{}", object.name_any())))
}

fn api(desk: &Desk) -> Api<Container> {
    Api::namespaced(desk.cx.client.clone(), &desk.namespace)
}

fn parameters() -> PatchParams {
    PatchParams { field_manager: Some(field_manager::ENGINE.to_owned()), ..PatchParams::default() }
}

/// Removes the claim, and the request with it unless a new request has replaced it.
async fn unclaim(desk: &Desk, object: &Container, claim: Option<&Claim>) -> Result<(), Error> {
    desk.cx.step("unclaim", take_off(desk, object, claim)).await
}

async fn take_off(desk: &Desk, object: &Container, claim: Option<&Claim>) -> Result<(), Error> {
    let name = object.name_any();
    let mut last = None;
    for _ in 0..ATTEMPTS {
        // Read the newest version: the claim must go even if another client has written to the object.
        let Some(fresh) = api(desk).get_opt(&name).await?.filter(|fresh| fresh.uid() == object.uid()) else {
            return Ok(());
        };
        let changes = changes(fresh.annotations(), claim);
        if changes.is_empty() {
            return Ok(());
        }
        match write(desk, &fresh, &json!(changes)).await {
            Err(error) if error.is_conflict() => last = Some(error),
            Err(error) if error.code() == Some(404) => return Ok(()),
            other => return other.map(drop),
        }
    }
    Err(last.unwrap_or_else(|| Error::message("take a request off")))
}

/// The annotations to remove.
fn changes(annotations: &BTreeMap<String, String>, claim: Option<&Claim>) -> BTreeMap<&'static str, Value> {
    let mut changes = BTreeMap::new();
    if annotations.contains_key(ACTING) {
        changes.insert(ACTING, Value::Null);
    }
    let is_answered = annotations.get(ACTION).is_some_and(|text| match claim {
        Some(claim) => claim.generation.is_none() && *text == claim.action.as_str(),
        None => rdd_types::containers::Action::parse(text).is_none(),
    });
    if is_answered {
        changes.insert(ACTION, Value::Null);
    }
    changes
}
