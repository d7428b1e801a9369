//! The namespace lifecycle plug-in: refuses creates in missing or terminating namespaces, and deletes of the
//! permanent ones.

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};

use memchr::memmem::Finder;
use rdd_meta::{
    Status,
    gvk::GroupResource,
    status::{Cause, Details},
};
use serde::Deserialize;

use super::{Admit, Attributes, Judgement, Operation, Reform};
use crate::state::{Object, Resource, State};

/// The namespaces that cannot be deleted.
pub const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Checks objects against their namespaces. The first plug-in of the chain.
///
/// Mirrors upstream's `namespace/lifecycle`. It reads the server's own state, which includes every acknowledged
/// write, so it needs neither upstream's wait for the informer cache nor the live lookup after it.
#[derive(Debug)]
pub struct NamespaceLifecycle {
    state: Arc<State>,
    namespaces: Resource,
}

impl NamespaceLifecycle {
    /// A plug-in that reads the namespaces of `state`.
    pub fn new(state: Arc<State>) -> Self {
        let namespaces = Resource::new("", "namespaces").expect("two plain words");
        Self { state, namespaces }
    }

    fn judge(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if is_namespace(attributes) {
            return judge_deletion(attributes);
        }
        let Some(namespace) = attributes.namespace.filter(|_| !is_access_review(attributes)) else { return Ok(()) };
        let key = self.namespaces.key(None, namespace).ok();
        let Some(found) = key.and_then(|key| self.state.get(&key)) else {
            return Err(Status::not_found(&GroupResource::new("", "namespaces"), namespace));
        };
        if attributes.operation == Operation::Create && is_terminating(&found) {
            return Err(terminating(attributes, namespace));
        }
        Ok(())
    }
}

impl Admit for NamespaceLifecycle {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        match attributes.operation {
            Operation::Create | Operation::Update => !is_namespace(attributes) && attributes.namespace.is_some(),
            Operation::Delete => is_namespace(attributes),
            Operation::Connect => false,
        }
    }

    fn only_judges(&self) -> bool {
        true
    }

    fn mutate<'f>(&'f self, attributes: &'f mut Attributes<'_>, _: Reform<'f>) -> Judgement<'f> {
        let judged = self.judge(attributes);
        Box::pin(async { judged })
    }

    fn confirm(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        self.judge(attributes)
    }
}

fn is_namespace(attributes: &Attributes<'_>) -> bool {
    attributes.kind.group.is_empty() && attributes.kind.kind == "Namespace"
}

/// A 404 here would tell the caller which namespaces exist.
fn is_access_review(attributes: &Attributes<'_>) -> bool {
    let resource = attributes.resource;
    resource.group == "authorization.k8s.io" && resource.resource == "localsubjectaccessreviews"
}

fn judge_deletion(attributes: &Attributes<'_>) -> Result<(), Status> {
    if attributes.operation == Operation::Delete && IMMORTAL.contains(&attributes.name) {
        let resource = attributes.resource.group_resource();
        return Err(Status::forbidden_resource(&resource, attributes.name, "this namespace may not be deleted"));
    }
    Ok(())
}

fn terminating(attributes: &Attributes<'_>, namespace: &str) -> Status {
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut status = attributes.forbidden(&why);
    let details: &mut Details = status.details.get_or_insert_default();
    details.causes.push(Cause {
        reason: "NamespaceTerminating".to_owned(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".to_owned(),
    });
    status
}

/// Whether the phase of a Namespace is `Terminating`, which it is from the moment it is deleted.
fn is_terminating(namespace: &Object) -> bool {
    static WORD: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"Terminating\""));
    // Most namespaces are not terminating; the byte search shows that without parsing.
    let json = namespace.wire();
    WORD.find(json).is_some()
        && serde_json::from_slice(json).is_ok_and(|Outer { status }| status.phase.is_some_and(|it| it == "Terminating"))
}

#[derive(Deserialize)]
struct Outer<'a> {
    #[serde(borrow, default)]
    status: Inner<'a>,
}

#[derive(Deserialize, Default)]
struct Inner<'a> {
    #[serde(borrow)]
    phase: Option<Cow<'a, str>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::testing::{Request, mk_state, put};

    async fn judge(request: Request) -> String {
        let state = mk_state().await;
        let namespace = |phase: &str| format!(r#"{{"metadata":{{}},"status":{{"phase":"{phase}"}}}}"#);
        put(&state, "", "namespaces", None, "live", &namespace("Active")).await;
        put(&state, "", "namespaces", None, "going", &namespace("Terminating")).await;
        let named = r#"{"metadata":{"labels":{"a":"Terminating"}},"status":{"phase":"Active"}}"#;
        put(&state, "", "namespaces", None, "named", named).await;
        let plugin = NamespaceLifecycle::new(state);
        let judged = request.with(async |attributes| {
            if !plugin.handles(attributes) {
                return Ok(());
            }
            plugin.mutate(attributes, &|_| Ok(())).await
        });
        judged.await.map_or_else(|status| format!("{} {}", status.code, status.message), |()| "ok".to_owned())
    }

    fn map(operation: Operation, namespace: &str) -> Request {
        Request::new(operation, "configmaps", "ConfigMap", "x").namespace(namespace)
    }

    #[tokio::test]
    async fn what_is_in_a_namespace_needs_one_that_is_there_and_stays() {
        use Operation::{Connect, Create, Delete, Update};
        let missing = "404 namespaces \"gone\" not found";
        let going = "403 configmaps \"x\" is forbidden: unable to create new content in namespace going because it is \
                     being terminated";
        for (operation, namespace, expected) in [
            (Create, "live", "ok"),
            (Create, "named", "ok"),
            (Create, "gone", missing),
            (Update, "gone", missing),
            (Delete, "gone", "ok"),
            (Connect, "gone", "ok"),
            (Create, "going", going),
            (Update, "going", "ok"),
            (Delete, "going", "ok"),
        ] {
            assert_eq!(judge(map(operation, namespace)).await, expected, "{operation:?} {namespace}");
        }
    }

    #[tokio::test]
    async fn what_is_in_no_namespace_and_an_access_review_need_none() {
        let request = Request::new(Operation::Create, "nodes", "Node", "x");
        assert_eq!(judge(request).await, "ok");
        let request = Request::new(Operation::Create, "localsubjectaccessreviews", "LocalSubjectAccessReview", "");
        assert_eq!(judge(request.group("authorization.k8s.io").namespace("gone")).await, "ok");
    }

    #[tokio::test]
    async fn three_namespaces_cannot_be_deleted() {
        for name in IMMORTAL {
            let refused = format!("403 namespaces {name:?} is forbidden: this namespace may not be deleted");
            assert_eq!(judge(Request::new(Operation::Delete, "namespaces", "Namespace", name)).await, refused);
            assert_eq!(judge(Request::new(Operation::Update, "namespaces", "Namespace", name)).await, "ok");
        }
        assert_eq!(judge(Request::new(Operation::Delete, "namespaces", "Namespace", "live")).await, "ok");
    }

    #[tokio::test]
    async fn a_refusal_names_the_cause_and_the_beginning_of_a_name_that_is_to_come() {
        let state = mk_state().await;
        put(&state, "", "namespaces", None, "going", r#"{"metadata":{},"status":{"phase":"Terminating"}}"#).await;
        let plugin = NamespaceLifecycle::new(state);
        let request = Request::new(Operation::Create, "configmaps", "ConfigMap", "").namespace("going");
        let request = request.object(serde_json::json!({"metadata": {"generateName": "job-"}}));
        let status = request.with(async |attributes| plugin.mutate(attributes, &|_| Ok(())).await).await.unwrap_err();
        assert!(status.message.starts_with("configmaps \"job-\" is forbidden: unable to"), "{}", status.message);
        let causes = status.details.unwrap().causes;
        let told: Vec<_> = causes.iter().map(|cause| (&*cause.reason, &*cause.message, &*cause.field)).collect();
        assert_eq!(told, [("NamespaceTerminating", "namespace going is being terminated", "metadata.namespace")]);
    }
}
