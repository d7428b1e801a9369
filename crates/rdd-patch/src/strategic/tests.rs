//! What directives do, on the shape of a pod.

use super::*;
use crate::shape::openapi::Definitions;
use serde_json::json;
use std::collections::BTreeMap;

fn shape() -> Shape {
    Definitions::new(BTreeMap::new(), false).inline(&json!({"type": "object", "properties": {
        "containers": {"type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "image": {"type": "string"},
                "args": {"type": "array", "items": {"type": "string"}}}}},
        "finalizers": {"type": "array", "x-kubernetes-patch-strategy": "merge", "items": {"type": "string"}},
        "strategy": {"type": "object", "x-kubernetes-patch-strategy": "retainKeys",
            "properties": {"type": {"type": "string"}, "rollingUpdate": {"type": "object", "properties": {"x": {"type": "integer"}}}}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    }}))
}

fn check(original: Value, patch: Value, expected: Result<Value, &str>) {
    let result = apply(&original, &patch, &shape()).map_err(|error| error.to_string());
    assert_eq!(result, expected.map_err(str::to_owned), "{original} {patch}");
}

#[test]
fn items_are_merged_by_key_and_the_order_of_the_patch_wins() {
    check(
        json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}, {"name": "c"}]}),
        json!({"containers": [{"name": "c", "image": "2"}, {"name": "a", "args": ["x"]}, {"name": "d"}]}),
        Ok(
            json!({"containers": [{"name": "b"}, {"name": "c", "image": "2"}, {"name": "a", "image": "1", "args": ["x"]},
            {"name": "d"}]}),
        ),
    );
}

#[test]
fn directives_delete_and_replace() {
    check(
        json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        json!({"containers": [{"name": "a", "$patch": "delete"}]}),
        Ok(json!({"containers": [{"name": "b"}]})),
    );
    check(
        json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        json!({"containers": [{"$patch": "replace"}, {"name": "z"}]}),
        Ok(json!({"containers": [{"name": "z"}]})),
    );
    check(
        json!({"labels": {"a": "1"}}),
        json!({"labels": {"$patch": "replace", "b": "2"}}),
        Ok(json!({"labels": {"b": "2"}})),
    );
    check(json!({"labels": {"a": "1"}}), json!({"labels": {"$patch": "delete"}}), Ok(json!({"labels": {}})));
}

#[test]
fn parallel_lists_delete_scalars_and_set_the_order() {
    check(
        json!({"finalizers": ["a", "b", "c"]}),
        json!({"$deleteFromPrimitiveList/finalizers": ["b"], "$setElementOrder/finalizers": ["c", "a"]}),
        Ok(json!({"finalizers": ["c", "a"]})),
    );
    check(
        json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "s"}]}),
        json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "n"}, {"name": "a"}], "containers": [{"name": "n"}]}),
        Ok(json!({"containers": [{"name": "b"}, {"name": "n"}, {"name": "a"}, {"name": "s"}]})),
    );
}

#[test]
fn retained_keys_clear_the_others() {
    check(
        json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"x": 1}}}),
        json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
        Ok(json!({"strategy": {"type": "Recreate"}})),
    );
    check(json!({}), json!({"$retainKeys": ["a"], "labels": {}}), Err("invalid patch format of retainKeys"));
}

#[test]
fn errors_name_what_does_not_fit() {
    check(
        json!({"containers": [{"name": "a"}]}),
        json!({"containers": [{"image": "x"}]}),
        Err("map: map[image:x] does not contain declared merge key: name"),
    );
    check(
        json!({"labels": {"a": {}}}),
        json!({"labels": {"a": {}}}),
        Err("merging an object in json but data type is not struct, instead is: map"),
    );
    check(json!({"finalizers": [["a"]]}), json!({"finalizers": [["a"]]}), Err("lists of lists are not supported"));
}
