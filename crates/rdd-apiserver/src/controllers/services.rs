//! APIServices: keeps one object per served group and version, as the aggregation layer of Kubernetes does.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rdd_meta::{Reason, Status, metadata::Metadata, options::DeleteOptions};
use rdd_stdx::backoff::Backoff;
use serde_json::{Value, json};

use crate::{
    discovery::order,
    registry::Served,
    rest::local::{Local, Named},
};

const GROUP: &str = "apiregistration.k8s.io";

const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));

const CUSTOM_VERSION_PRIORITY: i64 = 100;
const BUILTIN_VERSION_PRIORITY: i64 = 15;

/// Keeps the APIService objects equal to the served groups and versions, for as long as it runs. It runs again whenever the registry
/// changes, and after an error with backoff. `registered` becomes true after the first success.
pub async fn keep_groups_registered(local: Local, registered: Arc<AtomicBool>) {
    let mut changed = local.api().registry.subscribe();
    let mut delays = BACKOFF.delays();
    loop {
        // Mark first: a change during the registration below starts another one.
        changed.mark_unchanged();
        match register_groups(&local).await {
            // An error of `changed` would mean that the registry is gone, but `local` holds it.
            Ok(()) => {
                delays.reset();
                registered.store(true, Ordering::SeqCst);
                let _ = changed.changed().await;
            }
            Err(status) => {
                let delay = delays.advance();
                tracing::warn!(error = %status.message, ?delay, "APIServices could not be written");
                tokio::time::sleep(delay).await;
            }
        }
    }
}

/// Creates the missing APIServices and deletes those whose group or version is no longer served.
async fn register_groups(local: &Local) -> Result<(), Status> {
    let all = Named { group: GROUP, resource: "apiservices", namespace: None, name: "", subresource: "" };
    let wanted = wanted(&local.api().registry.served(), &local.api().now().format_time());
    let there = local.list(all).await?.objects;
    for object in &there {
        if !wanted.contains_key(object.name()) {
            let outcome = local.delete(Named { name: object.name(), ..all }, &DeleteOptions::default()).await;
            if let Err(status) = outcome
                && status.reason != Some(Reason::NotFound)
            {
                return Err(status);
            }
        }
    }
    for (name, object) in wanted {
        if there.iter().all(|found| found.name() != name) {
            let status = object["status"].clone();
            match local.create(all, object).await {
                Err(status) if status.reason != Some(Reason::AlreadyExists) => return Err(status),
                // Another writer created it after the list.
                Err(_) => continue,
                Ok(mut created) => {
                    // A create drops the status, so it needs a write of its own.
                    created["status"] = status;
                    local.update(Named { name: &name, subresource: "status", ..all }, created).await?;
                }
            }
        }
    }
    Ok(())
}

fn wanted(served: &Served, now: &str) -> BTreeMap<String, Value> {
    let mut services = BTreeMap::new();
    // As upstream, the group of APIServices has no APIService.
    for group in [""].into_iter().chain(order::groups(served)).filter(|group| *group != GROUP) {
        let custom = served.in_group(group).any(|def| def.custom.is_some());
        let version_priority = match (group, custom) {
            ("", _) => 1,
            (_, false) => BUILTIN_VERSION_PRIORITY,
            // All versions of a custom group have one priority; clients order them by name.
            (_, true) => CUSTOM_VERSION_PRIORITY,
        };
        for version in order::versions(served, group) {
            let service = service(group, version, order::group_priority(group), version_priority, custom, now);
            services.insert(Metadata::of(&service).name().to_owned(), service);
        }
    }
    services
}

fn service(group: &str, version: &str, group_priority: u32, version_priority: i64, custom: bool, now: &str) -> Value {
    let managed = if custom { "true" } else { "onstart" };
    let mut spec = json!({
        "version": version, "groupPriorityMinimum": group_priority, "versionPriority": version_priority,
    });
    if !group.is_empty() {
        spec["group"] = json!(group);
    }
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {
            "name": format!("{version}.{group}"), "labels": {"kube-aggregator.kubernetes.io/automanaged": managed},
        },
        "spec": spec,
        "status": {"conditions": [{
            "type": "Available", "status": "True", "reason": "Local",
            "message": "Local APIServices are always available", "lastTransitionTime": now,
        }]},
    })
}
