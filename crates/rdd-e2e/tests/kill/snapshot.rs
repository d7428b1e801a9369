//! Snapshots of all objects of an API, without values that differ between runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::LazyLock,
};

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::life::Api;

/// Resources that are left out: records of the past, and records of who is present.
const PASSING: &[&str] = &["events", "leases"];
/// Fields that are left out everywhere: counters, times and addresses.
const COUNTED: &[&str] = &[
    "caBundle",
    "creationTimestamp",
    "generation",
    "kubernetesPort",
    "managedFields",
    "observedTemplateResourceVersion",
    "port",
    "resourceVersion",
    "restartCount",
    "targetPort",
    "uid",
];

static TIME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").unwrap());
static ADDRESS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(127\.0\.0\.1|localhost):\d+|KUBERNETES_PORT: "?\d+"#).unwrap());

/// The API paths of all resources.
pub(crate) struct Places(Vec<String>);

/// All objects, by list path, namespace and name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Snapshot(BTreeMap<String, Value>);

impl Places {
    /// Discovers what this API serves.
    pub(crate) fn of(api: &Api) -> Result<Self, String> {
        let groups = api.get("/apis")?;
        let groups = groups["groups"].as_array().into_iter().flatten();
        let versions = groups.filter_map(|group| group["preferredVersion"]["groupVersion"].as_str());
        let roots: Vec<String> = versions.map(|version| format!("/apis/{version}")).collect();
        let mut paths = Vec::new();
        for root in std::iter::once("/api/v1".to_owned()).chain(roots) {
            let served = api.get(&root)?;
            for resource in served["resources"].as_array().into_iter().flatten() {
                let name = resource["name"].as_str().unwrap_or_default();
                let can_list = resource["verbs"].as_array().is_some_and(|verbs| verbs.contains(&json!("list")));
                if can_list && !PASSING.contains(&name) {
                    paths.push(format!("{root}/{name}"));
                }
            }
        }
        Ok(Self(paths))
    }

    /// Takes a snapshot, in an instance with this home and name.
    pub(crate) fn look(&self, api: &Api, home: &Path, instance: &str) -> Result<Snapshot, String> {
        let mut found = Vec::new();
        for path in &self.0 {
            let mut list = api.get(path)?;
            let items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
            found.extend(items.into_iter().map(|item| (path, item)));
        }
        let uids: BTreeSet<String> =
            found.iter().filter_map(|(_, item)| item["metadata"]["uid"].as_str()).map(str::to_owned).collect();
        let plain = Plain { uids: &uids, home: &home.to_string_lossy(), instance };
        let objects = found.into_iter().map(|(path, item)| {
            let metadata = &item["metadata"];
            let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
            (format!("{path} {}/{}", text("namespace"), text("name")), plain.object(item))
        });
        Ok(Snapshot(objects.collect()))
    }
}

impl Snapshot {
    /// The differences to another snapshot, as text.
    pub(crate) fn difference(&self, other: &Self) -> String {
        let keys: BTreeSet<_> = self.0.keys().chain(other.0.keys()).collect();
        let told = keys.into_iter().filter_map(|key| match (self.0.get(key), other.0.get(key)) {
            (Some(_), None) => Some(format!("{key} is missing")),
            (None, Some(extra)) => Some(format!("{key} is too much: {extra}")),
            (Some(wanted), Some(found)) if wanted != found => Some(format!("{key} is {found}, and not {wanted}")),
            _ => None,
        });
        told.collect::<Vec<_>>().join("\n")
    }
}

/// Removes values that differ between runs.
struct Plain<'a> {
    uids: &'a BTreeSet<String>,
    home: &'a str,
    instance: &'a str,
}

impl Plain<'_> {
    fn object(&self, mut object: Value) -> Value {
        let generation = object["metadata"]["generation"].clone();
        let is_list_of_managers = object["metadata"]["name"] == "rdd-controller-manager";
        if let Some(entries) = object["data"].as_object_mut().filter(|_| is_list_of_managers) {
            // Managers have their own ports and times.
            entries.values_mut().for_each(|entry| *entry = Value::Null);
        }
        for owner in object["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
            let lives = owner["uid"].as_str().is_some_and(|uid| self.uids.contains(uid));
            owner["lives"] = lives.into();
        }
        if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
            conditions.iter_mut().for_each(|condition| *condition = plain_condition(condition, &generation));
            conditions.sort_by_key(|condition| condition["type"].as_str().unwrap_or_default().to_owned());
        }
        self.value(object)
    }

    fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                let kept = fields.into_iter().filter(|(name, _)| !COUNTED.contains(&name.as_str()));
                Value::Object(kept.map(|(name, value)| (name, self.value(value))).collect::<Map<_, _>>())
            }
            other => other,
        }
    }

    fn text(&self, text: &str) -> String {
        if text.contains("BEGIN CERTIFICATE") {
            return "a certificate".to_owned();
        }
        let text = text.replace(self.home, "HOME").replace(self.instance, "INSTANCE");
        ADDRESS.replace_all(&TIME.replace_all(&text, "TIME"), "ADDRESS").into_owned()
    }
}

/// A condition without its reason, message and time, which depend on the path taken: only its status, and whether it is current.
fn plain_condition(condition: &Value, generation: &Value) -> Value {
    let observed = &condition["observedGeneration"];
    let is_current = observed.is_null() || observed == generation;
    json!({"type": condition["type"], "status": condition["status"], "isCurrent": is_current})
}
