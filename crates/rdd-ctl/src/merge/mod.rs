//! Computes patches from the last applied, the wanted and the live object; `rdd-patch` applies them.

pub(crate) mod migrate;
mod strategic;

use rdd_patch::shape::{Shape, openapi::Definitions};
use serde_json::{Map, Value};

pub(crate) use strategic::three_way as three_way_strategic;

use crate::discovery::split_group_version;

/// The schema of a built-in kind, which defines how its lists are merged; `None` for other kinds.
pub(crate) fn shape_of(api_version: &str, kind: &str) -> Option<Shape> {
    let (group, version) = split_group_version(api_version);
    let name = rdd_builtin::openapi::definition_name(group, version, kind)?;
    let definitions = rdd_builtin::openapi::closure([name]);
    Definitions::new(definitions, false).shape(name)
}

/// The JSON merge patch that changes `from` into `to`.
pub(crate) fn two_way(from: &Value, to: &Value) -> Value {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            let mut patch = Map::new();
            for (name, new) in to {
                match from.get(name) {
                    Some(old) if old == new => {}
                    Some(old @ Value::Object(_)) if new.is_object() => {
                        patch.insert(name.clone(), two_way(old, new));
                    }
                    _ => {
                        patch.insert(name.clone(), new.clone());
                    }
                }
            }
            for name in from.keys().filter(|name| !to.contains_key(*name)) {
                patch.insert(name.clone(), Value::Null);
            }
            Value::Object(patch)
        }
        (_, to) => to.clone(),
    }
}

/// The JSON merge patch that changes `live` into `wanted` and removes what was applied before but is no longer wanted.
pub(crate) fn three_way(applied: &Value, wanted: &Value, live: &Value) -> Value {
    let none = Map::new();
    let (applied, live) = (applied.as_object().unwrap_or(&none), live.as_object().unwrap_or(&none));
    let mut patch = Map::new();
    for (name, new) in wanted.as_object().unwrap_or(&none) {
        let old = applied.get(name).unwrap_or(&Value::Null);
        match (live.get(name), new) {
            (_, Value::Null) => {}
            (Some(found @ Value::Object(_)), Value::Object(_)) => {
                let inner = three_way(old, new, found);
                if inner.as_object().is_some_and(|inner| !inner.is_empty()) {
                    patch.insert(name.clone(), inner);
                }
            }
            (Some(found), new) if found == new => {}
            (_, new) => {
                patch.insert(name.clone(), without_nulls(new));
            }
        }
    }
    for (name, old) in applied {
        let is_gone = wanted.get(name).is_none_or(|new| new.is_null() && !old.is_null());
        if is_gone {
            patch.insert(name.clone(), Value::Null);
        }
    }
    Value::Object(patch)
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, field)| !field.is_null());
            Value::Object(kept.map(|(name, field)| (name.clone(), without_nulls(field))).collect())
        }
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_two_way_patch_holds_what_differs_and_nothing_else() {
        let (from, to) = (json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1]}), json!({"a": 1, "b": {"c": 3}, "e": [2]}));
        assert_eq!(two_way(&from, &to), json!({"b": {"c": 3, "d": null}, "e": [2]}));
        assert_eq!(two_way(&from, &from), json!({}));
    }

    #[test]
    fn a_three_way_patch_keeps_what_others_set() {
        let applied = json!({"spec": {"a": 1, "gone": true}});
        let wanted = json!({"spec": {"a": 2, "new": {"x": null, "y": 1}}});
        let live = json!({"spec": {"a": 1, "gone": true, "others": 5}});
        assert_eq!(three_way(&applied, &wanted, &live), json!({"spec": {"a": 2, "gone": null, "new": {"y": 1}}}));
        assert_eq!(three_way(&wanted, &wanted, &json!({"spec": {"a": 2, "new": {"y": 1}, "others": 5}})), json!({}));
    }
}
