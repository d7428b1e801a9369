//! Migrates objects from client-side to server-side apply: field ownership moves from updates to an applying manager.

use std::collections::BTreeSet;

use rdd_patch::ssa::{PathElement, Set};
use serde_json::{Value, json};

use crate::write::LAST_APPLIED;

/// The managers that own the last-applied annotation through this operation.
pub(crate) fn owners_of_annotation(managed: &[Value], operation: &str) -> BTreeSet<String> {
    let path = ["metadata", "annotations", LAST_APPLIED].map(PathElement::field);
    let owns = |entry: &&Value| {
        entry["operation"] == operation
            && Set::from_value(&entry["fieldsV1"]).is_ok_and(|fields| fields.contains(&path))
    };
    managed.iter().filter(owns).filter_map(|entry| entry["manager"].as_str()).map(str::to_owned).collect()
}

/// The JSON patch that transfers what the managers in `from` own by updates to the applying manager `to`; `None` if nothing
/// changes.
pub(crate) fn patch(object: &Value, from: &BTreeSet<String>, to: &str) -> Option<Value> {
    let managed = object["metadata"]["managedFields"].as_array()?;
    let mut migrated = managed.clone();
    for manager in from {
        migrated = migrate(migrated, manager, to)?;
    }
    (migrated != *managed).then(|| {
        json!([
            { "op": "replace", "path": "/metadata/managedFields", "value": migrated },
            { "op": "replace", "path": "/metadata/resourceVersion", "value": object["metadata"]["resourceVersion"] },
        ])
    })
}

fn is_entry(entry: &Value, manager: &str, operation: &str) -> bool {
    let subresource = entry["subresource"].as_str().unwrap_or_default();
    entry["manager"] == manager && entry["operation"] == operation && subresource.is_empty()
}

fn migrate(mut managed: Vec<Value>, from: &str, to: &str) -> Option<Vec<Value>> {
    let place = match managed.iter().position(|entry| is_entry(entry, to, "Apply")) {
        Some(place) => place,
        None => {
            let Some(place) = managed.iter().position(|entry| is_entry(entry, from, "Update")) else {
                return Some(managed);
            };
            managed[place]["operation"] = "Apply".into();
            managed[place]["manager"] = to.into();
            place
        }
    };
    let mut fields = Set::from_value(&managed[place]["fieldsV1"]).ok()?;
    let same_version =
        |entry: &&Value| is_entry(entry, from, "Update") && entry["apiVersion"] == managed[place]["apiVersion"];
    if let Some(entry) = managed.iter().find(same_version) {
        fields = fields.union(&Set::from_value(&entry["fieldsV1"]).ok()?);
    }
    managed[place]["fieldsV1"] = fields.to_value();
    managed.retain(|entry| !is_entry(entry, from, "Update"));
    Some(managed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({ "manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields })
    }

    #[test]
    fn what_apply_owned_by_updates_goes_to_whoever_applies() {
        let annotated =
            json!({"f:metadata": {"f:annotations": {format!("f:{LAST_APPLIED}"): {}}}, "f:data": {"f:a": {}}});
        let managed = vec![
            entry("kubectl", "Apply", json!({"f:data": {"f:b": {}}})),
            entry("kubectl-client-side-apply", "Update", annotated),
            entry("other", "Update", json!({"f:data": {"f:c": {}}})),
        ];
        let owners = owners_of_annotation(&managed, "Update");
        assert_eq!(owners, BTreeSet::from(["kubectl-client-side-apply".to_owned()]));
        assert!(owners_of_annotation(&managed, "Apply").is_empty());
        let object = json!({ "metadata": { "managedFields": managed, "resourceVersion": "7" } });
        let patch = super::patch(&object, &owners, "kubectl").unwrap();
        let migrated = patch[0]["value"].as_array().unwrap();
        assert_eq!(migrated.len(), 2);
        assert_eq!(migrated[0]["fieldsV1"]["f:data"], json!({"f:a": {}, "f:b": {}}));
        assert_eq!(patch[1]["value"], "7");
        assert_eq!(super::patch(&object, &BTreeSet::new(), "kubectl"), None);
    }
}
