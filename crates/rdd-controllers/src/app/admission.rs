//! Defaulting and validation of Apps.

use std::{fmt, sync::Arc};

use rdd_driver::Drivers;
use rdd_instance::Platform;
use rdd_types::{
    Quantity,
    app::{AppSpec, Backend, VM},
};
use serde_json::{Map, Value, json};

use super::backend::vm_type_of;
use crate::k3s_versions::{bare, is_older};

/// The minimum memory of a virtual machine.
const MEMORY_LEAST: u64 = 2 << 30;
/// The upper limit of the default memory; a spec may ask for more.
const MEMORY_MOST_BY_DEFAULT: u64 = 6 << 30;
/// The default number of CPUs of a virtual machine.
const CPUS_BY_DEFAULT: i64 = 2;

/// What admission knows about this machine and this program.
#[derive(Debug, Clone)]
pub struct Facts {
    /// CPUs of this machine; 0 means unknown.
    pub cpus: u64,
    /// Memory of this machine; 0 means unknown.
    pub memory_bytes: u64,
    /// The value of `RDD_VM_CPUS`, unparsed.
    pub vm_cpus: Option<String>,
    /// What `backend: auto` means here.
    pub backend: Backend,
    /// The backends that work on this machine.
    pub backends: Vec<Backend>,
    /// Returns the version that a channel stands for, or `None` if it is not a channel.
    pub channel: fn(&str) -> Option<String>,
    /// Returns whether this version can be installed.
    pub supports: fn(&str) -> bool,
    /// Returns the release that a version stands for, if it can be installed.
    pub full: fn(&str) -> Option<String>,
    /// Looks up the release that last used the cluster's data.
    pub used_release: UsedRelease,
}

/// Looks up the release of Kubernetes that last used the data of a backend's cluster; `None` if there is no data.
#[derive(Clone)]
pub struct UsedRelease(Arc<dyn Fn(Backend) -> Option<String> + Send + Sync>);

impl UsedRelease {
    /// Uses this function.
    pub fn new(find: impl Fn(Backend) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }

    /// Asks the drivers of this machine. They read it from disk, without asking a guest.
    pub fn from_drivers(drivers: &Drivers) -> Self {
        let drivers = drivers.clone();
        Self::new(move |backend| {
            drivers.of_type(vm_type_of(backend, Platform::current()))?.kubernetes()?.used_release(VM)
        })
    }

    fn find(&self, backend: Backend) -> Option<String> {
        (self.0)(backend)
    }
}

impl fmt::Debug for UsedRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsedRelease").finish_non_exhaustive()
    }
}

/// Sets the fields that a new or changed App leaves open. The error is a message for the author of the App.
///
/// It edits the JSON and not the typed object, so that everything it does not set stays as the client wrote it.
pub fn fill_in(app: &mut Value, old: Option<&AppSpec>, facts: &Facts) -> Result<(), String> {
    let read: AppSpec = serde_json::from_value(app["spec"].clone()).unwrap_or_default();
    let Some(spec) = app.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
    let backend = match (read.backend, old.map(|old| old.backend)) {
        (Backend::Auto, None | Some(Backend::Auto)) => facts.backend,
        // The backend of an existing App is kept, also for clients that still write `auto`.
        (Backend::Auto, Some(chosen)) => chosen,
        (requested, _) => requested,
    };
    spec.insert("backend".to_owned(), json!(backend.to_string()));
    fill_in_kubernetes(spec, &read, facts)?;
    let machine = entry(spec, "virtualMachine");
    let requested = read.virtual_machine.unwrap_or_default();
    if requested.cpus == 0 {
        machine.insert("cpus".to_owned(), json!(default_cpus(facts)?));
    }
    if requested.memory.is_none()
        && let Some(memory) = default_memory(facts, backend)?
    {
        machine.insert("memory".to_owned(), json!(memory.as_str()));
    }
    Ok(())
}

/// The object under this key, created if it is absent or not an object.
fn entry<'a>(parent: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = parent.entry(key).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("the line above made it an object")
}

fn fill_in_kubernetes(spec: &mut Map<String, Value>, read: &AppSpec, facts: &Facts) -> Result<(), String> {
    let requested = read.kubernetes.clone().unwrap_or_default();
    // Always present, because clients send JSON patches below it.
    let kubernetes = entry(spec, "kubernetes");
    kubernetes.entry("enabled").or_insert(json!(false));
    let version = match requested.version.as_deref().unwrap_or_default() {
        "" if !requested.enabled => return Ok(()),
        "" => "stable",
        version => version,
    };
    if let Some(concrete) = (facts.channel)(version.strip_prefix('v').unwrap_or(version)) {
        kubernetes.insert("version".to_owned(), json!(concrete));
    }
    Ok(())
}

fn default_cpus(facts: &Facts) -> Result<i64, String> {
    let requested = match &facts.vm_cpus {
        None => CPUS_BY_DEFAULT,
        Some(text) => text
            .trim()
            .parse()
            .ok()
            .filter(|cpus| *cpus > 0)
            .ok_or_else(|| format!("invalid RDD_VM_CPUS value {text:?}: want a positive integer"))?,
    };
    let host_cpus = i64::try_from(facts.cpus).unwrap_or(i64::MAX);
    Ok(if host_cpus > 0 { requested.min(host_cpus) } else { requested })
}

fn default_memory(facts: &Facts, backend: Backend) -> Result<Option<Quantity>, String> {
    match facts.memory_bytes {
        0 => Ok(Some(Quantity::binary(MEMORY_LEAST))),
        // The host backend has no virtual machine, so it reserves no memory.
        host_memory if host_memory < MEMORY_LEAST && backend == Backend::Host => Ok(None),
        host_memory if host_memory < MEMORY_LEAST => {
            Err(format!("host memory {} is below the 2Gi minimum", Quantity::binary(host_memory)))
        }
        host_memory => Ok(Some(Quantity::binary((host_memory / 4).clamp(MEMORY_LEAST, MEMORY_MOST_BY_DEFAULT)))),
    }
}

/// Returns why an App is invalid, or why its change is not allowed; `None` if it is valid.
pub fn refuse(spec: &AppSpec, old: Option<&AppSpec>, facts: &Facts) -> Option<String> {
    // An App keeps its backend even under a daemon that does not support it, so that it can still be stopped and deleted.
    let is_chosen_now = old.is_none_or(|old| old.backend != spec.backend);
    let backend = || is_chosen_now.then(|| refuse_backend(spec, facts)).flatten();
    backend()
        .or_else(|| refuse_kubernetes(spec, old, facts))
        .or_else(|| refuse_cpus(spec, facts))
        .or_else(|| refuse_memory(spec, facts))
}

fn refuse_backend(spec: &AppSpec, facts: &Facts) -> Option<String> {
    if spec.backend == Backend::Auto || facts.backends.contains(&spec.backend) {
        return None;
    }
    let (known, said) = (facts.backends.iter().map(ToString::to_string).collect::<Vec<_>>(), spec.backend);
    let known = if known.is_empty() { "there is none".to_owned() } else { format!("there is {}", known.join(", ")) };
    let why = if said == Backend::Lima { " (root cannot have virtual machines)" } else { "" };
    Some(format!("spec.backend {said} is not available here{why}; {known}"))
}

fn refuse_kubernetes(spec: &AppSpec, old: Option<&AppSpec>, facts: &Facts) -> Option<String> {
    let kubernetes = spec.kubernetes.as_ref()?;
    let before = old.and_then(|old| old.kubernetes.as_ref());
    let version = kubernetes.version.as_deref().unwrap_or_default();
    if version.is_empty() && kubernetes.enabled {
        return Some("spec.kubernetes.version must not be empty when spec.kubernetes.enabled is true".to_owned());
    }
    // An unchanged version stays valid under a daemon that no longer knows it, so that the App can still be stopped and deleted.
    let is_chosen_now = before.is_none_or(|before| before.version != kubernetes.version || !before.enabled);
    if is_chosen_now && !version.is_empty() && !(facts.supports)(version) {
        return Some(format!(
            "spec.kubernetes.version {version:?} is not supported; see the bundled k3s-versions.json for valid versions"
        ));
    }
    // While Kubernetes is disabled any version is allowed; the data decides when it is enabled. And an earlier choice must not block other changes.
    before.filter(|before| before.enabled && kubernetes.enabled && before.version != kubernetes.version)?;
    // A version that was only selected, and never ran, wrote no data that an older one could not read.
    let used = facts.used_release.find(spec.backend)?;
    let full = (facts.full)(version).unwrap_or_else(|| version.to_owned());
    is_older(&full, &used).then(|| {
        let used = bare(&used);
        format!(
            "spec.kubernetes.version {version} is older than {used}, whose cluster cannot be taken back; disable Kubernetes, forget \
             the cluster with `rdd reset --kubernetes`, and enable it again with {version}"
        )
    })
}

fn refuse_cpus(spec: &AppSpec, facts: &Facts) -> Option<String> {
    let cpus = spec.virtual_machine.as_ref()?.cpus;
    if cpus < 0 {
        return Some(format!("spec.virtualMachine.cpus {cpus} must not be negative"));
    }
    let host_cpus = facts.cpus;
    (host_cpus > 0 && cpus.unsigned_abs() > host_cpus)
        .then(|| format!("spec.virtualMachine.cpus {cpus} exceeds the host CPU count of {host_cpus}"))
}

fn refuse_memory(spec: &AppSpec, facts: &Facts) -> Option<String> {
    let memory = spec.virtual_machine.as_ref()?.memory.as_ref()?;
    let bytes = match memory.bytes() {
        Ok(bytes) => bytes,
        Err(error) => return Some(format!("spec.virtualMachine.memory: {error}")),
    };
    if bytes < MEMORY_LEAST {
        return Some(format!("spec.virtualMachine.memory {} is less than the minimum of 2Gi", memory.canonical()));
    }
    let host_memory = facts.memory_bytes;
    (host_memory > 0 && bytes > host_memory).then(|| {
        let host_memory = Quantity::binary(host_memory);
        format!("spec.virtualMachine.memory {} exceeds the host memory of {host_memory}", memory.canonical())
    })
}
