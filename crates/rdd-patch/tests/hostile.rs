//! The largest and slowest requests that a server accepts: each must finish within the time of a request.

use rdd_patch::{
    json, merge,
    shape::{Shape, openapi::Definitions},
    ssa::{
        ApplyOptions, FieldManager, Filter, SameSchema, Set, Timestamp,
        typed::{self, Duplicates},
    },
    strategic,
};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Ample for an unoptimized build on a busy machine, and far too short for anything quadratic.
const BOUND: Duration = Duration::from_secs(30);
const NOW: Timestamp = Timestamp(0);
/// The versions of entries, of which the last is not served.
const VERSIONS: [&str; 3] = ["v1", "v2", "v0"];

fn in_time<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = work();
    assert!(started.elapsed() < BOUND, "{what} took {:?}", started.elapsed());
    result
}

fn shape() -> Shape {
    let schema = json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"},
        "metadata": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "integer"}, "v": {"type": "string"}}}},
        "data": {"type": "object", "additionalProperties": {"type": "string"}}}});
    Definitions::new(BTreeMap::new(), false).inline(&schema)
}

fn converter() -> SameSchema {
    SameSchema(BTreeMap::from([("v1".to_owned(), shape()), ("v2".to_owned(), shape())]))
}

fn manager<'a>(converter: &'a SameSchema, reset_fields: &'a Filter) -> FieldManager<'a> {
    FieldManager {
        api_version: "v1",
        kind: "T",
        subresource: "",
        converter,
        reset_fields,
        empty: None,
        default: &|_| {},
    }
}

fn object(fields: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "T", "metadata": {"name": "x", "uid": "u"}});
    if let (Value::Object(object), Value::Object(fields)) = (&mut object, fields) {
        object.extend(fields);
    }
    object
}

/// Names in descending order: inserting them one by one into a sorted list moves all others each time.
fn falling(count: usize) -> Vec<String> {
    (0..count).rev().map(|index| format!("n{index:06}")).collect()
}

#[test]
fn a_set_and_a_map_of_tens_of_thousands_of_items_in_the_worst_order() {
    let keyed = |value: &str| -> Vec<Value> { (0..15_000).rev().map(|key| json!({"k": key, "v": value})).collect() };
    let old = object(json!({"set": falling(30_000), "map": keyed("a")}));
    let new = object(json!({"set": falling(27_000), "map": keyed("b")}));
    let (converter, reset) = (converter(), Filter::new());
    let manager = manager(&converter, &reset);
    let options = |name| ApplyOptions { manager: name, force: true, now: NOW };
    let applied = in_time("the first apply", || manager.apply(&manager.empty_object(), &old, options("a")).unwrap());
    assert_eq!(applied["set"].as_array().map(Vec::len), Some(30_000));
    let again = in_time("an apply of less", || manager.apply(&applied, &new, options("a")).unwrap());
    assert_eq!(again["set"].as_array().map(Vec::len), Some(27_000));
    let forced = in_time("an apply by another", || manager.apply(&applied, &new, options("b")).unwrap());
    assert_eq!(forced["set"].as_array().map(Vec::len), Some(30_000));
    in_time("an update", || manager.update(&applied, new.clone(), "c", NOW).unwrap());
    in_time("checking", || typed::validate(&new, &shape(), Duplicates::Refuse).unwrap());
    let conflict = in_time("refusing", || {
        manager.apply(&applied, &new, ApplyOptions { manager: "b", force: false, now: NOW }).unwrap_err()
    });
    assert!(in_time("its text", || conflict.to_string()).contains("conflict"));
}

#[test]
fn fields_whose_order_on_the_wire_is_not_their_own() {
    let numbers: Map<String, Value> = (0..30_000).map(|number| (format!("v:{number}"), json!({}))).collect();
    let keys: Map<String, Value> = (0..15_000).map(|number| (format!("k:{{\"k\":{number}}}"), json!({}))).collect();
    let document = json!({"f:set": numbers, "f:map": keys});
    let set = in_time("reading", || Set::from_value(&document).unwrap());
    assert_eq!(set.len(), 45_000);
    assert_eq!(in_time("writing", || set.to_value()), document);
    in_time("text", || set.to_json());
}

#[test]
fn ten_thousand_owners_of_a_large_object() {
    let data =
        |value: &str| -> Map<String, Value> { falling(20_000).into_iter().map(|name| (name, json!(value))).collect() };
    for operation in ["Apply", "Update"] {
        let entry = |index: usize| {
            json!({"manager": format!("m{index}"), "operation": operation, "apiVersion": VERSIONS[index % VERSIONS.len()],
                "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {format!("f:n{index:06}"): {}}}})
        };
        let mut old = object(json!({"data": data("a")}));
        old["metadata"]["managedFields"] = (0..10_000).map(entry).collect();
        let new = object(json!({"data": data("b")}));
        let (converter, reset) = (converter(), Filter::from([("v1".to_owned(), Set::new())]));
        let manager = manager(&converter, &reset);
        in_time("an update", || manager.update(&old, new.clone(), "c", NOW).unwrap());
        in_time("an update of nothing", || manager.update(&old, old.clone(), "c", NOW).unwrap());
        let options = ApplyOptions { manager: "m0", force: true, now: NOW };
        in_time("an apply", || manager.apply(&old, &new, options).unwrap());
        let refused =
            in_time("a refused apply", || manager.apply(&old, &new, ApplyOptions { force: false, ..options }));
        assert!(in_time("its text", || refused.unwrap_err().to_string()).contains("conflict"));
    }
}

#[test]
fn wide_and_deep_lists_by_every_way_of_patching() {
    let row = || Value::Array(vec![Value::Array(Vec::new()); 500]);
    let names: Value = (0..50).map(|index| json!({"name": index})).collect();
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner, [], {}, names]));
    for lists in [json!(vec![row(); 500]), deep] {
        let mut body = object(json!({}));
        body["metadata"]["lists"] = lists;
        in_time("merging", || merge::apply(&body, &body).unwrap());
        in_time("strategic merging", || strategic::apply(&body, &body, &built_in()).unwrap_err());
        let (converter, reset) = (converter(), Filter::new());
        in_time("updating", || manager(&converter, &reset).update(&body, body.clone(), "m", NOW).unwrap());
    }
}

/// The shape of a built-in kind, with lists of names and of keyed objects, which strategic patches merge.
fn built_in() -> Shape {
    let item = json!({"type": "object", "properties": {"k": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {
        "metadata": {"type": "object"},
        "names": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
        "keyed": {"type": "array", "items": item, "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "k"}}});
    Definitions::new(BTreeMap::new(), false).inline(&schema)
}

#[test]
fn strategic_merges_of_long_lists() {
    let names = falling(30_000);
    let keyed = |directive: &str| -> Value {
        names
            .iter()
            .map(|name| if directive.is_empty() { json!({"k": name}) } else { json!({"k": name, "$patch": directive}) })
            .collect()
    };
    let original = json!({"names": names, "keyed": keyed("")});
    let twice: Vec<&String> = names.iter().rev().chain(&names).collect();
    let merged =
        in_time("repeated names", || strategic::apply(&original, &json!({"names": twice}), &built_in()).unwrap());
    assert_eq!(merged["names"].as_array().map(Vec::len), Some(30_000));
    let merged =
        in_time("deletions", || strategic::apply(&original, &json!({"keyed": keyed("delete")}), &built_in()).unwrap());
    assert_eq!(merged["keyed"].as_array().map(Vec::len), Some(0));
    let merged = in_time("order", || {
        let patch = json!({"$setElementOrder/names": names.iter().rev().collect::<Vec<_>>(), "$deleteFromPrimitiveList/names": names});
        strategic::apply(&original, &patch, &built_in()).unwrap()
    });
    assert_eq!(merged["names"].as_array().map(Vec::len), Some(0));
    let fields: Map<String, Value> = names.iter().map(|name| (name.clone(), json!(1))).collect();
    let mut patch = fields.clone();
    patch.insert("$retainKeys".into(), json!(names));
    let merged =
        in_time("retained keys", || strategic::apply(&Value::Object(fields), &Value::Object(patch), &shape()).unwrap());
    assert_eq!(merged.as_object().map(Map::len), Some(30_000));
}

/// A patch with the maximum number of operations.
fn patch(operation: impl Fn(usize) -> Value) -> json::Patch {
    json::Patch::decode(&(0..json::OPERATIONS_MAX).map(operation).collect()).expect("it is as long as it may be")
}

#[test]
fn as_many_operations_as_a_patch_may_have_and_one_more() {
    let insert = |_| json!({"op": "add", "path": "/list/0", "value": 1});
    let list = json!({"list": vec![0; 300_000]});
    let patched = in_time("insertions before all others", || patch(insert).apply(&list).unwrap());
    assert_eq!(patched["list"].as_array().map(Vec::len), Some(310_000));
    let patched = in_time("removals of the first", || {
        patch(|_| json!({"op": "remove", "path": "/list/0"})).apply(&list).unwrap()
    });
    assert_eq!(patched["list"].as_array().map(Vec::len), Some(290_000));
    let to_the_end = |_| json!({"op": "move", "from": "/list/0", "path": "/list/-"});
    in_time("moves to the end", || patch(to_the_end).apply(&list).unwrap());
    let one_more: Value = (0..=json::OPERATIONS_MAX).map(insert).collect();
    assert!(in_time("one more", || json::Patch::decode(&one_more)).is_err());
}

#[test]
fn ten_thousand_looks_at_a_large_document() {
    let list = json!({"list": vec![json!([]); 300_000], "twin": {}, "a": []});
    let copies = |_| json!({"op": "copy", "from": "/a", "path": "/twin/a"});
    in_time("copies of a little beside much", || patch(copies).apply(&list).unwrap());
    let there_and_back = |index: usize| match index % 2 {
        0 => json!({"op": "move", "from": "/list", "path": "/twin/list"}),
        _ => json!({"op": "move", "from": "/twin/list", "path": "/list"}),
    };
    assert_eq!(in_time("moves of much", || patch(there_and_back).apply(&list).unwrap()), list);
    for path in ["", "/list"] {
        let test = |_| json!({"op": "test", "path": path, "value": {}});
        assert!(in_time("a test that fails", || patch(test).apply(&list)).is_err());
    }
    let same =
        json!([{"op": "test", "path": "/list", "value": list["list"]}, {"op": "test", "path": "", "value": list}]);
    in_time("tests that hold", || json::Patch::decode(&same).unwrap().apply(&list).unwrap());
}

#[test]
fn a_document_that_is_put_into_itself_is_refused_before_it_is_too_deep_to_free() {
    let nested = (0..100).fold(json!({}), |inner, _| json!({ "a": inner }));
    let add = |index: usize| json!({"op": "add", "path": "/a".repeat(100 * index + 1), "value": nested});
    let operations: Value = (0..60).map(add).collect();
    let refused = in_time("adding", || json::Patch::decode(&operations).unwrap().apply(&json!({})));
    assert!(refused.unwrap_err().to_string().contains("nested"));
    let doubling: Value = (0..64).map(|_| json!({"op": "copy", "from": "/list", "path": "/list/0"})).collect();
    assert!(in_time("doubling", || json::Patch::decode(&doubling).unwrap().apply(&json!({"list": ["x"]}))).is_err());
}
