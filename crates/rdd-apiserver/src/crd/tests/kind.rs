//! Tests of custom resources through the `Kind` interface of the generic handlers.

use rdd_meta::time::Timestamp;
use serde_json::{Value, json};

use super::support::{NOW, mk_def, mk_foo, mk_kind, mk_version, texts};
use crate::registry::{Finding, Origin};

fn spec(properties: Value) -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": properties},
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}, "n": {"type": "integer", "maximum": 3}}}}})
}

#[test]
fn decoding_prunes_defaults_and_tells_what_was_unknown() {
    let kind = mk_kind(spec(json!({"size": {"type": "integer", "default": 3}})));
    let mut object = mk_foo(json!({"spec": {"odd": 1}}));
    assert_eq!(kind.decode(&mut object, Origin::Request).unwrap(), [Finding::UnknownField("spec.odd".into())]);
    assert_eq!(object["spec"], json!({"size": 3}));

    let mut malformed = mk_foo(json!({"metadata": {"name": "a", "labels": {"x": 1}}}));
    let refused = kind.decode(&mut malformed, Origin::Request).unwrap_err();
    assert_eq!(refused.code, 400);
    assert!(refused.message.starts_with(r#"Foo in version "v1" cannot be handled as a Foo: "#), "{}", refused.message);
}

#[test]
fn a_create_has_no_status_and_begins_with_the_first_generation() {
    let kind = mk_kind(spec(json!({})));
    let mut object = mk_foo(json!({"status": {"ready": true}}));
    kind.prepare_for_create(&mut object);
    assert_eq!((object.get("status"), &object["metadata"]["generation"]), (None, &json!(1)));
}

#[test]
fn without_a_status_endpoint_the_status_is_a_field_like_any() {
    let mut version = mk_version("v1", spec(json!({})));
    version.as_object_mut().unwrap().remove("subresources");
    let def = mk_def(vec![version]);
    let kind = &def.versions[0].kind;
    let mut object = mk_foo(json!({"status": {"ready": true}}));
    kind.prepare_for_create(&mut object);
    assert_eq!(object["status"], json!({"ready": true}));
    let mut new = mk_foo(json!({"status": {"ready": false}}));
    kind.prepare_for_update("", &mut new, &object);
    assert_eq!((&new["status"], &new["metadata"]["generation"]), (&json!({"ready": false}), &json!(2)));
    assert!(kind.reset_fields("").is_empty());
    assert!(def.versions[0].subresources.is_empty());
}

#[test]
fn each_endpoint_changes_its_own_part_and_the_generation_counts_the_rest() {
    let kind = mk_kind(spec(json!({"a": {"type": "integer"}})));
    let meta = json!({"name": "a", "namespace": "n", "generation": 4, "labels": {"l": "old"}});
    let old = mk_foo(json!({"metadata": meta, "spec": {"a": 1}, "status": {"ready": true}}));
    let update = |endpoint: &str, content: Value| {
        let mut new = old.clone();
        new.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
        kind.prepare_for_update(endpoint, &mut new, &old);
        new
    };
    let new = update("", json!({"spec": {"a": 2}, "status": {"ready": false}}));
    assert_eq!(
        (&new["spec"]["a"], &new["status"], &new["metadata"]["generation"]),
        (&json!(2), &json!({"ready": true}), &json!(5))
    );

    let meta = json!({"name": "a", "namespace": "n", "generation": 4, "labels": {"l": "new"}, "managedFields": [{"manager": "m"}]});
    let new = update("", json!({"metadata": meta, "status": {}}));
    assert_eq!((&new["metadata"]["labels"], &new["metadata"]["generation"]), (&json!({"l": "new"}), &json!(4)));

    let new = update("status", json!({"metadata": meta, "spec": {"a": 9}, "status": {"ready": false}}));
    assert_eq!((&new["spec"]["a"], &new["status"]), (&json!(1), &json!({"ready": false})));
    let kept = json!({"name": "a", "namespace": "n", "generation": 4, "labels": {"l": "old"}, "managedFields": [{"manager": "m"}]});
    assert_eq!(new["metadata"], kept);
    assert_eq!(kind.reset_fields("")["g.io/v1"].len(), 1);
    assert_eq!(kind.reset_fields("status")["g.io/v1"].paths().len(), 1);
}

#[test]
fn a_zero_has_no_sign_once_it_is_prepared_for_the_store() {
    let kind = mk_kind(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    let sent = || mk_foo(json!({"spec": {"a": [-0.0, {"b": -0.0}], "c": -0.5, "d": 0.0}}));
    let expected = r#"{"a":[0,{"b":0}],"c":-0.5,"d":0}"#;
    let mut created = sent();
    kind.prepare_for_create(&mut created);
    assert_eq!(rdd_meta::go_json::to_string(&created["spec"]), expected);
    let mut updated = sent();
    kind.prepare_for_update("", &mut updated, &created);
    assert_eq!(rdd_meta::go_json::to_string(&updated["spec"]), expected);
    assert_eq!(updated["metadata"].get("generation"), None, "nothing changed");
}

#[test]
fn the_metadata_has_a_last_look_when_the_schema_found_nothing() {
    let kind = mk_kind(spec(json!({"a": {"type": "integer"}})));
    let errors = |content: Value| texts(&kind.validate_create(&mk_foo(content)));
    let metadata = json!({"name": "a", "namespace": "n", "generateName": "a/-"});
    let prefix = r#"metadata.generateName: Invalid value: "a/-": may not contain '/'"#;
    assert_eq!(errors(json!({"metadata": metadata})), [prefix]);
    let found = errors(json!({"metadata": metadata, "spec": {"a": "x"}}));
    assert!(!found.is_empty() && !found.iter().any(|error| error == prefix), "{found:?}");
}

#[test]
fn the_schema_is_checked_before_rules_and_makes_them_pointless_when_it_fails() {
    let mut schema = spec(json!({"a": {"type": "integer", "maximum": 5}, "b": {"type": "string"}}));
    schema["properties"]["spec"]["x-kubernetes-validations"] =
        json!([{"rule": "self.a < 3", "message": "a is too large"}]);
    schema["properties"]["spec"]["required"] = json!(["b"]);
    let kind = mk_kind(schema);
    let errors = |content: Value| texts(&kind.validate_create(&mk_foo(content)));
    assert_eq!(errors(json!({"spec": {"a": 1, "b": "x"}})), [""; 0]);
    assert_eq!(errors(json!({"spec": {"a": 4, "b": "x"}})), ["spec: Invalid value: a is too large"]);
    let not_checked = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; \
                       correct the existing errors to complete validation";
    assert_eq!(errors(json!({"spec": {"a": 4}})), ["spec.b: Required value", not_checked]);
    assert_eq!(
        errors(json!({"spec": {"a": 6, "b": "x"}})),
        [
            "spec.a: Invalid value: 6: spec.a in body should be less than or equal to 5",
            "spec: Invalid value: a is too large"
        ]
    );
}

#[test]
fn what_an_update_leaves_as_wrong_as_it_was_is_let_pass_with_a_warning() {
    let mut schema = spec(json!({"a": {"type": "integer"}, "b": {"type": "integer"}}));
    schema["properties"]["spec"]["properties"]["a"]["x-kubernetes-validations"] = json!([{"rule": "self < 3"}]);
    schema["properties"]["spec"]["properties"]["b"]["x-kubernetes-validations"] =
        json!([{"rule": "self >= oldSelf", "message": "b must not shrink"}]);
    let kind = mk_kind(schema);
    let foo = |a: i64, b: i64| {
        let meta = json!({"name": "a", "namespace": "n", "resourceVersion": "1"});
        mk_foo(json!({"metadata": meta, "spec": {"a": a, "b": b}}))
    };
    assert_eq!(texts(&kind.validate_update("", &foo(7, 2), &foo(7, 1))), [""; 0]);
    assert_eq!(kind.warnings(&foo(7, 2), Some(&foo(7, 1))), ["spec.a: Invalid value: 7: failed rule: self < 3"]);
    let worse = texts(&kind.validate_update("", &foo(8, 2), &foo(7, 2)));
    assert_eq!(worse, ["spec.a: Invalid value: 8: failed rule: self < 3"]);
    let smaller = texts(&kind.validate_update("", &foo(1, 1), &foo(1, 2)));
    assert_eq!(smaller, ["spec.b: Invalid value: 1: b must not shrink"]);
}

#[test]
fn the_status_endpoint_checks_the_status() {
    let kind = mk_kind(spec(json!({"a": {"type": "integer", "maximum": 1}})));
    let foo = |n: i64| {
        let meta = json!({"name": "a", "namespace": "n", "resourceVersion": "1"});
        mk_foo(json!({"metadata": meta, "spec": {"a": 9}, "status": {"n": n}}))
    };
    let errors = texts(&kind.validate_update("status", &foo(4), &foo(1)));
    assert_eq!(errors, ["status.n: Invalid value: 4: n in body should be less than or equal to 3"]);
    assert_eq!(texts(&kind.validate_update("status", &foo(2), &foo(1))), [""; 0]);
}

#[test]
fn items_of_sets_and_maps_are_there_once() {
    let kind =
        mk_kind(spec(json!({"s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}})));
    let twice = mk_foo(json!({"spec": {"s": ["x", "x"]}}));
    assert_eq!(texts(&kind.validate_create(&twice)), [r#"spec.s[1]: Duplicate value: "x""#]);
    let meta = json!({"name": "a", "namespace": "n", "resourceVersion": "1"});
    let mut old = twice.clone();
    old["metadata"] = meta;
    let mut new = old.clone();
    new["spec"]["s"] = json!(["x", "x", "y"]);
    assert_eq!(texts(&kind.validate_update("", &new, &old)), [""; 0]);
}

#[test]
fn ill_named_finalizers_are_warned_about_once() {
    let kind = mk_kind(spec(json!({})));
    let foo = |finalizers: &[&str]| mk_foo(json!({"metadata": {"name": "a", "finalizers": finalizers}}));
    let sentence = |name: &str, path: &str| {
        format!(
            "metadata.finalizers: \"{name}\": prefer a domain-qualified finalizer name{path} to avoid accidental conflicts \
                 with other finalizer writers"
        )
    };
    let warnings = kind.warnings(&foo(&["z", "a.b", "g.io/fine", "orphan"]), None);
    assert_eq!(warnings, [sentence("a.b", " including a path (/)"), sentence("z", "")]);
    assert_eq!(kind.warnings(&foo(&["z"]), Some(&foo(&["z"]))), [""; 0]);
}

#[test]
fn columns_show_what_they_point_at_and_the_age_where_none_are_declared() {
    let now = Timestamp::new(i64::try_from(NOW).unwrap(), 0);
    let mut version = mk_version("v1", spec(json!({"a": {"type": "integer"}})));
    let def = mk_def(vec![version.clone()]);
    let kind = &def.versions[0].kind;
    let object =
        mk_foo(json!({"metadata": {"name": "a", "creationTimestamp": "2023-11-14T22:08:20Z"}, "spec": {"a": 7}}));
    assert_eq!(kind.columns().iter().map(|column| column.name.as_str()).collect::<Vec<_>>(), ["Name", "Age"]);
    assert_eq!(kind.cells(&object, now), [json!("a"), json!("5m")]);

    version["additionalPrinterColumns"] = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.a", "priority": 1},
        {"name": "Missing", "type": "string", "jsonPath": ".spec.b", "description": "what is not there"}]);
    version["selectableFields"] = json!([{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.gone"}]);
    let def = mk_def(vec![version]);
    let kind = &def.versions[0].kind;
    let [name, size, missing] = kind.columns() else { panic!("two columns are declared") };
    assert_eq!(
        (size.priority, size.description.as_str()),
        (1, "Custom resource definition column (in JSONPath format): .spec.a")
    );
    assert_eq!(name.format, "name");
    assert_eq!(missing.description, "what is not there");
    assert_eq!(kind.cells(&object, now), [json!("a"), json!(7), Value::Null]);
    assert_eq!(kind.selectable_fields(), ["spec.a", "spec.gone"]);
    assert_eq!(
        (kind.selectable_field(&object, "spec.a"), kind.selectable_field(&object, "spec.gone")),
        ("7".into(), String::new())
    );
}
