//! Removes fields from a value, or extracts them.

use super::{
    super::{element::PathElement, set::Set},
    Form, form, item_element, to_set,
};
use crate::shape::{List, ListKind, Map, Shape};
use serde_json::{Map as JsonMap, Value};

/// Removes these fields and items from a value. A container that becomes empty is null, or is dropped with its parent.
///
/// Like upstream, an atomic list or map is removed as a whole if a path leads into it.
pub fn remove(value: &Value, fields: &Set, shape: &Shape) -> Value {
    Walk { extract: false }.value(value, fields, Some(shape))
}

/// Extracts these fields and items from a value.
pub fn extract(value: &Value, fields: &Set, shape: &Shape) -> Value {
    Walk { extract: true }.value(value, fields, Some(shape))
}

/// Like [`extract`], but each extracted item of a keyed list keeps its key fields.
pub fn extract_with_keys(value: &Value, fields: &Set, shape: &Shape) -> Value {
    // An invalid value has no known keys to keep.
    let Ok(present) = to_set(value, shape) else { return extract(value, fields, shape) };
    let mut keys = Set::new();
    for path in fields.paths().iter().filter(|path| present.contains(path)) {
        for (index, element) in path.iter().enumerate() {
            let PathElement::Key(fields) = element else { continue };
            for (name, _) in fields.iter() {
                let mut key = path[..=index].to_vec();
                key.push(PathElement::field(name));
                keys.insert(&key);
            }
        }
    }
    extract(value, &fields.union(&keys), shape)
}

struct Walk {
    extract: bool,
}

impl Walk {
    fn value(&self, value: &Value, fields: &Set, shape: Option<&Shape>) -> Value {
        let result = match (form(shape, value), value) {
            (Ok(Form::Scalar(_)), _) => Some(value.clone()),
            (Ok(Form::List(list)), Value::Array(items)) => {
                if items.is_empty() || list.kind == ListKind::Atomic {
                    self.extract.then(|| value.clone())
                } else {
                    self.items(items, fields, list)
                }
            }
            (Ok(Form::Map(map)), Value::Object(members)) => {
                if members.is_empty() || map.atomic {
                    self.extract.then(|| value.clone())
                } else {
                    self.members(members, fields, map)
                }
            }
            _ => None,
        };
        result.unwrap_or(Value::Null)
    }

    fn items(&self, items: &[Value], fields: &Set, list: &List) -> Option<Value> {
        let shape = Some(&list.element);
        let mut kept = Vec::new();
        for item in items {
            let entry = item_element(list, item).ok().and_then(|element| fields.entry(&element));
            let is_member = entry.is_some_and(|entry| entry.member);
            let below = entry.map(|entry| &entry.children).filter(|below| !below.is_empty());
            match (self.extract, is_member, below) {
                (true, _, Some(below)) => kept.push(self.value(item, below, shape)),
                (true, true, None) => kept.push(item.clone()),
                (true, false, None) | (false, true, _) => {}
                (false, false, Some(below)) => kept.push(self.value(item, below, shape)),
                (false, false, None) => kept.push(item.clone()),
            }
        }
        (!kept.is_empty()).then_some(Value::Array(kept))
    }

    fn members(&self, members: &JsonMap<String, Value>, fields: &Set, map: &Map) -> Option<Value> {
        let mut kept = JsonMap::new();
        for (name, value) in members {
            let shape = map.field_shape(name);
            let entry = fields.entry(&PathElement::field(name));
            let is_member = entry.is_some_and(|entry| entry.member);
            let below = entry.map(|entry| &entry.children).filter(|below| !below.is_empty());
            let result = match (self.extract, is_member, below) {
                // Upstream descends with the parent's set here, so nothing below a member is kept unless its names
                // repeat.
                (true, true, _) => self.value(value, fields, shape),
                (true, false, None) | (false, true, _) => continue,
                (_, false, Some(below)) => self.value(value, below, shape),
                (false, false, None) => value.clone(),
            };
            kept.insert(name.clone(), result);
        }
        (!kept.is_empty()).then_some(Value::Object(kept))
    }
}
