//! AdmissionReview: what a webhook is asked.

use rdd_meta::gvk::{GroupVersionKind, GroupVersionResource};
use serde_json::{Value, json};

use super::{super::Attributes, hook::ReviewVersion, version::Naming};

/// The group of AdmissionReview.
pub(super) const GROUP: &str = "admission.k8s.io";
/// Its kind.
pub(super) const KIND: &str = "AdmissionReview";

/// The question.
pub(super) fn question(
    version: ReviewVersion,
    uid: &str,
    attributes: &Attributes<'_>,
    naming: &Naming,
    objects: (Option<Value>, Option<Value>),
) -> Value {
    let mut request = request(attributes, &naming.kind, &naming.resource);
    request["uid"] = uid.into();
    request["object"] = objects.0.unwrap_or(Value::Null);
    request["oldObject"] = objects.1.unwrap_or(Value::Null);
    json!({"kind": KIND, "apiVersion": format!("{GROUP}/{}", version.as_str()), "request": request})
}

/// The request of a question without its uid and its objects, which is what match conditions see.
pub(super) fn request(attributes: &Attributes<'_>, kind: &GroupVersionKind, resource: &GroupVersionResource) -> Value {
    let mut request = json!({
        "kind": kind_json(kind),
        "resource": resource_json(resource),
        "requestKind": kind_json(attributes.kind),
        "requestResource": resource_json(attributes.resource),
        "operation": attributes.operation.as_str(),
        "userInfo": {"username": attributes.user.name(), "groups": attributes.user.groups()},
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    });
    // Go leaves these out where they are empty.
    for (field, text) in [
        ("subResource", attributes.subresource),
        ("requestSubResource", attributes.subresource),
        ("name", attributes.name),
        ("namespace", attributes.request_namespace()),
    ] {
        if !text.is_empty() {
            request[field] = text.into();
        }
    }
    request
}

fn kind_json(kind: &GroupVersionKind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

fn resource_json(resource: &GroupVersionResource) -> Value {
    json!({"group": resource.group, "version": resource.version, "resource": resource.resource})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{Operation, testing::Request};

    #[tokio::test]
    async fn a_question_has_what_upstream_puts_into_it() {
        let mut request = Request::new(Operation::Update, "configmaps", "ConfigMap", "x").namespace("ns");
        request.subresource = "status";
        let asked = request.with(async |attributes| {
            let naming = Naming::of(attributes);
            question(ReviewVersion::V1, "u1", attributes, &naming, (Some(json!({"a": 1})), None))
        });
        let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
        let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
        let expected = json!({
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": "u1", "kind": kind, "resource": resource, "subResource": "status",
                "requestKind": kind, "requestResource": resource, "requestSubResource": "status",
                "name": "x", "namespace": "ns", "operation": "UPDATE",
                "userInfo": {"username": "system-admin", "groups": ["system:masters", "system:authenticated"]},
                "object": {"a": 1}, "oldObject": null, "dryRun": false,
                "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            },
        });
        assert_eq!(asked.await, expected);
    }

    #[tokio::test]
    async fn a_namespace_is_in_itself_once_it_has_a_name() {
        for (operation, namespace) in [(Operation::Update, json!("a")), (Operation::Create, Value::Null)] {
            let request = Request::new(operation, "namespaces", "Namespace", "a");
            let asked = request.with(async |it| super::request(it, it.kind, it.resource)).await;
            assert_eq!(asked["namespace"], namespace, "{operation:?}");
        }
    }
}
