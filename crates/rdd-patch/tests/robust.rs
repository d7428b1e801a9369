//! No input causes a panic or endless recursion: documents and schemas of any structure, up to the parser's depth and
//! beyond.

use proptest::{collection, prelude::*};
use rdd_patch::{
    DEPTH_MAX, json, merge,
    shape::{Shape, openapi::Definitions},
    ssa::{
        ApplyOptions, FieldManager, Filter, SameSchema, Set, Timestamp,
        typed::{self, Duplicates},
    },
    strategic,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Words with a meaning in some format, so that random documents pass the first checks.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::sample::select(vec![
            "a", "b", "name", "op", "path", "from", "value", "add", "copy", "move", "test", "/a", "/a/0", "/-", "metadata", "spec",
            "managedFields", "fieldsV1", "FieldsV1", "fieldsType", "operation", "Apply", "Update", "manager", "apiVersion", "kind", "v1",
            "T", "time", "annotations", "kubectl.kubernetes.io/last-applied-configuration", "$patch", "$retainKeys", "delete", "replace",
            "merge", "$setElementOrder/a", "$deleteFromPrimitiveList/a", ".", "f:a", "k:{\"a\":1}", "v:1", "i:0", "type", "object",
            "array", "string", "items", "properties", "additionalProperties", "$ref", "allOf", "x-kubernetes-list-type", "set", "map",
            "atomic", "x-kubernetes-list-map-keys", "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key",
            "x-kubernetes-preserve-unknown-fields", "default", "#/Root",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0..3_i64).prop_map(Value::from),
        word().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            collection::btree_map(word(), inner, 0..6).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

fn shape_of(schema: &Value) -> Shape {
    let definitions = Definitions::new(BTreeMap::from([("Root".to_owned(), schema.clone())]), false);
    definitions.inline(schema)
}

fn everything(left: &Value, right: &Value, shape: &Shape) {
    if let Ok(patch) = json::Patch::decode(right) {
        let _ = patch.apply(left);
    }
    let _ = json::unknown_fields(right);
    let _ = merge::apply(left, right);
    let _ = strategic::apply(left, right, shape);
    let fields = Set::from_value(right).unwrap_or_default();
    let _ = (fields.to_json(), fields.to_value(), fields.leaves(), fields.paths());
    let converter = SameSchema(BTreeMap::from([("v1".to_owned(), shape.clone())]));
    let reset_fields = Filter::new();
    let manager = FieldManager {
        api_version: "v1",
        kind: "T",
        subresource: "",
        converter: &converter,
        reset_fields: &reset_fields,
        empty: None,
        default: &|_| {},
    };
    let now = Timestamp(0);
    let _ = manager.update(left, right.clone(), "m", now);
    let _ = manager.apply(left, right, ApplyOptions { manager: "kubectl", force: false, now });
    let is_valid = |value| typed::validate(value, shape, Duplicates::Allow).is_ok();
    if is_valid(left) && is_valid(right) {
        let _ = typed::merge(left, right, shape);
        let _ = typed::compare(left, right, shape);
        let _ = typed::to_set(left, shape);
        let _ = (typed::remove(left, &fields, shape), typed::extract_with_keys(left, &fields, shape));
        let _ = typed::reconcile(&fields, shape);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_on_any_document(left in document(), right in document(), schema in document()) {
        everything(&left, &right, &shape_of(&schema));
        everything(&left, &right, &Shape::deduced());
        everything(&json!({"apiVersion": "v1", "kind": "T", "metadata": right, "spec": left}),
            &json!({"apiVersion": "v1", "kind": "T", "metadata": left, "spec": right}), &Shape::deduced());
    }
}

/// A document with `core` nested this deep in alternating objects and lists.
fn nested(depth: usize, core: Value) -> Value {
    (0..depth).fold(core, |inner, level| if level % 2 == 0 { json!({"a": inner}) } else { json!([inner]) })
}

#[test]
fn the_deepest_document_that_is_accepted_does_not_overflow_the_stack() {
    let schema = json!({"properties": {"a": {"$ref": "#/Root"}}, "items": {"$ref": "#/Root"}, "x-kubernetes-preserve-unknown-fields": true});
    let objects = |core: Value| (1..DEPTH_MAX).fold(core, |inner, _| json!({"a": inner}));
    for shape in [shape_of(&schema), Shape::deduced()] {
        everything(&nested(DEPTH_MAX - 1, json!(1)), &nested(DEPTH_MAX - 1, json!(2)), &shape);
        everything(&objects(json!(1)), &objects(json!(2)), &shape);
    }
}

#[test]
fn a_deeper_document_is_refused_everywhere() {
    let (deep, flat) = (nested(DEPTH_MAX + 1, json!(1)), json!({}));
    let shape = Shape::deduced();
    assert!(merge::apply(&deep, &flat).is_err() && merge::apply(&flat, &deep).is_err());
    assert!(strategic::apply(&deep, &flat, &shape).is_err() && strategic::apply(&flat, &deep, &shape).is_err());
    assert!(json::Patch::decode(&json!([deep])).is_err());
    assert!(json::Patch::decode(&json!([])).unwrap().apply(&deep).is_err());
    let fields = (0..=DEPTH_MAX + 1).fold(json!({}), |inner, _| json!({"f:a": inner}));
    assert!(Set::from_value(&fields).is_err());
}

#[test]
fn long_lists_are_merged_in_the_time_of_a_request() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "integer"}}}},
        "b": {"type": "array", "x-kubernetes-patch-strategy": "merge", "items": {"type": "string"}}}});
    let items = |value: i64| -> Vec<Value> {
        (0..20_000).map(|index| json!({"name": format!("n{index}"), "value": value})).collect()
    };
    let scalars = |prefix: &str| -> Vec<String> { (0..20_000).map(|index| format!("{prefix}{index}")).collect() };
    let (left, right) = (json!({"a": items(1), "b": scalars("x")}), json!({"a": items(2), "b": scalars("y")}));
    let started = std::time::Instant::now();
    let merged = strategic::apply(&left, &right, &shape_of(&schema)).unwrap();
    assert_eq!(merged["a"].as_array().map(Vec::len), Some(20_000));
    assert_eq!(merged["b"].as_array().map(Vec::len), Some(40_000));
    everything(&left, &right, &shape_of(&schema));
    assert!(started.elapsed() < std::time::Duration::from_secs(30), "{:?}", started.elapsed());
}
