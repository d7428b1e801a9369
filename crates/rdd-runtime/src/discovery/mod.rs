//! The ConfigMap in which managers register: which manager runs which controllers, and where its health, metrics and passthroughs are.

mod alive;
mod claim;
mod restore;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::claim::Claimed;
pub(crate) use self::{alive::is_alive, claim::claiming, restore::amendment};
use crate::{
    Error, Key,
    cache::{Cached, Caches},
    error::{has_code, is_not_found},
    finalizer::FIELD_MANAGER,
};

/// The namespace of the ConfigMap.
pub const NAMESPACE: &str = "rdd-system";
/// The name of the ConfigMap.
pub const NAME: &str = "rdd-controller-manager";
/// The annotation that is `true` when all controllers of the daemon are ready.
pub const READY: &str = "rdd.rancherdesktop.io/ready";
/// The annotation with the reason why the controllers of the daemon do not run.
pub const PROBLEM: &str = "rdd.rancherdesktop.io/problem";

/// How often a write is tried when other managers register at the same time.
const ATTEMPTS: u32 = 16;

/// The entry of one manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The port of the health endpoint, which answers 200 or 503 without a body.
    pub health_port: u16,
    /// The port of the metrics endpoint.
    pub metrics_port: u16,
    /// The controllers that the manager runs; `None` if there are none.
    pub enabled_controllers: Option<Vec<String>>,
    /// The endpoints of these controllers under `/passthrough`.
    #[serde(default)]
    pub enabled_passthroughs: BTreeMap<String, Vec<String>>,
    /// The time at which the manager started.
    pub start_time: String,
    /// The URL of the health endpoint.
    pub health_endpoint: String,
    /// The URL of the metrics; clients need the API's authentication.
    pub metrics_endpoint: String,
    /// The URL of the passthroughs; clients need the API's authentication.
    pub passthrough_endpoint: String,
    /// Identifies this run of the manager. Empty for managers of the original daemon.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
}

/// The content of the ConfigMap at one version.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The resourceVersion.
    pub resource_version: Option<String>,
    /// When the ConfigMap was created, which is the start of the daemon.
    pub created: Option<Timestamp>,
    /// Whether the controllers of the daemon are ready ([`READY`]).
    pub ready: bool,
    /// The entries by name of the manager. An entry that cannot be parsed is left out.
    pub entries: BTreeMap<String, Entry>,
}

impl Snapshot {
    pub(crate) fn of(map: &ConfigMap) -> Self {
        let entries = map.data.iter().flatten();
        // Any client can write to the ConfigMap, so an invalid entry must not hide the others.
        let entries = entries.filter_map(|(name, text)| Some((name.clone(), serde_json::from_str(text).ok()?)));
        Self {
            resource_version: map.resource_version(),
            created: map.creation_timestamp().map(|time| time.0),
            ready: map.annotations().get(READY).is_some_and(|value| value == "true"),
            entries: entries.collect(),
        }
    }
}

/// The ConfigMap's key.
pub(crate) fn key() -> Key {
    Key::namespaced(NAMESPACE, NAME)
}

/// The cache of the ConfigMap. It watches this object only, not the other ConfigMaps.
pub(crate) fn list(caches: &Caches) -> Cached<ConfigMap> {
    caches.only(key())
}

/// Reads and writes the ConfigMap.
#[derive(Clone)]
pub struct Registry {
    api: Api<ConfigMap>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Registry")
    }
}

fn create_parameters() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

impl Registry {
    /// A registry in the API of this client.
    pub fn new(client: Client) -> Self {
        Self { api: Api::namespaced(client, NAMESPACE) }
    }

    /// Reads the ConfigMap; `None` if it does not exist.
    pub async fn read(&self) -> Result<Option<Snapshot>, Error> {
        let found = self.api.get_opt(NAME).await;
        // An absent ConfigMap is no error: the daemon may be starting.
        let found = found.map_err(|error| Error::from(error).context("read who runs controllers"))?;
        Ok(found.as_ref().map(Snapshot::of))
    }

    /// Finds a living manager with this endpoint of this controller; returns its name and entry.
    pub async fn answering(&self, controller: &str, endpoint: &str) -> Result<Option<(String, Entry)>, Error> {
        let has = |entry: &Entry| {
            entry.enabled_passthroughs.get(controller).is_some_and(|all| all.iter().any(|one| one == endpoint))
        };
        for (name, entry) in self.read().await?.map(|found| found.entries).unwrap_or_default() {
            // The entry of a manager that died stays until the next claim, so being listed is not enough.
            if has(&entry) && is_alive(&entry).await {
                return Ok(Some((name, entry)));
            }
        }
        Ok(None)
    }

    /// Replaces the ConfigMap by a new one with this manager only. Its creation time is the start of the daemon. Managers that had
    /// registered before register again.
    pub async fn renew(&self, name: &str, entry: &Entry, ready: bool) -> Result<(), Error> {
        let told = |error: kube::Error| Error::from(error).context("make the list of who runs controllers anew");
        let map = new_map([(name.to_owned(), text_of(entry)?)].into(), ready);
        let mut attempt = 1;
        loop {
            match self.api.delete(NAME, &DeleteParams::default()).await {
                Err(error) if !is_not_found(&error) => return Err(told(error)),
                _ => {}
            }
            match self.api.create(&create_parameters(), &map).await {
                // A manager that found no registration has created the ConfigMap meanwhile.
                Err(error) if has_code(&error, 409) && attempt < ATTEMPTS => attempt += 1,
                other => return other.map(drop).map_err(told),
            }
        }
    }

    /// Sets or removes the annotations for readiness and for the problem. With a problem, creates the ConfigMap if it does not exist.
    pub async fn annotate(&self, ready: bool, problem: Option<&str>) -> Result<(), Error> {
        if problem.is_some() {
            self.ensure().await?;
        }
        let ready = if ready { json!("true") } else { Value::Null };
        self.patch(&json!({"metadata": {"annotations": {READY: ready, PROBLEM: problem}}})).await
    }

    /// Removes the entry of a manager if it is still of this run. Does nothing if there is no such entry.
    pub async fn remove(&self, name: &str, id: &str) -> Result<(), Error> {
        let Some(found) = self.read().await? else { return Ok(()) };
        // A later run under the same name has its own entry, which must stay.
        if found.entries.get(name).is_none_or(|entry| entry.id != id) {
            return Ok(());
        }
        let version = found.resource_version;
        match self.patch(&json!({"metadata": {"resourceVersion": version}, "data": {name: null}})).await {
            Err(error) if error.is_conflict() => {
                // Another manager registered at the same time. The entry is ours, so it can be removed without the version.
                self.patch(&json!({"data": {name: null}})).await
            }
            other => other,
        }
    }

    /// Applies a merge patch to the ConfigMap. Does nothing if it does not exist.
    async fn patch(&self, patch: &Value) -> Result<(), Error> {
        let patched = self.api.patch(NAME, &PatchParams::apply(FIELD_MANAGER), &Patch::Merge(patch)).await;
        match patched {
            Err(error) if is_not_found(&error) => Ok(()),
            other => other.map(drop).map_err(|error| Error::from(error).context("change who runs controllers")),
        }
    }

    /// Creates an empty ConfigMap if it does not exist.
    async fn ensure(&self) -> Result<(), Error> {
        match self.api.create(&create_parameters(), &new_map(BTreeMap::new(), false)).await {
            Err(error) if !has_code(&error, 409) => {
                Err(Error::from(error).context("make the list of who runs controllers"))
            }
            _ => Ok(()),
        }
    }
}

fn text_of(entry: &Entry) -> Result<String, Error> {
    serde_json::to_string(entry).map_err(|error| Error::because("write a registration as JSON", error))
}

fn labels() -> BTreeMap<String, String> {
    let label = |name: &str, value: &str| (format!("app.kubernetes.io/{name}"), value.to_owned());
    [label("name", "rancher-desktop-daemon"), label("component", "controller-manager")].into()
}

fn new_map(data: BTreeMap<String, String>, ready: bool) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            namespace: Some(NAMESPACE.to_owned()),
            name: Some(NAME.to_owned()),
            labels: Some(labels()),
            annotations: ready.then(|| [(READY.to_owned(), "true".to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..ConfigMap::default()
    }
}

/// An entry of a manager that runs these controllers.
#[cfg(test)]
fn mk_entry(id: &str, controllers: &[&str]) -> Entry {
    let entry = json!({
        "healthPort": 1, "metricsPort": 1, "enabledControllers": controllers, "startTime": "", "healthEndpoint": "",
        "metricsEndpoint": "", "passthroughEndpoint": "", "id": id,
    });
    serde_json::from_value(entry).expect("it is an entry")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_has_the_keys_that_clients_know() {
        let entry = Entry {
            health_port: 8083,
            metrics_port: 6443,
            enabled_controllers: None,
            enabled_passthroughs: BTreeMap::new(),
            start_time: "2026-01-01T00:00:00Z".to_owned(),
            health_endpoint: "http://localhost:8083/healthz".to_owned(),
            metrics_endpoint: "https://127.0.0.1:6443/metrics".to_owned(),
            passthrough_endpoint: "https://127.0.0.1:6443/passthrough/".to_owned(),
            id: String::new(),
        };
        let text: Value = serde_json::from_str(&text_of(&entry).unwrap()).unwrap();
        assert_eq!(
            text,
            json!({
                "healthPort": 8083, "metricsPort": 6443, "enabledControllers": null, "enabledPassthroughs": {},
                "startTime": "2026-01-01T00:00:00Z", "healthEndpoint": "http://localhost:8083/healthz",
                "metricsEndpoint": "https://127.0.0.1:6443/metrics",
                "passthroughEndpoint": "https://127.0.0.1:6443/passthrough/",
            })
        );
    }
}
