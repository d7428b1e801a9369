//! Ready-made reviews: protection of owned objects, and singletons.

use serde_json::Value;

use super::{Decision, Operation, Request};
use crate::finalizer::OWNED_BY;

/// Denies the deletion of an object that another object owns (a finalizer `owned-by-<owner>`), and names the owner.
///
/// A finalizer alone would not be enough: a deletion cannot be undone, so it must be refused before the object starts to terminate.
pub fn owned(request: &Request) -> Decision {
    if request.operation != Operation::Delete || !request.sub_resource.is_empty() {
        return Decision::allowed();
    }
    match request.subject().and_then(owner) {
        Some(owner) => Decision::denied(format!(
            "cannot delete {:?}: owned by {owner}; delete the {owner} resource instead",
            name_of(request)
        )),
        None => Decision::allowed(),
    }
}

/// Denies an update that removes `label` from an owned object. A webhook that selects objects by the label would no longer see the
/// object.
pub fn keeps_label(request: &Request, label: &str) -> Decision {
    let has = |object: Option<&Value>| object.is_some_and(|object| object["metadata"]["labels"].get(label).is_some());
    let was = request.old_object.as_ref();
    let goes = request.operation == Operation::Update && has(was) && !has(request.object.as_ref());
    if goes && was.and_then(owner).is_some() {
        return Decision::denied(format!("cannot remove {label} label: resource is owned"));
    }
    Decision::allowed()
}

/// Denies the creation of an object whose name is not `name`.
pub fn singleton(request: &Request, name: &str) -> Decision {
    let found = name_of(request);
    if request.operation == Operation::Create && request.sub_resource.is_empty() && found != name {
        return Decision::denied(format!(
            "{} is a singleton: its name must be {name:?}, not {found:?}",
            request.kind.kind
        ));
    }
    Decision::allowed()
}

fn name_of(request: &Request) -> &str {
    // The request has no name when the server is yet to generate one.
    let named = request.subject().and_then(|object| object["metadata"]["name"].as_str());
    if request.name.is_empty() { named.unwrap_or_default() } else { &request.name }
}

fn owner(object: &Value) -> Option<&str> {
    let finalizers = object["metadata"]["finalizers"].as_array()?;
    finalizers.iter().filter_map(Value::as_str).find_map(|finalizer| finalizer.strip_prefix(OWNED_BY))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(operation: &str, old: Value, new: Value) -> Request {
        serde_json::from_value(json!({
            "uid": "u", "operation": operation, "name": "rd", "namespace": "ns",
            "kind": {"group": "lima.rancherdesktop.io", "version": "v1alpha1", "kind": "LimaVM"},
            "resource": {"group": "lima.rancherdesktop.io", "version": "v1alpha1", "resource": "limavms"},
            "object": new, "oldObject": old,
        }))
        .unwrap()
    }

    fn why(decision: Decision) -> Option<String> {
        match decision {
            Decision::Denied(status) => {
                assert_eq!(status.code, 403);
                Some(status.message)
            }
            _ => None,
        }
    }

    // Finding 236-I1
    #[test]
    fn what_another_owns_is_not_deleted_and_the_owner_is_named() {
        let object = |finalizers: &[&str]| json!({"metadata": {"name": "rd", "finalizers": finalizers}});
        let owned_object = object(&["rdd.rancherdesktop.io/cleanup", "rdd.rancherdesktop.io/owned-by-App"]);
        assert_eq!(
            why(owned(&request("DELETE", owned_object.clone(), Value::Null))).as_deref(),
            Some(r#"cannot delete "rd": owned by App; delete the App resource instead"#)
        );
        assert_eq!(why(owned(&request("UPDATE", owned_object.clone(), owned_object))), None);
        assert_eq!(why(owned(&request("DELETE", object(&["rdd.rancherdesktop.io/cleanup"]), Value::Null))), None);
        assert_eq!(why(owned(&request("DELETE", json!({}), Value::Null))), None);
    }

    #[test]
    fn the_label_by_which_a_guard_selects_stays_on_what_is_owned() {
        let object = |label: bool, is_owned: bool| {
            let labels = if label { json!({"l": "true"}) } else { json!({}) };
            let finalizers = if is_owned { json!(["rdd.rancherdesktop.io/owned-by-LimaVM"]) } else { json!([]) };
            json!({"metadata": {"name": "rd", "labels": labels, "finalizers": finalizers}})
        };
        let check = |old, new| why(keeps_label(&request("UPDATE", old, new), "l"));
        assert_eq!(
            check(object(true, true), object(false, true)).as_deref(),
            Some("cannot remove l label: resource is owned")
        );
        assert!(check(object(true, true), object(false, false)).is_some(), "not by taking both off at once");
        assert_eq!(check(object(true, false), object(false, false)), None);
        assert_eq!(check(object(true, true), object(true, false)), None);
    }

    #[test]
    fn a_singleton_has_one_name() {
        let object = json!({"metadata": {"name": "rd"}});
        assert_eq!(why(singleton(&request("CREATE", Value::Null, object.clone()), "rd")), None);
        let refused = why(singleton(&request("CREATE", Value::Null, object), "app"));
        assert_eq!(refused.as_deref(), Some(r#"LimaVM is a singleton: its name must be "app", not "rd""#));
    }
}
