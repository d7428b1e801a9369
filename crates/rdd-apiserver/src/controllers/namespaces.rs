//! The namespace controller: it deletes the content of a terminating namespace and reports the progress in conditions.

use std::{collections::BTreeMap, sync::Arc};

use rdd_meta::{Reason, Status, metadata::Metadata, options::DeleteOptions};
use serde_json::{Value, json};

use super::{Controller, core, queue::Queue};
use crate::{
    registry::ResourceDef,
    rest::local::{Local, Named},
    state::{Object, Resource},
};

/// The namespace's `spec.finalizers` entry of this controller.
const FINALIZER: &str = "kubernetes";

/// How many objects of a namespace are deleted concurrently. Deletions that are committed together cost the store little more than
/// one.
const LANES: usize = 8;

/// A lane stops after this many errors until the next attempt: if the server refuses one object, it often refuses all of them.
const ERRORS_MAX: usize = 10;

/// The controller that empties terminating namespaces.
#[derive(Debug)]
pub(super) struct Namespaces {
    queue: Arc<Queue<String>>,
    local: Local,
    namespaces: Resource,
}

/// What is left in a namespace after an attempt to empty it.
#[derive(Debug, Default)]
struct Remains {
    /// The number of objects per resource, in the form `plural.group` that conditions use.
    resources: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
    errors: Vec<String>,
}

impl Namespaces {
    pub(super) fn new(local: Local) -> Self {
        Self { queue: Arc::default(), local, namespaces: core("namespaces") }
    }

    async fn finalize(&self, name: &str) -> Result<(), Status> {
        let namespace = match self.local.get(itself(name, "")) {
            Err(status) if status.reason == Some(Reason::NotFound) => return Ok(()),
            other => other?,
        };
        if !Metadata::of(&namespace).is_terminating() || !finalizers(&namespace).contains(&FINALIZER) {
            return Ok(());
        }
        // Boxed, to keep the large future of the deletions out of this one.
        let remains = Box::pin(self.empty(name)).await?;
        self.tell(name, &namespace, &remains).await?;
        // An error puts the namespace back into the queue with backoff.
        if !remains.resources.is_empty() || !remains.errors.is_empty() {
            return Err(Status::internal("the namespace is not empty yet"));
        }
        // The conditions were just written, so the update needs the current resource version.
        let mut finished = self.local.get(itself(name, ""))?;
        let kept: Vec<&str> = finalizers(&finished).into_iter().filter(|found| *found != FINALIZER).collect();
        finished["spec"]["finalizers"] = json!(kept);
        match self.local.update(itself(name, "finalize"), finished).await {
            Err(status) if status.reason != Some(Reason::NotFound) => Err(status),
            _ => Ok(()),
        }
    }

    /// Deletes all objects of the namespace and counts those that remain, for example because of finalizers.
    async fn empty(&self, namespace: &str) -> Result<Remains, Status> {
        let mut remains = Remains::default();
        let served = self.local.api().registry.served();
        let mut seen = Vec::new();
        for def in served.all() {
            // Two resources can share one storage, such as Events in two groups; the first one deletes the objects.
            let Some(storage) = def.storage().filter(|storage| def.namespaced && !seen.contains(*storage)) else {
                continue;
            };
            seen.push(storage.clone());
            Box::pin(self.delete_all(def, namespace, &mut remains)).await?;
        }
        Ok(remains)
    }

    async fn delete_all(&self, def: &ResourceDef, namespace: &str, remains: &mut Remains) -> Result<(), Status> {
        let all = Named { namespace: Some(namespace), ..resource(def) };
        let objects = self.local.list(all).await?.objects;
        let some = |lane: usize| Box::pin(self.delete_some(all, &objects, lane));
        let errors: [Vec<String>; LANES] =
            tokio::join!(some(0), some(1), some(2), some(3), some(4), some(5), some(6), some(7)).into();
        // One error per resource is enough for a condition's message.
        remains.errors.extend(errors.into_iter().flatten().next());
        for object in self.local.list(all).await?.objects {
            *remains.resources.entry(format!("{}.{}", def.plural, def.group)).or_default() += 1;
            let value: Value = serde_json::from_slice(object.wire()).unwrap_or_default();
            for finalizer in Metadata::of(&value).finalizers() {
                *remains.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Deletes every [`LANES`]th object, starting at `lane`, and returns the error messages.
    async fn delete_some(&self, all: Named<'_>, objects: &[Arc<Object>], lane: usize) -> Vec<String> {
        let mut errors = Vec::new();
        for object in objects.iter().skip(lane).step_by(LANES) {
            let options = DeleteOptions {
                // An object of the same name that was created meanwhile is deleted by the next attempt.
                precondition_uid: object.uid().map(str::to_owned),
                propagation_policy: Some("Background".to_owned()),
                ..DeleteOptions::default()
            };
            match self.local.delete(Named { name: object.name(), ..all }, &options).await {
                Err(status) if !matches!(status.reason, Some(Reason::NotFound | Reason::Conflict)) => {
                    errors.push(status.message);
                }
                _ => {}
            }
            if errors.len() == ERRORS_MAX {
                break;
            }
        }
        errors
    }

    /// Writes the conditions to the namespace's status if they changed.
    async fn tell(&self, name: &str, namespace: &Value, remains: &Remains) -> Result<(), Status> {
        let mut updated = namespace.clone();
        let now = self.local.api().now().format_time();
        let mut conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if !set_conditions(&mut conditions, remains, &now) {
            return Ok(());
        }
        updated["status"]["conditions"] = Value::Array(conditions);
        match self.local.update(itself(name, "status"), updated).await {
            Err(status) if !matches!(status.reason, Some(Reason::NotFound | Reason::Conflict)) => Err(status),
            _ => Ok(()),
        }
    }
}

impl Controller for Namespaces {
    type Item = String;
    const NAME: &'static str = "namespaces";

    fn queue(&self) -> &Arc<Queue<String>> {
        &self.queue
    }

    fn start(&self) {
        for object in self.local.api().state.now(&self.namespaces.all()) {
            self.queue.add(object.name().to_owned());
        }
    }

    fn changed(&self, previous: Option<&Object>, current: Option<&Object>) {
        match (previous, current) {
            (_, Some(namespace)) if namespace.key().is_of(&self.namespaces) => {
                self.queue.add(namespace.name().to_owned());
            }
            // The namespace may have waited for this object.
            (Some(gone), None) => {
                gone.namespace().into_iter().for_each(|namespace| self.queue.add(namespace.to_owned()))
            }
            _ => {}
        }
    }

    async fn handle(&self, item: &String) -> Result<(), Status> {
        self.finalize(item).await
    }
}

fn itself<'a>(name: &'a str, subresource: &'a str) -> Named<'a> {
    Named { group: "", resource: "namespaces", namespace: None, name, subresource }
}

fn resource(def: &ResourceDef) -> Named<'_> {
    Named { group: &def.group, resource: &def.plural, namespace: None, name: "", subresource: "" }
}

fn finalizers(namespace: &Value) -> Vec<&str> {
    namespace["spec"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Sets the five conditions of a terminating namespace, with upstream's reasons and messages. Returns whether anything changed.
fn set_conditions(conditions: &mut Vec<Value>, remains: &Remains, now: &str) -> bool {
    let counted = |counts: &BTreeMap<String, usize>, between: &str| {
        let parts: Vec<String> =
            counts.iter().map(|(name, count)| format!("{name} {between} {count} resource instances")).collect();
        parts.join(", ")
    };
    let mut errors = remains.errors.clone();
    errors.sort();
    let content_failure = (!errors.is_empty()).then(|| {
        let message = format!("Failed to delete all resource types, {} remaining: {}", errors.len(), errors.join(", "));
        ("ContentDeletionFailed", message)
    });
    let content_remains = (!remains.resources.is_empty()).then(|| {
        ("SomeResourcesRemain", format!("Some resources are remaining: {}", counted(&remains.resources, "has")))
    });
    let finalizers_remain = (!remains.finalizers.is_empty()).then(|| {
        let message =
            format!("Some content in the namespace has finalizers remaining: {}", counted(&remains.finalizers, "in"));
        ("SomeFinalizersRemain", message)
    });
    let all = [
        ("NamespaceDeletionDiscoveryFailure", None, "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            None,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            content_failure,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        ("NamespaceContentRemaining", content_remains, "ContentRemoved", "All content successfully removed"),
        (
            "NamespaceFinalizersRemaining",
            finalizers_remain,
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    ];
    let mut changed = false;
    for (kind, problem, fine_reason, fine_message) in all {
        let (status, reason, message) = match problem {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", fine_reason, fine_message.to_owned()),
        };
        changed |= set_condition(conditions, (kind, status, reason, &message), now);
    }
    changed
}

fn set_condition(
    conditions: &mut Vec<Value>,
    (kind, status, reason, message): (&str, &str, &str, &str),
    now: &str,
) -> bool {
    let Some(found) = conditions.iter_mut().find(|condition| condition["type"] == kind) else {
        conditions.push(json!({
            "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now,
        }));
        return true;
    };
    if found["status"] == status && found["reason"] == reason && found["message"] == message {
        return false;
    }
    if found["status"] != status {
        found["lastTransitionTime"] = json!(now);
    }
    found["status"] = json!(status);
    found["reason"] = json!(reason);
    found["message"] = json!(message);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_say_what_remains_and_keep_their_time_while_they_hold() {
        let mut conditions = Vec::new();
        let remains = Remains {
            resources: BTreeMap::from([("configmaps.".to_owned(), 2)]),
            finalizers: BTreeMap::from([("example.com/hold".to_owned(), 1)]),
            errors: Vec::new(),
        };
        assert!(set_conditions(&mut conditions, &remains, "1"));
        assert!(!set_conditions(&mut conditions, &remains, "2"), "nothing changed");
        let text = |kind: &str, field: &str, conditions: &[Value]| {
            conditions.iter().find(|found| found["type"] == kind).unwrap()[field].as_str().unwrap().to_owned()
        };
        assert_eq!(
            text("NamespaceContentRemaining", "message", &conditions),
            "Some resources are remaining: configmaps. has 2 resource instances"
        );
        assert_eq!(
            text("NamespaceFinalizersRemaining", "message", &conditions),
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        );
        assert_eq!(text("NamespaceDeletionContentFailure", "status", &conditions), "False");
        assert!(set_conditions(&mut conditions, &Remains::default(), "3"));
        assert_eq!(text("NamespaceContentRemaining", "lastTransitionTime", &conditions), "3");
        assert_eq!(text("NamespaceDeletionContentFailure", "lastTransitionTime", &conditions), "1");
    }
}
