//! Observes everything that the plan of the App depends on.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace as NamespaceObject};
use kube::{Api, Client, Resource, ResourceExt};
use rdd_runtime::{Context, Error, conditions};
use rdd_types::{
    app::{App, VM},
    lima::{LimaVM, TEMPLATE_KEY},
    names::{DISCOVERY_CONFIG_MAP, SYSTEM_NAMESPACE},
};
use serde_json::Value;

use super::{
    Setup,
    plan::{Copy, Input, Namespace, Observed, Peers},
};

/// Reads the current state from the server and not from the caches: a decision on stale objects would be undone by the next reconcile.
pub(super) async fn observe(setup: &Setup, object: &Arc<App>, cx: &Context) -> Result<Observed, Error> {
    let client = &cx.client;
    let apps: Api<App> = Api::all(client.clone());
    let now = conditions::now(&*cx.clock);
    let app = apps.get_opt(&object.name_any()).await?.filter(|app| app.uid() == object.uid());
    let (app, is_gone) = app.map_or_else(|| (Arc::clone(object), true), |app| (Arc::new(app), false));
    let namespace = app.spec.namespace.as_str();
    let vms: Api<LimaVM> = Api::namespaced(client.clone(), namespace);
    let vm = vms.get_opt(VM).await?.map(Arc::new);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let input = match maps.get_opt(VM).await? {
        None => Input::Absent,
        Some(map) if owns(&app, &map) => Input::Ours,
        Some(_) => Input::Foreign,
    };
    let template = match vm.as_deref().and_then(|vm| vm.status.as_ref()?.template_config_map.as_deref()) {
        Some(name) => maps.get_opt(name).await?.map(copy_of),
        None => None,
    };
    Ok(Observed {
        namespace: observe_namespace(client, &app).await?,
        rendered: setup.render(&app.spec, kubernetes_port(&app)),
        peers: observe_peers(client).await,
        app,
        is_gone,
        vm,
        input,
        template,
        now,
    })
}

/// The port that the Kubernetes controller has bound, from the App's status.
fn kubernetes_port(app: &App) -> Option<u16> {
    let port = app.status.as_ref().map(|status| status.kubernetes_port)?;
    u16::try_from(port).ok().filter(|port| *port != 0)
}

/// Whether the App owns the object, by UID in its owner references. A name alone proves nothing.
pub(super) fn owns<K: Resource>(app: &App, object: &K) -> bool {
    let ours = app.metadata.uid.as_deref();
    ours.is_some() && object.owner_references().iter().any(|owner| Some(owner.uid.as_str()) == ours)
}

fn copy_of(map: ConfigMap) -> Copy {
    let resource_version = map.metadata.resource_version.clone().unwrap_or_default();
    let text = map.data.and_then(|mut data| data.remove(TEMPLATE_KEY)).unwrap_or_default();
    Copy { text, resource_version }
}

async fn observe_namespace(client: &Client, app: &App) -> Result<Namespace, Error> {
    let namespaces: Api<NamespaceObject> = Api::all(client.clone());
    Ok(match namespaces.get_opt(&app.spec.namespace).await? {
        None => Namespace::Absent,
        Some(found) => {
            let ours = owns(app, &found);
            let is_going = found.metadata.deletion_timestamp.is_some();
            if is_going { Namespace::Terminating { ours } } else { Namespace::Present { ours } }
        }
    })
}

/// Finds out which other controllers are enabled. If that fails, assumes that all are: a premature `Settled` is worse than a late one.
async fn observe_peers(client: &Client) -> Peers {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    match maps.get_opt(DISCOVERY_CONFIG_MAP).await {
        Ok(found) => peers(&found.and_then(|map| map.data).unwrap_or_default()),
        Err(error) => {
            tracing::debug!(%error, "could not read which controllers run");
            Peers { engine: true, kubernetes: true }
        }
    }
}

/// Which controllers are enabled in any of the registered managers. Ignores entries that it cannot parse.
fn peers(managers: &BTreeMap<String, String>) -> Peers {
    let mut found = Peers { engine: false, kubernetes: false };
    for manager in managers.values() {
        let manager: Value = serde_json::from_str(manager).unwrap_or_default();
        let names = manager["enabledControllers"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for name in names {
            found.engine |= name == "engine";
            found.kubernetes |= name == "kubernetes";
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_found_in_any_manager_and_an_odd_entry_hides_nobody() {
        let managers =
            |list: &[(&str, &str)]| list.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let none = Peers { engine: false, kubernetes: false };
        assert_eq!(peers(&managers(&[])), none);
        assert_eq!(peers(&managers(&[("embedded", r#"{"enabledControllers": null}"#)])), none);
        let two = [
            ("embedded", r#"{"enabledControllers": ["app", "kubernetes"]}"#),
            ("odd", "{"),
            ("containers", r#"{"enabledControllers": ["engine"]}"#),
        ];
        assert_eq!(peers(&managers(&two)), Peers { engine: true, kubernetes: true });
    }
}
