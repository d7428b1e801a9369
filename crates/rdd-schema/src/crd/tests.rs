//! Validation of complete CRDs, correct and incorrect ones.

use serde_json::json;

use super::*;

fn errors(schema: Value) -> Vec<String> {
    let mut value = json!({
        "metadata": {"name": "foos.g.io"},
        "spec": {"group": "g.io", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    });
    apply_defaults(&mut value);
    validate(&Crd::parse(&value).unwrap(), &mut NoRules).iter().map(Error::to_string).collect()
}

#[test]
fn a_plain_structural_schema_has_no_errors() {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "pattern": "^a+$", "default": "a"}}},
        "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
    }});
    assert_eq!(errors(schema), [""; 0]);
}

#[test]
fn a_second_stored_version_of_the_same_name_is_not_among_the_stored_ones() {
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let mut value = json!({
        "metadata": {"name": "foos.g.io"},
        "spec": {"group": "g.io", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [version, version]},
        "status": {"storedVersions": ["v1"]},
    });
    apply_defaults(&mut value);
    let errors = validate(&Crd::parse(&value).unwrap(), &mut NoRules);
    let about_status: Vec<String> =
        errors.iter().map(Error::to_string).filter(|text| text.starts_with("status.storedVersions")).collect();
    assert_eq!(about_status, [r#"status.storedVersions: Invalid value: ["v1"]: must have the storage version v1"#]);
}

#[test]
fn what_is_not_structural_is_named_at_the_top_of_the_spec() {
    let schema =
        json!({"type": "object", "properties": {"a": {}, "b": {"type": "string", "allOf": [{"type": "string"}]}}});
    let root = "spec.validation.openAPIV3Schema.properties";
    assert_eq!(
        errors(schema),
        [
            format!("{root}[a].type: Required value: must not be empty for specified object fields"),
            format!("{root}[b].allOf[0].type: Forbidden: must be empty to be structural"),
        ]
    );
}

#[test]
fn a_default_must_fit_and_have_no_unknown_fields() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "object", "default": {"x": 1}, "properties": {"y": {"type": "string"}}},
        "b": {"type": "string", "maxLength": 1, "default": "long"},
    }});
    let root = "spec.validation.openAPIV3Schema.properties";
    assert_eq!(
        errors(schema),
        [
            format!("{root}[a].default: Invalid value: {{\"x\":1}}: must not have unknown fields"),
            format!("{root}[b].default: Too long: may not be more than 1 byte"),
        ]
    );
}

#[test]
fn keys_of_a_map_list_must_always_be_there() {
    let schema = json!({"type": "object", "properties": {"l": {"type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {"k": {"type": "string"}}}}}});
    let place = "spec.validation.openAPIV3Schema.properties[l].items.properties[k].default";
    let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
    assert_eq!(errors(schema), [format!("{place}: Required value: {detail}")]);
}
