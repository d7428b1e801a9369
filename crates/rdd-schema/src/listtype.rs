//! Validates `x-kubernetes-list-type`: a set has no value twice, a map no key twice.

use std::collections::HashMap;

use rdd_meta::go_json;
use serde_json::{Map, Value};

use crate::{
    field::{Error, Path},
    structural::{ListType, Structural},
};

/// Returns an error for every list in `value` that has duplicates against its `x-kubernetes-list-type`.
///
/// Only lists below an object are checked, because a resource is an object.
pub fn validate(path: &Path<'_>, schema: &Structural, value: &Value) -> Vec<Error> {
    let mut errors = Vec::new();
    if let Value::Object(entries) = value {
        object(path, schema, entries, &mut errors);
    }
    errors
}

fn object(path: &Path<'_>, schema: &Structural, entries: &Map<String, Value>, errors: &mut Vec<Error>) {
    if let Some(below) = schema.additional_schema() {
        entries.iter().for_each(|(key, entry)| any(&path.key(key), below, entry, errors));
    }
    for (key, entry) in entries {
        if let Some(below) = schema.property(key) {
            any(&path.child(key), below, entry, errors);
        }
    }
}

fn any(path: &Path<'_>, schema: &Structural, value: &Value, errors: &mut Vec<Error>) {
    match value {
        Value::Array(items) => list(path, schema, items, errors),
        Value::Object(entries) => object(path, schema, entries, errors),
        _ => {}
    }
}

fn list(path: &Path<'_>, schema: &Structural, items: &[Value], errors: &mut Vec<Error>) {
    match schema.list_type {
        Some(ListType::Set) => {
            let duplicates = second_occurrences(items.iter().map(Some));
            errors.extend(duplicates.into_iter().map(|at| Error::duplicate(path.index(at), &items[at])));
        }
        Some(ListType::Map) => map(path, schema, items, errors),
        _ => {}
    }
    // Lists of lists are checked at every level, whatever the type of the outer one.
    if let Some(below) = schema.items.as_deref() {
        items.iter().enumerate().for_each(|(at, item)| any(&path.index(at), below, item, errors));
    }
}

fn map(path: &Path<'_>, schema: &Structural, items: &[Value], errors: &mut Vec<Error>) {
    // Null items count as objects without keys.
    if let Some(at) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
        let detail = "must be an object for an array of list-type map";
        errors.push(Error::invalid(path.index(at), &items[at], detail));
        return;
    }
    match schema.list_map_keys() {
        // A single key is compared as a scalar, several keys as one object.
        [key] => {
            let keys: Vec<Option<&Value>> = items.iter().map(|item| item.get(&**key)).collect();
            for at in second_occurrences(keys.iter().copied()) {
                let mut shown = Map::new();
                if let Some(value) = keys[at] {
                    shown.insert(key.to_string(), value.clone());
                }
                errors.push(Error::duplicate(path.index(at), &Value::Object(shown)));
            }
        }
        keys => {
            // An absent key is left out, so that two items without it are equal in it.
            let composite = |item: &Value| {
                let parts = keys.iter().filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone())));
                Value::Object(parts.collect())
            };
            let composites: Vec<Value> = items.iter().map(composite).collect();
            for at in second_occurrences(composites.iter().map(Some)) {
                errors.push(Error::duplicate(path.index(at), &composites[at]));
            }
        }
    }
}

/// Returns the index of the second occurrence of each repeated value; later occurrences are not reported.
///
/// At the top level an integer and a float are never equal. Inside of objects and lists they are equal when they are written
/// the same.
fn second_occurrences<'v>(values: impl Iterator<Item = Option<&'v Value>>) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut duplicates = Vec::new();
    for (at, value) in values.enumerate() {
        let identity = match value {
            None => String::from("absent"),
            Some(value @ (Value::Object(_) | Value::Array(_))) => go_json::to_string(value),
            Some(Value::Number(number)) if number.as_i64().is_none() => format!("float {number}"),
            Some(scalar) => format!("scalar {scalar}"),
        };
        let times = seen.entry(identity).or_default();
        *times += 1;
        if *times == 2 {
            duplicates.push(at);
        }
    }
    duplicates
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::props::Props;

    fn errors(list: Value, schema: Value) -> Vec<String> {
        let schema = json!({"type": "object", "properties": {"l": schema}});
        let schema = Structural::compile(&Props::parse(&schema).unwrap()).unwrap();
        validate(&Path::Nil, &schema, &json!({"l": list})).iter().map(Error::to_string).collect()
    }

    #[test]
    fn each_repeated_value_of_a_set_is_reported_once() {
        let schema = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}});
        assert_eq!(errors(json!([1, 2, 1, 1, 1.5]), schema), ["l[2]: Duplicate value: 1"]);
    }

    #[test]
    fn keys_of_a_map_are_unique_and_an_absent_key_is_a_key() {
        let item = json!({"type": "object", "properties": {"k": {"type": "string"}}});
        let schema = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item});
        assert_eq!(
            errors(json!([{"k": "a", "v": 1}, {}, {"k": "a"}, null]), schema.clone()),
            [r#"l[2]: Duplicate value: {"k":"a"}"#, "l[3]: Duplicate value: {}"]
        );
        assert_eq!(
            errors(json!([1]), schema),
            ["l[0]: Invalid value: 1: must be an object for an array of list-type map"]
        );
    }
}
