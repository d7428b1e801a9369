//! What an App may say, and what is filled in where it says nothing.

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

/// The least memory that a virtual machine needs.
const MEMORY_LEAST: u64 = 2 << 30;
/// The most memory that it is given unasked.
const MEMORY_MOST_BY_DEFAULT: u64 = 6 << 30;
/// The CPUs that it is given unasked.
const CPUS_BY_DEFAULT: i64 = 2;

/// What admission knows of this machine and this program.
#[derive(Debug, Clone)]
pub struct Facts {
    /// CPUs of this machine; 0 if nobody can tell.
    pub cpus: u64,
    /// Memory of this machine; 0 if nobody can tell.
    pub memory_bytes: u64,
    /// `RDD_VM_CPUS`, as it is set.
    pub vm_cpus: Option<String>,
    /// What `backend: auto` means here.
    pub backend: Backend,
    /// The backends that can be carried out here.
    pub backends: Vec<Backend>,
    /// The version that a channel stands for, if it is one.
    pub channel: fn(&str) -> Option<String>,
    /// Whether this version can be installed.
    pub supports: fn(&str) -> bool,
    /// The release that a version stands for, if it can be installed.
    pub full: fn(&str) -> Option<String>,
    /// The release that has used the data of the cluster.
    pub used_release: UsedRelease,
}

/// Tells the release that has used the data of a backend's cluster; `None` if there is no data.
#[derive(Clone)]
pub struct UsedRelease(Arc<dyn Fn(Backend) -> Option<String> + Send + Sync>);

impl UsedRelease {
    /// Asks this function.
    pub fn new(find: impl Fn(Backend) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }

    /// Asks the drivers of this machine, which know it without asking a guest.
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

/// Fills in what a new or changed App leaves open; the error is for its author.
///
/// Works on the JSON, so that what it does not touch stays as it was written.
pub fn fill_in(app: &mut Value, old: Option<&AppSpec>, facts: &Facts) -> Result<(), String> {
    let read: AppSpec = serde_json::from_value(app["spec"].clone()).unwrap_or_default();
    let Some(spec) = app.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
    let backend = match (read.backend, old.map(|old| old.backend)) {
        (Backend::Auto, None | Some(Backend::Auto)) => facts.backend,
        // What was chosen stays chosen, also for those who still write `auto`.
        (Backend::Auto, Some(chosen)) => chosen,
        (said, _) => said,
    };
    spec.insert("backend".to_owned(), json!(backend.to_string()));
    fill_in_kubernetes(spec, &read, facts)?;
    let machine = entry(spec, "virtualMachine");
    let said = read.virtual_machine.unwrap_or_default();
    if said.cpus == 0 {
        machine.insert("cpus".to_owned(), json!(default_cpus(facts)?));
    }
    if said.memory.is_none()
        && let Some(memory) = default_memory(facts, backend)?
    {
        machine.insert("memory".to_owned(), json!(memory.as_str()));
    }
    Ok(())
}

fn entry<'a>(of: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = of.entry(key).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was made an object in the line above")
}

fn fill_in_kubernetes(spec: &mut Map<String, Value>, read: &AppSpec, facts: &Facts) -> Result<(), String> {
    let said = read.kubernetes.clone().unwrap_or_default();
    // Clients patch below it, so it is always there.
    let kubernetes = entry(spec, "kubernetes");
    kubernetes.entry("enabled").or_insert(json!(false));
    let version = match said.version.as_deref().unwrap_or_default() {
        "" if !said.enabled => return Ok(()),
        "" => "stable",
        version => version,
    };
    if let Some(concrete) = (facts.channel)(version.strip_prefix('v').unwrap_or(version)) {
        kubernetes.insert("version".to_owned(), json!(concrete));
    }
    Ok(())
}

fn default_cpus(facts: &Facts) -> Result<i64, String> {
    let wish = match &facts.vm_cpus {
        None => CPUS_BY_DEFAULT,
        Some(text) => text
            .trim()
            .parse()
            .ok()
            .filter(|cpus| *cpus > 0)
            .ok_or_else(|| format!("invalid RDD_VM_CPUS value {text:?}: want a positive integer"))?,
    };
    let there_are = i64::try_from(facts.cpus).unwrap_or(i64::MAX);
    Ok(if there_are > 0 { wish.min(there_are) } else { wish })
}

fn default_memory(facts: &Facts, backend: Backend) -> Result<Option<Quantity>, String> {
    match facts.memory_bytes {
        0 => Ok(Some(Quantity::binary(MEMORY_LEAST))),
        // Nothing is set aside where there is no virtual machine.
        there_is if there_is < MEMORY_LEAST && backend == Backend::Host => Ok(None),
        there_is if there_is < MEMORY_LEAST => {
            Err(format!("host memory {} is below the 2Gi minimum", Quantity::binary(there_is)))
        }
        there_is => Ok(Some(Quantity::binary((there_is / 4).clamp(MEMORY_LEAST, MEMORY_MOST_BY_DEFAULT)))),
    }
}

/// Why this App cannot be, or cannot become what it is to be, if so.
pub fn refuse(spec: &AppSpec, old: Option<&AppSpec>, facts: &Facts) -> Option<String> {
    // An App that has its backend already keeps it, also under a daemon that could not carry it out: it can still be stopped and deleted.
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
    // One that is there already stays, also under a daemon that no longer knows it: the App can still be stopped and deleted.
    let is_chosen_now = before.is_none_or(|before| before.version != kubernetes.version || !before.enabled);
    if is_chosen_now && !version.is_empty() && !(facts.supports)(version) {
        return Some(format!(
            "spec.kubernetes.version {version:?} is not supported; see the bundled k3s-versions.json for valid versions"
        ));
    }
    // Disabled, any may be chosen: what the data allows is decided when it is enabled. And what was chosen then stands in the way of nothing else.
    before.filter(|before| before.enabled && kubernetes.enabled && before.version != kubernetes.version)?;
    // What was only chosen before has made nothing that an older one could not read.
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
    let there_are = facts.cpus;
    (there_are > 0 && cpus.unsigned_abs() > there_are)
        .then(|| format!("spec.virtualMachine.cpus {cpus} exceeds the host CPU count of {there_are}"))
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
    let there_is = facts.memory_bytes;
    (there_is > 0 && bytes > there_is).then(|| {
        let there_is = Quantity::binary(there_is);
        format!("spec.virtualMachine.memory {} exceeds the host memory of {there_is}", memory.canonical())
    })
}
