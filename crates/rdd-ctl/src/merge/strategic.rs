//! Strategic merge patches: like JSON merge patches, but lists are merged by the rules of their schema.

use rdd_patch::{
    DEPTH_MAX,
    shape::{PatchRule, PatchStrategy, Shape},
};
use serde_json::{Map, Value, json};

/// The patch that changes `live` into `wanted` and removes what was applied before but is no longer wanted.
///
/// Beyond `DEPTH_MAX` values are replaced as a whole; the parser bounds the nesting below that.
pub(crate) fn three_way(applied: &Value, wanted: &Value, live: &Value, shape: &Shape) -> Value {
    Value::Object(objects(applied, wanted, live, Some(shape), 0))
}

fn field<'s>(shape: Option<&'s Shape>, name: &str) -> (Option<&'s Shape>, PatchRule) {
    let Some(map) = shape.and_then(|shape| shape.atom().map.as_ref()) else { return (None, PatchRule::default()) };
    match map.fields.get(name) {
        Some(field) => (Some(&field.shape), field.patch.clone()),
        None => (map.element.as_ref(), PatchRule::default()),
    }
}

fn objects(applied: &Value, wanted: &Value, live: &Value, shape: Option<&Shape>, depth: usize) -> Map<String, Value> {
    let none = Map::new();
    let (applied, wanted, live) =
        (applied.as_object().unwrap_or(&none), wanted.as_object().unwrap_or(&none), live.as_object().unwrap_or(&none));
    let mut patch = Map::new();
    for (name, new) in wanted {
        let old = applied.get(name).unwrap_or(&Value::Null);
        let Some(found) = live.get(name) else {
            patch.insert(name.clone(), new.clone());
            continue;
        };
        let (inner_shape, rule) = field(shape, name);
        match (found, new) {
            (Value::Object(_), Value::Object(fields))
                if rule.strategy != PatchStrategy::Replace && depth < DEPTH_MAX =>
            {
                let mut inner = objects(old, new, found, inner_shape, depth + 1);
                if inner.is_empty() {
                    continue;
                }
                if rule.retain_keys {
                    inner.insert("$retainKeys".to_owned(), fields.keys().cloned().collect());
                }
                patch.insert(name.clone(), Value::Object(inner));
            }
            (Value::Array(found), Value::Array(new)) if rule.strategy == PatchStrategy::Merge && depth < DEPTH_MAX => {
                let old = old.as_array().map_or(&[][..], Vec::as_slice);
                let element = inner_shape.and_then(|shape| shape.atom().list.as_ref()).map(|list| &list.element);
                let lists = Lists { old, new, found, element, depth };
                match rule.merge_key.as_deref() {
                    Some(key) => lists.of_objects(name, key, &mut patch),
                    None => lists.of_scalars(name, &mut patch),
                }
            }
            (found, new) if found == new => {}
            (_, new) => {
                patch.insert(name.clone(), new.clone());
            }
        }
    }
    for name in applied.keys().filter(|name| !wanted.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    patch
}

struct Lists<'a> {
    old: &'a [Value],
    new: &'a [Value],
    found: &'a [Value],
    element: Option<&'a Shape>,
    depth: usize,
}

impl Lists<'_> {
    fn of_scalars(&self, name: &str, patch: &mut Map<String, Value>) {
        let added: Vec<Value> = self.new.iter().filter(|item| !self.found.contains(item)).cloned().collect();
        let removed: Vec<Value> = self.old.iter().filter(|item| !self.new.contains(item)).cloned().collect();
        if !added.is_empty() || !removed.is_empty() || self.new != self.found {
            patch.insert(format!("$setElementOrder/{name}"), self.new.into());
        }
        if !added.is_empty() {
            patch.insert(name.to_owned(), added.into());
        }
        if !removed.is_empty() {
            patch.insert(format!("$deleteFromPrimitiveList/{name}"), removed.into());
        }
    }

    fn of_objects(&self, name: &str, key: &str, patch: &mut Map<String, Value>) {
        let with = |items: &[Value], value: &Value| items.iter().find(|item| item[key] == *value).cloned();
        let mut changed = Vec::new();
        for item in self.new {
            let Some(found) = with(self.found, &item[key]) else {
                changed.push(item.clone());
                continue;
            };
            let old = with(self.old, &item[key]).unwrap_or(Value::Null);
            let mut inner = objects(&old, item, &found, self.element, self.depth + 1);
            if !inner.is_empty() {
                // The merge key identifies the item in the patch.
                inner.insert(key.to_owned(), item[key].clone());
                changed.push(Value::Object(inner));
            }
        }
        for item in self.old.iter().filter(|item| with(self.new, &item[key]).is_none()) {
            changed.push(json!({ "$patch": "delete", key: item[key] }));
        }
        let keys = |items: &[Value]| items.iter().map(|item| item[key].clone()).collect::<Vec<_>>();
        if !changed.is_empty() || keys(self.new) != keys(self.found) {
            let order: Vec<Value> = self.new.iter().map(|item| json!({ key: item[key] })).collect();
            patch.insert(format!("$setElementOrder/{name}"), order.into());
        }
        if !changed.is_empty() {
            patch.insert(name.to_owned(), changed.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use rdd_patch::strategic;

    use super::*;
    use crate::merge::shape_of;

    /// Computes the patch, applies it, and returns both.
    fn applied(kind: (&str, &str), last: Value, wanted: Value, live: Value) -> (Value, Value) {
        let shape = shape_of(kind.0, kind.1).unwrap();
        let patch = three_way(&last, &wanted, &live, &shape);
        let result = strategic::apply(&live, &patch, &shape).unwrap();
        (patch, result)
    }

    #[test]
    fn ports_of_a_service_are_merged_by_their_number() {
        let last = json!({"spec": {"ports": [{"port": 80}, {"port": 81}]}});
        let wanted = json!({"spec": {"ports": [{"port": 80, "name": "web"}, {"port": 82}]}});
        let live = json!({"spec": {"ports": [{"port": 80, "protocol": "TCP"}, {"port": 81, "protocol": "TCP"}]}});
        let (_, result) = applied(("v1", "Service"), last, wanted, live);
        assert_eq!(result, json!({"spec": {"ports": [{"port": 80, "protocol": "TCP", "name": "web"}, {"port": 82}]}}));
    }

    #[test]
    fn finalizers_of_others_stay_and_ours_go() {
        let last = json!({"metadata": {"finalizers": ["a/b", "a/c"]}});
        let wanted = json!({"metadata": {"finalizers": ["a/b"]}});
        let live = json!({"metadata": {"finalizers": ["a/b", "a/c", "x/y"]}});
        let (_, result) = applied(("v1", "ConfigMap"), last, wanted, live);
        assert_eq!(result, json!({"metadata": {"finalizers": ["a/b", "x/y"]}}));
    }

    #[test]
    fn what_is_as_wanted_gives_an_empty_patch() {
        let wanted = json!({"data": {"a": "1"}, "metadata": {"labels": {"x": "y"}}});
        let live = json!({"data": {"a": "1", "b": "2"}, "metadata": {"labels": {"x": "y"}, "uid": "u"}});
        let (patch, _) = applied(("v1", "ConfigMap"), wanted.clone(), wanted, live);
        assert_eq!(patch, json!({}));
    }

    #[test]
    fn kinds_that_anyone_made_have_no_shape() {
        assert!(shape_of("books.example/v1", "Tale").is_none());
    }
}
