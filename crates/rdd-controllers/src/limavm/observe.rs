//! Observes everything that the plan of a LimaVM depends on.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};
use rdd_driver::template::with_params;
use rdd_runtime::{Context, Error, Key, conditions};
use rdd_stdx::chain::Chain;
use rdd_types::lima::{LimaVM, TEMPLATE_KEY};

use super::{
    machine::{Basis, Machines},
    observed::{Disk, Job, Machine, Observed, Template},
};

/// Observes the current state. The object and its template are read from the server: a stale object would give a wrong restart count, and
/// a stale `running` with a new template could start a VM that was just stopped.
pub(super) async fn observe(machines: &Machines, object: &Arc<LimaVM>, cx: &Context) -> Result<Observed, Error> {
    let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
    let now = conditions::now(&*cx.clock);
    let vms: Api<LimaVM> = Api::namespaced(cx.client.clone(), &namespace);
    let Some(vm) = vms.get_opt(&name).await?.filter(|vm| vm.uid() == object.uid()) else {
        let (vm, template) = (Arc::clone(object), Template::Absent);
        let (disk, machine) = (Disk::NotLooked, Machine::Idle);
        return Ok(Observed { vm, is_gone: true, template, disk, machine, progress: None, warning: None, now });
    };
    let maps: Api<ConfigMap> = Api::namespaced(cx.client.clone(), &namespace);
    let map = maps.get_opt(&LimaVM::template_config_map(&name)).await?;
    let template = map.map_or(Template::Absent, |map| template_of(&map, &vm));
    let machine = machines.known(&Key::of(&vm), &basis(&vm, &template));
    // A job is changing the VM on disk, so an inspection could see an intermediate state.
    let disk = match machine {
        Machine::Busy(_) => Disk::NotLooked,
        _ => machines.look(&name).await.unwrap_or_else(|error| Disk::Unreadable { why: Chain(&error).to_string() }),
    };
    let progress = matches!(machine, Machine::Busy(Job::Create)).then(|| machines.progress(&name)).flatten();
    let warning = machines.warning(&name);
    Ok(Observed { vm: Arc::new(vm), is_gone: false, template, disk, machine, progress, warning, now })
}

fn template_of(map: &ConfigMap, vm: &LimaVM) -> Template {
    let text = map.data.as_ref().and_then(|data| data.get(TEMPLATE_KEY)).filter(|text| !text.trim().is_empty());
    let owners = map.metadata.owner_references.iter().flatten();
    let ours = owners.into_iter().any(|owner| Some(&owner.uid) == vm.metadata.uid.as_ref());
    let resource_version = map.metadata.resource_version.clone().unwrap_or_default();
    let text = text.map(|text| match &vm.spec.params {
        Some(params) => with_params(text, params),
        None => text.clone(),
    });
    Template::Present { text, resource_version, ours }
}

/// What an attempt applies to: a new generation or a new text is a new basis.
pub(super) fn basis(vm: &LimaVM, template: &Template) -> Basis {
    let template = match template {
        Template::Present { text: Some(text), .. } => text.clone(),
        _ => String::new(),
    };
    Basis { generation: vm.metadata.generation.unwrap_or_default(), template }
}
