//! The ConfigMap in which managers register: who runs which controllers, and where they can be asked about it.

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

/// Where it is.
pub const NAMESPACE: &str = "rdd-system";
/// What it is called.
pub const NAME: &str = "rdd-controller-manager";
/// The annotation that says `true` when everything can be used.
pub const READY: &str = "rdd.rancherdesktop.io/ready";
/// The annotation that says why the controllers of the daemon do not run, while they do not.
pub const PROBLEM: &str = "rdd.rancherdesktop.io/problem";

/// How often a write is tried against others who register at the same time.
const ATTEMPTS: u32 = 16;

/// What a manager says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The port that answers bare 200 or 503.
    pub health_port: u16,
    /// The port of the metrics.
    pub metrics_port: u16,
    /// The controllers that run there; nothing at all when there are none.
    pub enabled_controllers: Option<Vec<String>>,
    /// Their endpoints below `/passthrough`.
    #[serde(default)]
    pub enabled_passthroughs: BTreeMap<String, Vec<String>>,
    /// Since when.
    pub start_time: String,
    /// Where its health is.
    pub health_endpoint: String,
    /// Where its metrics are; they need the API's authentication.
    pub metrics_endpoint: String,
    /// Where its passthroughs are; they need the API's authentication.
    pub passthrough_endpoint: String,
    /// This run of this manager, and no other. The original has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
}

/// The ConfigMap as it was at some moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Its version.
    pub resource_version: Option<String>,
    /// When the daemon started.
    pub created: Option<Timestamp>,
    /// Whether everything can be used.
    pub ready: bool,
    /// The managers, by name. What cannot be read is left out.
    pub entries: BTreeMap<String, Entry>,
}

impl Snapshot {
    pub(crate) fn of(map: &ConfigMap) -> Self {
        let entries = map.data.iter().flatten();
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

/// The ConfigMap as the server has it now. Nobody else's ConfigMaps are watched for its sake.
pub(crate) fn list(caches: &Caches) -> Cached<ConfigMap> {
    caches.only(key())
}

/// The ConfigMap, over an API.
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
    /// Of this API.
    pub fn new(client: Client) -> Self {
        Self { api: Api::namespaced(client, NAMESPACE) }
    }

    /// How it is now; nothing if it is not there.
    pub async fn read(&self) -> Result<Option<Snapshot>, Error> {
        let found = self.api.get_opt(NAME).await;
        let found = found.map_err(|error| Error::from(error).context("read who runs controllers"))?;
        Ok(found.as_ref().map(Snapshot::of))
    }

    /// The manager that lives and has this endpoint, if there is one: its name, and what it says about itself.
    pub async fn answering(&self, controller: &str, endpoint: &str) -> Result<Option<(String, Entry)>, Error> {
        let has = |entry: &Entry| {
            entry.enabled_passthroughs.get(controller).is_some_and(|all| all.iter().any(|one| one == endpoint))
        };
        for (name, entry) in self.read().await?.map(|found| found.entries).unwrap_or_default() {
            if has(&entry) && is_alive(&entry).await {
                return Ok(Some((name, entry)));
            }
        }
        Ok(None)
    }

    /// Makes it anew, with one manager in it: the time of its creation is the start of the daemon, and whoever had registered
    /// before has to do it again.
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
                // A manager that misses its registration has made a list meanwhile.
                Err(error) if has_code(&error, 409) && attempt < ATTEMPTS => attempt += 1,
                other => return other.map(drop).map_err(told),
            }
        }
    }

    /// Says that everything can be used, or why not; for that a list is made if there is none.
    pub async fn annotate(&self, ready: bool, problem: Option<&str>) -> Result<(), Error> {
        if problem.is_some() {
            self.ensure().await?;
        }
        let ready = if ready { json!("true") } else { Value::Null };
        self.patch(&json!({"metadata": {"annotations": {READY: ready, PROBLEM: problem}}})).await
    }

    /// Removes a manager, if it is still this run of it. That there is nothing to remove is fine.
    pub async fn remove(&self, name: &str, id: &str) -> Result<(), Error> {
        let Some(found) = self.read().await? else { return Ok(()) };
        if found.entries.get(name).is_none_or(|entry| entry.id != id) {
            return Ok(());
        }
        let version = found.resource_version;
        match self.patch(&json!({"metadata": {"resourceVersion": version}, "data": {name: null}})).await {
            Err(error) if error.is_conflict() => {
                // Somebody else registered at the same moment.
                self.patch(&json!({"data": {name: null}})).await
            }
            other => other,
        }
    }

    async fn patch(&self, patch: &Value) -> Result<(), Error> {
        let patched = self.api.patch(NAME, &PatchParams::apply(FIELD_MANAGER), &Patch::Merge(patch)).await;
        match patched {
            Err(error) if is_not_found(&error) => Ok(()),
            other => other.map(drop).map_err(|error| Error::from(error).context("change who runs controllers")),
        }
    }

    /// Makes an empty one if there is none.
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
