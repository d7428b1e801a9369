//! Ratcheting: finds the values that an update does not change, so that validation can ignore old errors in them.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::structural::{ListType, Structural, Type};

/// A value, its counterpart before the update, and their schema.
///
/// Properties and map values correlate by key, items of `x-kubernetes-list-type: map` by their list map keys. Items of other
/// lists do not correlate, and nothing correlates below a field that the schema does not specify.
#[derive(Clone, Copy, Debug)]
pub struct Correlated<'a> {
    /// The value after the update.
    pub new: &'a Value,
    /// The value before the update.
    pub old: &'a Value,
    /// The schema of both.
    pub schema: &'a Structural,
}

impl<'a> Correlated<'a> {
    /// Returns the value under `key` with its counterpart, if both objects have the key and the schema specifies it.
    pub fn key(&self, key: &str) -> Option<Correlated<'a>> {
        let new = self.new.as_object()?.get(key)?;
        let old = self.old.as_object()?.get(key)?;
        Some(Correlated { new, old, schema: self.schema.field(key)? })
    }

    /// Indexes the old items of a list by their list map keys.
    pub fn items(&self) -> CorrelatedItems<'a> {
        let keys = self.schema.list_map_keys();
        let is_map = self.schema.list_type == Some(ListType::Map);
        let mut found = HashMap::new();
        if is_map
            && self.schema.kind == Some(Type::Array)
            && !keys.is_empty()
            && let Some(old) = self.old.as_array()
        {
            for item in old {
                if let Some(identity) = item.as_object().and_then(|item| identity(item, self.schema)) {
                    // Of old items with equal keys, the first counts.
                    found.entry(identity).or_insert(item);
                }
            }
        }
        CorrelatedItems { schema: self.schema, is_map, found }
    }

    /// Whether the update left the value unchanged. A value with unspecified fields counts as changed, as it does upstream.
    pub fn is_unchanged(&self) -> bool {
        match (self.new, self.old) {
            (Value::Array(new), Value::Array(old)) => {
                if new.len() != old.len() {
                    return false;
                }
                let items = self.items();
                // Items of an atomic list or a set do not correlate, so such a list is compared as a whole.
                if !items.is_map {
                    return new == old;
                }
                new.iter().all(|item| items.find(item).is_some_and(|item| item.is_unchanged()))
            }
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len() && new.keys().all(|key| self.key(key).is_some_and(|entry| entry.is_unchanged()))
            }
            (new, old) => new == old,
        }
    }
}

/// The old items of a list, indexed by their list map keys.
#[derive(Debug)]
pub struct CorrelatedItems<'a> {
    schema: &'a Structural,
    is_map: bool,
    found: HashMap<String, &'a Value>,
}

impl<'a> CorrelatedItems<'a> {
    /// Returns a new item with the old item that has the same keys.
    pub fn find(&self, new: &'a Value) -> Option<Correlated<'a>> {
        let identity = identity(new.as_object()?, self.schema)?;
        let old = self.found.get(&identity)?;
        Some(Correlated { new, old, schema: self.schema.items.as_deref()? })
    }
}

/// The keys of an item as one string; `None` when a key is absent or is not a scalar.
fn identity(item: &Map<String, Value>, schema: &Structural) -> Option<String> {
    let keys = schema.list_map_keys();
    let mut out = String::new();
    for key in keys {
        let text = match item.get(&**key)? {
            Value::Bool(flag) => flag.to_string(),
            Value::String(text) => format!("{text:?}"),
            Value::Number(number) => match number.as_i64() {
                Some(integer) => format!("int {integer}"),
                // As upstream: several keys are compared as text with six decimals, one key as a number.
                None if keys.len() > 1 => format!("float {:.6}", number.as_f64()?),
                None => format!("float {number}"),
            },
            _ => return None,
        };
        // A separator that no part contains: strings are escaped by `{:?}`.
        out.push('\0');
        out.push_str(&text);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::props::Props;

    #[test]
    fn items_of_a_map_list_correlate_by_key_and_others_do_not() {
        let item = json!({"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}});
        let mut schema = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item});
        let (old, new) =
            (json!([{"k": "a", "v": 1}, {"k": "b", "v": 2}]), json!([{"k": "b", "v": 2}, {"k": "a", "v": 1}]));
        let compiled = Structural::compile(&Props::parse(&schema).unwrap()).unwrap();
        let lists = Correlated { new: &new, old: &old, schema: &compiled };
        assert!(lists.is_unchanged());
        assert_eq!(lists.items().find(&new[0]).unwrap().old, &old[1]);

        schema["x-kubernetes-list-type"] = json!("atomic");
        let compiled = Structural::compile(&Props::parse(&schema).unwrap()).unwrap();
        let lists = Correlated { new: &new, old: &old, schema: &compiled };
        assert!(!lists.is_unchanged() && lists.items().find(&new[0]).is_none());
    }
}
