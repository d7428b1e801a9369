//! Worst-case inputs: the largest objects and schemas that a server accepts are processed within the time of a request.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rdd_schema::{
    Props, Structural,
    crd::{self, Crd, NoRules},
    default,
    field::Path,
    listtype, objectmeta, prune, ratchet, strict, validate,
};
use serde_json::{Map, Value, json};

/// Ample for an unoptimized build on a busy machine, and too short for anything quadratic.
const BOUND: Duration = Duration::from_secs(10);

fn in_time<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = work();
    assert!(started.elapsed() < BOUND, "{what} took {:?}", started.elapsed());
    result
}

fn compile(schema: &Value) -> Arc<Structural> {
    Structural::compile(&Props::parse(schema).expect("it is a schema")).expect("it is structural")
}

fn list_of(schema: &Value) -> Value {
    json!({"type": "object", "properties": {"l": schema}})
}

#[test]
fn tens_of_thousands_of_items_that_are_all_wrong() {
    let schema = compile(&list_of(&json!({"type": "array", "items": {"type": "string", "maxLength": 2}})));
    for item in [json!(1), json!("abc"), json!(null), json!({})] {
        let value = json!({"l": vec![item; 30_000]});
        let errors = in_time("validating", || validate::validate(&Path::Nil, &schema, &value));
        assert_eq!(errors.len(), 30_000);
        let text = in_time("their text", || rdd_schema::field::aggregate(&errors));
        assert!(text.contains("l[29999]"));
        let forgiven = in_time("an update", || validate::validate_update(&Path::Nil, &schema, &value, &value));
        assert!(forgiven.is_empty());
    }
}

#[test]
fn sets_and_maps_with_tens_of_thousands_of_members() {
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}});
    let item =
        json!({"type": "object", "properties": {"k": {"type": "integer"}, "v": {"type": "integer", "maximum": 1}}});
    let map =
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item});
    let (set, map) = (compile(&list_of(&set)), compile(&list_of(&map)));
    let numbers = json!({"l": (0..30_000).chain(0..30_000).collect::<Vec<i64>>()});
    assert_eq!(in_time("a set", || listtype::validate(&Path::Nil, &set, &numbers)).len(), 30_000);
    let items =
        |value: i64| -> Value { json!({"l": (0..30_000).map(|key| json!({"k": key, "v": value})).collect::<Value>()}) };
    let (old, new) = (items(2), items(3));
    assert!(in_time("a map", || listtype::validate(&Path::Nil, &map, &new)).is_empty());
    let errors = in_time("ratcheting", || validate::validate_update(&Path::Nil, &map, &new, &old));
    assert_eq!(errors.len(), 30_000);
    let correlated = ratchet::Correlated { new: &new, old: &old, schema: &map };
    assert!(!in_time("comparing", || correlated.is_unchanged()));
}

#[test]
fn thousands_of_properties_that_an_object_has_all_or_none_of() {
    let property =
        |index: usize| (format!("p{index}"), json!({"type": "string", "default": "x", "pattern": "^[a-z]*$"}));
    let properties: Map<String, Value> = (0..3000).map(property).collect();
    let required: Vec<&String> = properties.keys().collect();
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "required": required, "properties": properties}}});
    let compiled = in_time("compiling", || compile(&schema));
    let mut empty = json!({"spec": {}});
    let missing = in_time("validating nothing", || validate::validate(&Path::Nil, &compiled, &empty));
    assert_eq!(missing.len(), 3000);
    in_time("defaulting", || default::apply(&mut empty, &compiled));
    assert!(in_time("validating all", || validate::validate(&Path::Nil, &compiled, &empty)).is_empty());
    let unknown: Map<String, Value> = (0..30_000).map(|index| (format!("u{index}"), json!([{"a": 1}]))).collect();
    let mut unknown = json!({"spec": unknown});
    assert_eq!(in_time("pruning", || prune::prune(&mut unknown, &compiled, true)).len(), 30_000);
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.g.io"},
        "spec": {"group": "g.io", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing", "listKind": "ThingList", "singular": "thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let mut definition = definition;
    in_time("a definition", || {
        crd::apply_defaults(&mut definition);
        let crd = Crd::parse(&definition).unwrap();
        assert!(crd::validate(&crd, &mut NoRules).is_empty());
    });
}

#[test]
fn three_megabytes_of_nested_lists_and_of_one_key() {
    let nested = format!("[{}]", vec![format!("{}{}", "[".repeat(100), "]".repeat(100)); 15_000].join(","));
    let document = in_time("reading lists", || strict::read(nested.as_bytes()).unwrap());
    let schema = compile(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    let mut value = json!({"l": document.value});
    in_time("validating lists", || validate::validate(&Path::Nil, &schema, &value));
    in_time("pruning lists", || prune::prune(&mut value, &schema, true));
    let repeated = format!("{{{}}}", vec!["\"a\":1"; 500_000].join(","));
    let document = in_time("reading duplicates", || strict::read(repeated.as_bytes()).unwrap());
    assert!(!document.findings.is_empty());
    let endless = "[".repeat(3 << 20);
    assert!(in_time("reading depth", || strict::read(endless.as_bytes())).is_err());
}

#[test]
fn metadata_with_as_much_as_a_body_holds() {
    let schema = compile(&json!({"type": "object"}));
    let names: Vec<String> = (0..30_000).map(|index| format!("g.io/f{index}")).collect();
    let labels: Map<String, Value> = names.iter().map(|name| (name.clone(), json!("not valid!"))).collect();
    let owner = |index: usize| json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": index.to_string(), "controller": true});
    let owners: Value = (0..10_000).map(owner).collect();
    let entries: Value =
        (0..10_000).map(|_| json!({"manager": "\u{7}", "operation": "No", "fieldsType": "No"})).collect();
    let object = json!({"apiVersion": "g.io/v1", "kind": "A", "metadata": {"name": "a", "namespace": "n", "resourceVersion": "1",
        "deletionTimestamp": "2020-01-01T00:00:00Z", "finalizers": names, "labels": labels, "ownerReferences": owners,
        "managedFields": entries}});
    let mut old = object.clone();
    old["metadata"]["finalizers"] = (0..30_000).map(|index| format!("g.io/o{index}")).collect();
    let resource = rdd_schema::resource::Resource {
        schema: &schema,
        namespaced: true,
        group: "g.io",
        version: "v1",
        kind: "A",
        scale: None,
    };
    assert!(in_time("a create", || resource.validate_create(&object)).len() > 30_000);
    assert!(!in_time("an update", || resource.validate_update(&object, &old)).is_empty());
    in_time("embedded", || objectmeta::validate(&Path::Nil, &object, &schema, true));
}

#[test]
fn definitions_with_thousands_of_versions() {
    let version = |index: usize| {
        json!({"name": format!("v{index}"), "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    let stored: Vec<String> = (0..30_000).map(|index| format!("w{index}")).collect();
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.g.io"},
        "spec": {"group": "g.io", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing", "listKind": "ThingList", "singular": "thing"},
            "versions": (0..5_000).map(version).collect::<Value>()},
        "status": {"storedVersions": stored}});
    let crd = Crd::parse(&definition).unwrap();
    let errors = in_time("validating", || crd::validate(&crd, &mut NoRules));
    let missing = errors.iter().filter(|error| error.detail.starts_with("missing from spec.versions"));
    assert_eq!(missing.count(), 30_000);
    let bytes: usize = errors.iter().map(|error| error.value.as_ref().map_or(0, String::len)).sum();
    assert!(bytes < 10 << 20, "{bytes} bytes of repeated values");
}

#[test]
fn three_megabytes_of_escapes_and_zeros() {
    let halves = format!("\"{}\"", "\\ud800".repeat(500_000));
    let document = in_time("halves of surrogate pairs", || strict::read(halves.as_bytes()).unwrap());
    assert_eq!(document.value.as_str().map(|text| text.chars().count()), Some(500_000));
    let zeros = format!("[{}]", vec!["-0"; 1_000_000].join(","));
    let document = in_time("zeros", || strict::read(zeros.as_bytes()).unwrap());
    assert!(document.value.as_array().is_some_and(|items| items.iter().all(|item| item.as_i64() == Some(0))));
}
