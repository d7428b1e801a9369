//! Executes the steps of a LimaVM. Each is safe to repeat.

use std::sync::Arc;

use json_patch::{Patch as JsonPatch, PatchOperation, RemoveOperation, TestOperation, jsonptr::PointerBuf};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use rdd_runtime::{Context, Error, Key, has_code, sweep};
use rdd_types::{
    lima::LimaVM,
    names::{annotation, field_manager},
};

use super::{
    machine::{Machines, Order},
    observe::basis,
    observed::{Job, Observed, Template},
    plan::Step,
};

pub(super) async fn act(machines: &Machines, step: &Step, seen: &Observed, cx: &Context) -> Result<(), Error> {
    // Long operations run in the background; their end enqueues the LimaVM.
    let begin = |job| {
        machines.begin(order(job, seen, cx));
        Ok(())
    };
    match step {
        Step::ClaimTemplate => claim_template(seen, cx).await,
        Step::WriteStatus { status, changed } => {
            for (condition, message) in changed {
                cx.events.condition(&*seen.vm, condition, message);
            }
            cx.apply_status(&*seen.vm, status).await.map(drop)
        }
        Step::ClearRestartRequest => clear_requests(seen, cx).await,
        Step::ApplyTemplate => apply_template(machines, seen).await,
        Step::Create => begin(Job::Create),
        Step::Adopt => begin(Job::Adopt),
        Step::Start => begin(Job::Start),
        Step::Stop => begin(Job::Stop),
        Step::Delete => begin(Job::Delete),
        Step::Sweep => {
            sweep::owned(&cx.client, &seen.vm.metadata, &seen.vm.namespace().unwrap_or_default()).await.map(drop)
        }
        Step::Release => {
            cx.release(&*seen.vm).await?;
            // Only after the finalizer is gone: until then, the state may be needed again.
            machines.forget(&Key::of(&*seen.vm));
            Ok(())
        }
    }
}

fn order(job: Job, seen: &Observed, cx: &Context) -> Order {
    let trigger = cx.trigger();
    let template = match &seen.template {
        Template::Present { text: Some(text), .. } => text.clone(),
        _ => String::new(),
    };
    Order {
        key: Key::of(&*seen.vm),
        job,
        basis: basis(&seen.vm, &seen.template),
        template,
        wake: Arc::new(move || trigger.wake()),
    }
}

async fn apply_template(machines: &Machines, seen: &Observed) -> Result<(), Error> {
    let Template::Present { text: Some(text), .. } = &seen.template else { return Ok(()) };
    let written = machines.apply_template(seen.name(), text).await;
    written.map_err(|error| Error::because("write the template for the next start", error))
}

/// Makes the LimaVM the owner of its template copy. Admission cannot do this, because the object has no UID yet.
async fn claim_template(seen: &Observed, cx: &Context) -> Result<(), Error> {
    let name = LimaVM::template_config_map(seen.name());
    let maps: Api<ConfigMap> = Api::namespaced(cx.client.clone(), &seen.vm.namespace().unwrap_or_default());
    let Some(mut map) = maps.get_opt(&name).await? else { return Ok(()) };
    let Some(reference) = Context::owner_reference(&*seen.vm) else { return Ok(()) };
    let owners = map.metadata.owner_references.get_or_insert_default();
    if owners.iter().any(|owner| owner.uid == reference.uid) {
        return Ok(());
    }
    // An earlier LimaVM of the same name is gone, and so is its ownership.
    owners.retain(|owner| !(owner.kind == reference.kind && owner.name == reference.name));
    if let Some(other) = owners.iter().find(|owner| owner.controller == Some(true)) {
        return Err(Error::message(format!("ConfigMap {name:?} belongs to {} {:?}", other.kind, other.name)));
    }
    owners.push(reference);
    // The replace carries the version that was read: a concurrent change causes a conflict and another reconcile.
    maps.replace(
        &name,
        &PostParams { field_manager: Some(field_manager::RDD.to_owned()), ..PostParams::default() },
        &map,
    )
    .await?;
    Ok(())
}

/// Removes the requests that were observed; newer ones stay. A reset removes the restart request too, because nothing is left to restart.
async fn clear_requests(seen: &Observed, cx: &Context) -> Result<(), Error> {
    let requests =
        [(annotation::RESTART_REQUESTED, seen.restart_request()), (annotation::RESET_REQUESTED, seen.reset_request())];
    for (name, request) in requests {
        if let Some(request) = request {
            clear_request(seen, cx, name, request).await?;
        }
    }
    Ok(())
}

async fn clear_request(seen: &Observed, cx: &Context, name: &str, request: &str) -> Result<(), Error> {
    let vms: Api<LimaVM> = Api::namespaced(cx.client.clone(), &seen.vm.namespace().unwrap_or_default());
    let path = PointerBuf::from_tokens(["metadata", "annotations", name]);
    let patch: Patch<()> = Patch::Json(JsonPatch(vec![
        PatchOperation::Test(TestOperation { path: path.clone(), value: request.into() }),
        PatchOperation::Remove(RemoveOperation { path }),
    ]));
    let parameters = PatchParams { field_manager: Some(field_manager::RDD.to_owned()), ..PatchParams::default() };
    match vms.patch(seen.name(), &parameters, &patch).await {
        Ok(_) => Ok(()),
        // The request has changed or the object is gone: the next reconcile sees that.
        Err(error) if has_code(&error, 422) || has_code(&error, 404) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
