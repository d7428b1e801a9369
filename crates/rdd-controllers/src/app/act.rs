//! Carries out the steps of the App. Each is idempotent.

use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use rdd_runtime::{Context, Error, Kind, finalizer, has_code, is_not_found, sweep};
use rdd_types::{
    app::{App, VM},
    lima::{LimaVM, LimaVMSpec, TEMPLATE_KEY, TemplateReference},
    names::{field_manager, finalizer::OWNED_BY_APP},
};
use serde_json::{Value, json};

use super::{
    observe::owns,
    plan::{Observed, Step},
};

pub(super) async fn act(step: &Step, seen: &Observed, cx: &Context) -> Result<(), Error> {
    match step {
        Step::CreateNamespace => create_namespace(seen, cx).await,
        Step::ApplyInput => cx.apply(&input(seen)).await.map(drop),
        Step::CreateVM => create_vm(seen, cx).await,
        Step::DeleteInput => delete::<ConfigMap>(&maps(seen, cx), VM, None).await,
        Step::StopVM => tell_vm(seen, cx, false).await,
        Step::StartVM => tell_vm(seen, cx, true).await,
        Step::PatchTemplate => patch_template(seen, cx).await,
        Step::WriteStatus(status) => cx.apply_status(&*seen.app, status).await.map(drop),
        Step::ReleaseVM => match &seen.vm {
            Some(vm) => finalizer::release(&cx.client, &**vm, OWNED_BY_APP).await.map(drop),
            None => Ok(()),
        },
        Step::DeleteVM => match &seen.vm {
            Some(vm) => delete(&vms(seen, cx), VM, vm.uid()).await,
            None => Ok(()),
        },
        Step::Sweep => sweep::owned(&cx.client, &seen.app.metadata, &seen.app.spec.namespace).await.map(drop),
        Step::DeleteNamespace => {
            delete::<Namespace>(&Api::all(cx.client.clone()), &seen.app.spec.namespace, None).await
        }
        Step::Release => cx.release(&*seen.app).await,
    }
}

fn maps(seen: &Observed, cx: &Context) -> Api<ConfigMap> {
    Api::namespaced(cx.client.clone(), &seen.app.spec.namespace)
}

fn vms(seen: &Observed, cx: &Context) -> Api<LimaVM> {
    Api::namespaced(cx.client.clone(), &seen.app.spec.namespace)
}

fn parameters() -> PatchParams {
    PatchParams { field_manager: Some(field_manager::RDD.to_owned()), ..PatchParams::default() }
}

fn owned(app: &App, name: &str, namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        owner_references: Context::owner_reference(app).map(|reference| vec![reference]),
        ..ObjectMeta::default()
    }
}

/// Creates the App's namespace. One that exists is fine: the next observation decides whose it is.
async fn create_namespace(seen: &Observed, cx: &Context) -> Result<(), Error> {
    let namespaces: Api<Namespace> = Api::all(cx.client.clone());
    let namespace = Namespace { metadata: owned(&seen.app, &seen.app.spec.namespace, None), ..Namespace::default() };
    match namespaces.create(&PostParams::default(), &namespace).await {
        Ok(_) => Ok(()),
        Err(error) if has_code(&error, 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn input(seen: &Observed) -> ConfigMap {
    ConfigMap {
        metadata: owned(&seen.app, VM, Some(&seen.app.spec.namespace)),
        data: Some([(TEMPLATE_KEY.to_owned(), seen.rendered.clone())].into()),
        ..ConfigMap::default()
    }
}

/// Creates the LimaVM. A 409 is a success if the App owns the existing object: an earlier attempt created it before the process died.
async fn create_vm(seen: &Observed, cx: &Context) -> Result<(), Error> {
    let namespace = seen.app.spec.namespace.as_str();
    let reference = TemplateReference { name: VM.to_owned(), namespace: Some(namespace.to_owned()) };
    let mut vm = LimaVM::new(VM, LimaVMSpec { running: seen.app.spec.running, params: None, template_ref: reference });
    vm.metadata =
        ObjectMeta { finalizers: Some(vec![OWNED_BY_APP.to_owned()]), ..owned(&seen.app, VM, Some(namespace)) };
    let vms = vms(seen, cx);
    match vms.create(&PostParams::default(), &vm).await {
        Ok(_) => Ok(()),
        Err(error) if has_code(&error, 409) => match vms.get_opt(VM).await? {
            Some(known) if owns(&seen.app, &known) => Ok(()),
            _ => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// Sets `spec.running` of the LimaVM. The UID in the patch keeps it from changing a namesake that replaced the observed object.
async fn tell_vm(seen: &Observed, cx: &Context, running: bool) -> Result<(), Error> {
    let uid = seen.vm.as_ref().and_then(|vm| vm.uid());
    merge(&vms(seen, cx), VM, &json!({"metadata": {"uid": uid}, "spec": {"running": running}})).await
}

async fn patch_template(seen: &Observed, cx: &Context) -> Result<(), Error> {
    let data = json!({ TEMPLATE_KEY: seen.rendered });
    merge(&maps(seen, cx), &LimaVM::template_config_map(VM), &json!({ "data": data })).await
}

async fn merge<K: Kind>(api: &Api<K>, name: &str, patch: &Value) -> Result<(), Error> {
    api.patch(name, &parameters(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Deletes an object; with a UID only that very object. An object that does not exist is a success.
async fn delete<K: Kind + Resource>(api: &Api<K>, name: &str, uid: Option<String>) -> Result<(), Error> {
    let preconditions = uid.map(|uid| Preconditions { uid: Some(uid), ..Preconditions::default() });
    match api.delete(name, &DeleteParams { preconditions, ..DeleteParams::default() }).await {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
