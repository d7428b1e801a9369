//! Compares the values for field selectors with upstream's.

use rdd_builtin::kinds;
use serde_json::{Value, json};

use crate::ask;

#[test]
fn field_selectors_see_what_they_see_upstream() {
    let reference = json!({"kind": "K", "namespace": "n", "name": "m", "uid": "u", "apiVersion": "a", "resourceVersion": "7", "fieldPath": "f"});
    let objects = [
        (
            "",
            json!({"apiVersion": "v1", "kind": "Event", "involvedObject": reference, "reason": "r", "type": "Normal",
            "reportingComponent": "c", "source": {"component": "s"}}),
        ),
        ("", json!({"apiVersion": "v1", "kind": "Event", "reportingComponent": "c"})),
        (
            "events.k8s.io",
            json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": reference, "reason": "r",
            "type": "Warning", "reportingController": "c", "deprecatedSource": {"component": "s"}}),
        ),
        (
            "",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}, "status": {"phase": "Terminating"}}),
        ),
        ("", json!({"apiVersion": "v1", "kind": "Secret", "type": "t"})),
    ];
    let plain = [
        ("", json!({"apiVersion": "v1", "kind": "Service", "spec": {"type": "NodePort"}})),
        ("", json!({"apiVersion": "v1", "kind": "ConfigMap"})),
        ("", json!({"apiVersion": "v1", "kind": "ServiceAccount"})),
        ("", json!({"apiVersion": "v1", "kind": "ResourceQuota"})),
        ("coordination.k8s.io", json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"})),
        ("rbac.authorization.k8s.io", json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"})),
    ];
    let all: Vec<&(&str, Value)> = objects.iter().chain(&plain).collect();
    // Every label of every kind is tested on all other kinds too: ours, and those in this list.
    let mut labels: Vec<String> =
        ["name", "metadata.uid", "note", "reason", "type", "source", "reportingComponent", "reportingController"]
            .into_iter()
            .chain(["status.phase", "spec.clusterIP", "spec.type"])
            .map(str::to_owned)
            .collect();
    for field in ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"] {
        labels.extend([format!("involvedObject.{field}"), format!("regarding.{field}")]);
    }
    let strategy = |(group, object): &(&str, Value)| kinds::of(group, object["kind"].as_str().unwrap()).unwrap();
    labels.extend(all.iter().flat_map(|case| strategy(case).selectable_fields).map(|label| (*label).to_owned()));
    let cases: Vec<(&(&str, Value), &str)> =
        all.iter().flat_map(|case| labels.iter().map(|label| (*case, label.as_str()))).collect();
    let questions: Vec<Value> =
        cases.iter().map(|(case, label)| json!({"op": "field", "object": case.1, "label": label})).collect();
    let Some(answers) = ask(&questions) else { return };
    for ((case, label), answer) in cases.iter().zip(&answers) {
        let strategy = strategy(case);
        let selectable = strategy.selectable_fields.contains(label);
        assert_eq!(selectable, answer.get("unsupported").is_none(), "{label} of {}: {answer}", case.1);
        if let Some(value) = answer["value"].as_str() {
            assert_eq!((strategy.selectable_field)(&case.1, label), value, "{label} of {}", case.1);
        }
    }
}
