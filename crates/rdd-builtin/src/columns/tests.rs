//! Tests of the printer columns.

use serde_json::json;

use super::*;

fn row(group: &str, kind: &str, object: Value) -> Vec<Value> {
    let printer = printer(group, kind);
    let cells = printer.cells(&object, Timestamp::parse_time("2024-01-01T00:05:00Z").unwrap());
    assert_eq!(cells.len(), printer.columns().len());
    cells
}

fn metadata() -> Value {
    json!({"name": "a", "creationTimestamp": "2024-01-01T00:00:00Z"})
}

#[test]
fn rows_are_those_of_upstreams_printers() {
    for (group, kind, object, expected) in [
        ("", "ConfigMap", json!({"data": {"a": "1"}, "binaryData": {"b": ""}}), json!(["a", 2, "5m"])),
        ("", "Namespace", json!({"status": {"phase": "Active"}}), json!(["a", "Active", "5m"])),
        ("", "Secret", json!({"type": "Opaque", "data": {"a": ""}}), json!(["a", "Opaque", 1, "5m"])),
        ("coordination.k8s.io", "Lease", json!({"spec": {"holderIdentity": "x"}}), json!(["a", "x", "5m"])),
        ("rbac.authorization.k8s.io", "Role", json!({}), json!(["a", "2024-01-01T00:00:00Z"])),
        (
            "rbac.authorization.k8s.io",
            "RoleBinding",
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "User", "name": "v"},
                {"kind": "ServiceAccount", "namespace": "n", "name": "s"}]}),
            json!(["a", "Role/r", "5m", "u, v", "", "n/s"]),
        ),
        (
            "",
            "ResourceQuota",
            json!({"status": {"hard": {"limits.cpu": "2", "pods": "3"}, "used": {"pods": "1"}}}),
            json!(["a", "pods: 1/3", "limits.cpu: 0/2", "5m"]),
        ),
        (
            "",
            "Service",
            json!({"spec": {"type": "ClusterIP", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 443, "protocol": "TCP"}]}}),
            json!(["a", "ClusterIP", "10.0.0.1", "<none>", "443/TCP", "5m", "<none>"]),
        ),
        ("apiregistration.k8s.io", "APIService", json!({}), json!(["a", "Local", "Unknown", "5m"])),
    ] {
        let mut object = object;
        object["metadata"] = metadata();
        assert_eq!(Value::from(row(group, kind, object)), expected, "{kind}");
    }
}

#[test]
fn an_event_shows_when_it_was_last_seen_and_its_name_last() {
    let event = json!({"metadata": metadata(), "involvedObject": {"kind": "Pod", "name": "p"}, "eventTime": "2024-01-01T00:04:00.000000Z",
        "reason": "R", "type": "Normal", "message": " m ", "reportingComponent": "c", "reportingInstance": "i"});
    let expected = json!(["60s", "Normal", "R", "pod/p", "", "c, i", "m", "60s", 1, "a"]);
    assert_eq!(Value::from(row("", "Event", event)), expected);
    let series =
        json!({"metadata": metadata(), "series": {"count": 7, "lastObservedTime": "2024-01-01T00:04:30.000000Z"}});
    let cells = row("", "Event", series);
    assert_eq!((&cells[0], &cells[7], &cells[8]), (&json!("30s"), &json!("<unknown>"), &json!(7)));
}
