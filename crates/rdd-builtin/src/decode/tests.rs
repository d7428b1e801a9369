//! Tests of decoding bodies of built-in kinds.

use serde_json::json;

use super::*;

fn read(api_version: &str, kind: &str, mut body: Value) -> Result<(Value, Vec<String>), String> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = types::kind(group, version, kind).unwrap();
    let findings = decode(kind, &mut body).map_err(|Refused(text)| text)?;
    Ok((body, findings.iter().map(Finding::to_string).collect()))
}

#[test]
fn structs_are_always_there_and_what_is_empty_is_not() {
    let (object, findings) =
        read("v1", "Namespace", json!({"metadata": {"name": "a", "labels": {}}, "spec": null})).unwrap();
    assert_eq!(
        object,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}, "spec": {}, "status": {}})
    );
    assert!(findings.is_empty());
    let (mut object, _) = read("rbac.authorization.k8s.io/v1", "Role", json!({"metadata": {}, "rules": []})).unwrap();
    assert_eq!(object["rules"], json!([]));
    reform(types::kind("rbac.authorization.k8s.io", "v1", "Role").unwrap(), &mut object);
    assert_eq!(object["rules"], Value::Null, "the store cannot tell an empty list from none");
    let (object, _) = read("v1", "Event", json!({"firstTimestamp": "2020-01-01T01:00:00+01:00"})).unwrap();
    assert_eq!(object["firstTimestamp"], "2020-01-01T00:00:00Z");
    assert_eq!(object["eventTime"], Value::Null);
    assert_eq!(object["reportingComponent"], "");
}

#[test]
fn what_is_unknown_is_dropped_and_told() {
    let body = json!({"data": {"a": "b"}, "odd": 1, "metadata": {"name": "a", "ownerReferences": [{"uidd": 1}]}});
    let (object, findings) = read("v1", "ConfigMap", body).unwrap();
    assert_eq!(object["data"], json!({"a": "b"}));
    assert_eq!(findings, [r#"unknown field "metadata.ownerReferences[0].uidd""#, r#"unknown field "odd""#]);
}

fn read_text(api_version: &str, kind: &str, text: &str) -> Result<(Value, Vec<String>), String> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = types::kind(group, version, kind).unwrap();
    let text = Ordered::read(text.as_bytes()).unwrap();
    let (object, findings) = decode_ordered(kind, &text).map_err(|Refused(text)| text)?;
    Ok((object, findings.iter().map(Finding::to_string).collect()))
}

#[test]
fn findings_are_told_in_the_order_of_the_text_and_each_once() {
    // Upstream skips unknown fields, so duplicates inside them are not found, nor are those inside types with custom decoding.
    let text = r#"{"odd":{"a":1,"a":2},"metadata":{"name":"a","colour":1,"name":"b","managedFields":[{"fieldsV1":{"a":{},"a":{}}}]},
        "data":{"z":"1","a":"1","a":"2"},"odd":1,"a\"b":1,"data":{"z":"2"},"Data":{}}"#;
    let (object, findings) = read_text("v1", "ConfigMap", text).unwrap();
    assert_eq!(
        findings,
        [
            r#"unknown field "odd""#,
            r#"unknown field "metadata.colour""#,
            r#"duplicate field "metadata.name""#,
            r#"duplicate field "data.a""#,
            r#"unknown field "a\"b""#,
            r#"duplicate field "data""#,
            r#"unknown field "Data""#,
        ]
    );
    assert_eq!((&object["data"], &object["metadata"]["name"]), (&json!({"a": "2", "z": "2"}), &json!("b")));
}

#[test]
fn what_is_there_twice_is_read_into_the_same_place() {
    let of_map = |text: &str| read_text("v1", "ConfigMap", text).unwrap().0;
    let owners = |text: &str| of_map(&format!(r#"{{"metadata":{{{text}}}}}"#))["metadata"]["ownerReferences"].clone();
    assert_eq!(of_map(r#"{"data":{"a":"1"},"data":{"b":"2"}}"#)["data"], json!({"a": "1", "b": "2"}));
    assert_eq!(of_map(r#"{"data":{"a":"1"},"data":null}"#)["data"], Value::Null);
    assert_eq!(of_map(r#"{"immutable":true,"immutable":null}"#)["immutable"], Value::Null, "a pointer is taken away");
    let twice = of_map(r#"{"metadata":{"name":"a","labels":{"x":"1"}},"metadata":{"name":null,"labels":{"y":"2"}}}"#);
    assert_eq!(twice["metadata"], json!({"name": "a", "labels": {"x": "1", "y": "2"}}));
    assert_eq!(
        owners(r#""ownerReferences":[{"uid":"1","name":"a"},{"uid":"2"}],"ownerReferences":[{"kind":"K"}]"#),
        json!([{"apiVersion": "", "kind": "K", "name": "a", "uid": "1"}])
    );
    assert_eq!(owners(r#""ownerReferences":[{"uid":"1"}],"ownerReferences":[]"#), Value::Null);
}

#[test]
fn the_first_complaint_of_the_text_is_the_one_that_is_told() {
    let told = |text: &str| read_text("v1", "ConfigMap", text).unwrap_err();
    assert!(told(r#"{"metadata":{"name":1},"data":[]}"#).ends_with("ObjectMeta.metadata.name of type string"));
    assert!(told(r#"{"data":[],"metadata":{"name":1}}"#).ends_with("ConfigMap.data of type map[string]string"));
    assert!(told(r#"{"data":[],"data":{}}"#).ends_with("ConfigMap.data of type map[string]string"));
    assert!(told(r#"{"kind":"Secret","kind":"Pod"}"#).starts_with("Pod in version"));
}

#[test]
fn wrong_types_are_refused_in_gos_words() {
    let about = |api_version: &str, kind: &str, body: Value| read(api_version, kind, body).unwrap_err();
    for (body, complaint) in [
        (json!({"data": {"a": 1}}), "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"),
        (
            json!({"data": [1]}),
            "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            json!({"immutable": "x"}),
            "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool",
        ),
        (json!({"binaryData": {"a": "!"}}), "illegal base64 data at input byte 0"),
        (
            json!({"metadata": {"ownerReferences": [{"uid": 1}]}}),
            "json: cannot unmarshal number into Go struct field OwnerReference.metadata.ownerReferences.uid of type types.UID",
        ),
    ] {
        assert_eq!(
            about("v1", "ConfigMap", body),
            format!("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: {complaint}")
        );
    }
}

#[test]
fn the_type_must_be_the_one_of_the_path() {
    let about = |body: Value| read("v1", "ConfigMap", body).unwrap_err();
    assert_eq!(
        about(json!({"apiVersion": "v2", "kind": "ConfigMap"})),
        "ConfigMap in version \"v2\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \"v2\" in \
         scheme \"pkg/api/legacyscheme/scheme.go:30\""
    );
    assert_eq!(
        about(json!({"kind": "Secret"})),
        "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion"
    );
    assert_eq!(
        about(json!({"kind": 1})),
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: json: \
         cannot unmarshal number into Go struct field .kind of type string ({\"kind\":1})"
    );
    assert_eq!(
        read("events.k8s.io/v1", "Event", json!({"apiVersion": "v1"})).unwrap_err(),
        "the API version in the data (v1) does not match the expected API version (events.k8s.io/v1)"
    );
}

#[test]
fn the_deepest_schema_fits_on_the_stack_of_a_worker() {
    // The maximum nesting of a body, in all ways that a schema nests. The daemon's workers have eight times this stack, but
    // decoding is not the only thing on it.
    for wrap in [
        |below: Value| json!({"items": below}),
        |below| json!({"properties": {"a": below}}),
        |below| json!({"not": below}),
    ] {
        let mut schema = json!({"type": "string"});
        while depth(&schema) < 120 {
            schema = wrap(schema);
        }
        let body = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}});
        let deep = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
            read("apiextensions.k8s.io/v1", "CustomResourceDefinition", body).map(|(object, _)| depth(&object))
        });
        assert!(deep.unwrap().join().unwrap().unwrap() > 120);
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
