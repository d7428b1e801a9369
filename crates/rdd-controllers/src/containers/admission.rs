//! Admission of Containers and ContainerNamespaces.

use rdd_runtime::admission::{Decision, Operation, Request, Webhook};
use rdd_types::{
    containers::{Action, Container, ContainerNamespace},
    names::annotation::ACTION,
};
use serde_json::Value;

/// The webhook for containers. It has the name that the original uses, although it validates only.
pub(super) fn container() -> Webhook {
    let operations = [Operation::Create, Operation::Update];
    Webhook::validating::<Container>("container-mutating", &operations, review)
}

/// The webhook for container namespaces, which warns about deletions.
pub(super) fn container_namespace() -> Webhook {
    let warn =
        |_: &Request| Decision::Allowed { warnings: vec!["namespace delete validation not implemented".to_owned()] };
    Webhook::validating::<ContainerNamespace>("container-namespace-deleting", &[Operation::Delete], warn)
}

fn review(request: &Request) -> Decision {
    let new = request.object.as_ref().unwrap_or(&Value::Null);
    let why = match (request.operation, &request.old_object) {
        (Operation::Create, _) => refuse_new(new),
        (Operation::Update, Some(old)) => refuse_change(old, new),
        _ => None,
    };
    why.map_or_else(Decision::allowed, Decision::denied)
}

fn action(container: &Value) -> Option<&str> {
    container["metadata"]["annotations"][ACTION].as_str()
}

fn refuse_new(new: &Value) -> Option<String> {
    action(new).map(|_| format!("{ACTION} annotation is not allowed on create"))
}

fn refuse_change(old: &Value, new: &Value) -> Option<String> {
    if rest(old) != rest(new) {
        return Some(format!("spec is immutable: old: {}, new: {}", old["spec"], new["spec"]));
    }
    // An invalid annotation that already exists must not block other changes.
    let changed = action(new).filter(|text| action(old) != Some(text));
    let wrong = changed.filter(|text| Action::parse(text).is_none())?;
    Some(format!("invalid {ACTION} annotation {wrong:?}"))
}

/// The spec without `state`, the only field that may change. An absent spec equals an empty one.
fn rest(container: &Value) -> Value {
    let mut spec = container["spec"].as_object().cloned().unwrap_or_default();
    spec.remove("state");
    Value::Object(spec)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container(action: Option<&str>, spec: Value) -> Value {
        let annotations = action.map(|action| json!({ACTION: action}));
        json!({"metadata": {"annotations": annotations}, "spec": spec})
    }

    #[test]
    fn an_action_can_be_asked_of_what_there_is_and_has_to_be_one() {
        let plain = container(None, Value::Null);
        assert_eq!(refuse_new(&plain), None);
        let refused = "containers.rancherdesktop.io/action annotation is not allowed on create";
        assert_eq!(refuse_new(&container(Some("start"), Value::Null)).as_deref(), Some(refused));
        for action in ["start", "stop", "pause", "unpause", "restart"] {
            assert_eq!(refuse_change(&plain, &container(Some(action), Value::Null)), None, "{action}");
        }
        let refused = r#"invalid containers.rancherdesktop.io/action annotation "Start""#;
        assert_eq!(refuse_change(&plain, &container(Some("Start"), Value::Null)).as_deref(), Some(refused));
        // Written while the webhook was off: other fields can still be changed, and the annotation can be removed.
        let odd = container(Some("Start"), Value::Null);
        assert_eq!(refuse_change(&odd, &odd), None);
        assert_eq!(refuse_change(&odd, &plain), None);
        assert!(refuse_change(&odd, &container(Some("Stop"), Value::Null)).is_some());
    }

    #[test]
    fn only_the_state_may_change() {
        let change = |old, new| refuse_change(&container(None, old), &container(None, new));
        assert_eq!(change(Value::Null, json!({"state": "running"})), None);
        assert_eq!(change(json!({"state": "running"}), json!({"state": "created"})), None);
        assert_eq!(change(json!({}), Value::Null), None);
        let refused = r#"spec is immutable: old: {"x":1}, new: {"x":2}"#;
        assert_eq!(change(json!({"x": 1}), json!({"x": 2})).as_deref(), Some(refused));
    }
}
