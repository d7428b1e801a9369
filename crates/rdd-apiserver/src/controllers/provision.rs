//! The provisioner: creates the first namespaces, the `kubernetes` Service, and the default objects of every namespace.

use std::sync::Arc;

use rdd_meta::{Reason, Status, metadata::Metadata};
use serde_json::{Value, json};

use super::{Controller, core, queue::Queue};
use crate::{
    rest::local::{Local, Named},
    state::{Object, Resource},
};

const CA_NAME: &str = "kube-root-ca.crt";
const CA_DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
    such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes \
    clusters.";

/// What the server puts into its namespaces.
#[derive(Clone)]
pub struct Endowment {
    /// The namespaces that exist from the start.
    pub namespaces: Vec<String>,
    /// Returns the current certificates by which clients verify the server, as PEM.
    pub ca_bundle: Arc<dyn Fn() -> String + Send + Sync>,
    /// The port of the server on loopback, for the `kubernetes` Service.
    pub port: u16,
}

impl std::fmt::Debug for Endowment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endowment")
            .field("namespaces", &self.namespaces)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// Creates the first namespaces and the `kubernetes` Service, and updates the Service's ports. The server calls it before it listens.
///
/// # Errors
/// When a read or write fails for another reason than that the object already exists.
pub async fn bootstrap(local: &Local, endowment: &Endowment) -> Result<(), Status> {
    for name in &endowment.namespaces {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        ensure(local, named("namespaces", None, name), namespace).await?;
    }
    let ports = json!([{"name": "https", "protocol": "TCP", "port": endowment.port, "targetPort": endowment.port}]);
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP", "clusterIP": "127.0.0.1", "clusterIPs": ["127.0.0.1"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "ports": ports,
        },
    });
    let at = named("services", Some("default"), "kubernetes");
    ensure(local, at, service).await?;
    if local.get(at)?["spec"]["ports"] != ports {
        local.merge(at, json!({"spec": {"ports": ports}})).await?;
    }
    Ok(())
}

async fn ensure(local: &Local, at: Named<'_>, object: Value) -> Result<(), Status> {
    match local.get(at) {
        Ok(_) => Ok(()),
        Err(status) if status.reason == Some(Reason::NotFound) => created(local.create(at, object).await),
        Err(status) => Err(status),
    }
}

/// Turns outcomes that need no further work into success: another writer created the object first, or the namespace is gone or
/// terminating.
fn created(outcome: Result<Value, Status>) -> Result<(), Status> {
    let is_going = |status: &Status| {
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        causes.any(|cause| cause.reason == "NamespaceTerminating")
    };
    match outcome {
        Err(status) if matches!(status.reason, Some(Reason::AlreadyExists | Reason::NotFound)) => Ok(()),
        Err(status) if is_going(&status) => Ok(()),
        other => other.map(drop),
    }
}

fn named<'a>(resource: &'a str, namespace: Option<&'a str>, name: &'a str) -> Named<'a> {
    Named { group: "", resource, namespace, name, subresource: "" }
}

/// The controller that creates the default ServiceAccount and the CA ConfigMap in each namespace, and restores them when they are
/// changed or deleted.
#[derive(Debug)]
pub(super) struct Provision {
    queue: Arc<Queue<String>>,
    local: Local,
    endowment: Endowment,
    namespaces: Resource,
    accounts: Resource,
    maps: Resource,
}

impl Provision {
    pub(super) fn new(local: Local, endowment: Endowment) -> Self {
        let [namespaces, accounts, maps] = ["namespaces", "serviceaccounts", "configmaps"].map(core);
        Self { queue: Arc::default(), local, endowment, namespaces, accounts, maps }
    }

    async fn provide(&self, namespace: &str) -> Result<(), Status> {
        let found = match self.local.get(named("namespaces", None, namespace)) {
            Err(status) if status.reason == Some(Reason::NotFound) => return Ok(()),
            other => other?,
        };
        if Metadata::of(&found).is_terminating() {
            return Ok(());
        }
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace},
        });
        ensure(&self.local, named("serviceaccounts", Some(namespace), "default"), account).await?;
        let data = json!({"ca.crt": (self.endowment.ca_bundle)()});
        let at = named("configmaps", Some(namespace), CA_NAME);
        let bundle = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": CA_NAME, "namespace": namespace, "annotations": {"kubernetes.io/description": CA_DESCRIPTION},
            },
            "data": data,
        });
        match self.local.get(at) {
            Ok(found) if found["data"] == data => Ok(()),
            Ok(mut found) => {
                found["data"] = data;
                created(self.local.update(at, found).await)
            }
            Err(_) => created(self.local.create(at, bundle).await),
        }
    }
}

impl Controller for Provision {
    type Item = String;
    const NAME: &'static str = "provision";

    fn queue(&self) -> &Arc<Queue<String>> {
        &self.queue
    }

    fn start(&self) {
        for object in self.local.api().state.now(&self.namespaces.all()) {
            self.queue.add(object.name().to_owned());
        }
    }

    fn changed(&self, previous: Option<&Object>, current: Option<&Object>) {
        let Some(object) = current.or(previous) else { return };
        // Writes by the controller itself arrive here too; `provide` finds nothing to do then.
        let key = object.key();
        let concerned = match (object.namespace(), object.name()) {
            (None, name) => Some(name).filter(|_| current.is_some() && key.is_of(&self.namespaces)),
            (Some(namespace), "default") => Some(namespace).filter(|_| current.is_none() && key.is_of(&self.accounts)),
            (Some(namespace), CA_NAME) => Some(namespace).filter(|_| key.is_of(&self.maps)),
            _ => None,
        };
        concerned.into_iter().for_each(|namespace| self.queue.add(namespace.to_owned()));
    }

    async fn handle(&self, item: &String) -> Result<(), Status> {
        self.provide(item).await
    }
}
