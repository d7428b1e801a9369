//! Pruning: removes the fields that a schema does not specify.

use serde_json::Value;

use crate::structural::Structural;

/// Fields of every resource. Pruning keeps them; the coercion of metadata checks their content.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes the fields of `value` that `schema` does not specify, and returns their paths, sorted.
///
/// `resource_root` means that `value` is a whole resource, whose `apiVersion`, `kind` and `metadata` stay. Where
/// `x-kubernetes-preserve-unknown-fields` is set, unknown fields stay, and pruning resumes below the fields that are specified.
pub fn prune(value: &mut Value, schema: &Structural, resource_root: bool) -> Vec<String> {
    let mut pruner = Pruner { path: String::new(), steps: 0, dropped: Vec::new() };
    pruner.prune(value, Some(schema), resource_root || schema.embedded_resource);
    pruner.dropped.sort();
    pruner.dropped
}

struct Pruner {
    /// The path of the current value.
    path: String,
    /// The depth of the current value; 0 at the root. The path alone cannot show it, because a key may be empty.
    steps: usize,
    dropped: Vec<String>,
}

impl Pruner {
    fn at_key(&mut self, key: &str, visit: impl FnOnce(&mut Pruner)) {
        let length = self.path.len();
        if self.steps > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        self.steps += 1;
        visit(self);
        self.steps -= 1;
        self.path.truncate(length);
    }

    fn at_index(&mut self, index: usize, visit: impl FnOnce(&mut Pruner)) {
        let length = self.path.len();
        self.path.push_str(&format!("[{index}]"));
        self.steps += 1;
        visit(self);
        self.steps -= 1;
        self.path.truncate(length);
    }

    fn drop_field(&mut self, key: &str) {
        self.at_key(key, |pruner| pruner.dropped.push(pruner.path.clone()));
    }

    /// Prunes one value. `embedded` replaces the schema's own `embedded_resource`, because the root of a resource does not have
    /// it.
    fn prune(&mut self, value: &mut Value, schema: Option<&Structural>, embedded: bool) {
        match (value, schema) {
            (value, Some(schema)) if schema.preserve_unknown_fields => self.preserve(value, schema, embedded),
            // Without a schema nothing is specified, so every field goes.
            (Value::Object(entries), None) => {
                entries.keys().for_each(|key| self.drop_field(key));
                entries.clear();
            }
            (Value::Object(entries), Some(schema)) => entries.retain(|key, entry| {
                if embedded && META_FIELDS.contains(&key.as_str()) {
                    return true;
                }
                let declared = schema.property(key);
                if declared.is_none() && !schema.has_additional() {
                    // At the root these three are removed silently: a schema need not list them.
                    if self.steps > 0 || !META_FIELDS.contains(&key.as_str()) {
                        self.drop_field(key);
                    }
                    return false;
                }
                let below = declared.or_else(|| schema.additional_schema());
                self.at_key(key, |pruner| pruner.below(entry, below));
                true
            }),
            // Items without a schema are pruned too: they lose all fields.
            (Value::Array(items), schema) => {
                let below = schema.and_then(|schema| schema.items.as_deref());
                for (index, item) in items.iter_mut().enumerate() {
                    self.at_index(index, |pruner| pruner.below(item, below));
                }
            }
            _ => {}
        }
    }

    fn below(&mut self, value: &mut Value, schema: Option<&Structural>) {
        self.prune(value, schema, schema.is_some_and(|schema| schema.embedded_resource));
    }

    /// Keeps every field of this value, and prunes below the fields that are specified.
    fn preserve(&mut self, value: &mut Value, schema: &Structural, embedded: bool) {
        match value {
            Value::Object(entries) => {
                for (key, entry) in entries {
                    if embedded && META_FIELDS.contains(&key.as_str()) {
                        continue;
                    }
                    if let Some(declared) = schema.property(key) {
                        self.at_key(key, |pruner| pruner.below(entry, Some(declared)));
                    } else if schema.has_additional() {
                        self.at_key(key, |pruner| pruner.below(entry, schema.additional_schema()));
                    }
                }
            }
            Value::Array(items) => {
                let Some(below) = schema.items.as_deref() else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    self.at_index(index, |pruner| pruner.preserve(item, below, below.embedded_resource));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::props::Props;

    fn check(schema: Value, mut value: Value, expected: Value, dropped: &[&str]) {
        let schema = Structural::compile(&Props::parse(&schema).unwrap()).unwrap();
        assert_eq!(prune(&mut value, &schema, true), dropped);
        assert_eq!(value, expected);
    }

    #[test]
    fn unspecified_fields_go_and_are_named_and_metadata_stays() {
        check(
            json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}),
            json!({"kind": "X", "metadata": {"odd": 1}, "spec": {"a": "1", "b": [1]}, "extra": {}}),
            json!({"kind": "X", "metadata": {"odd": 1}, "spec": {"a": "1"}}),
            &["extra", "spec.b"],
        );
    }

    #[test]
    fn pruning_resumes_below_what_is_specified_inside_a_preserved_object() {
        check(
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"l": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}}}),
            json!({"free": {"x": 1}, "l": [{"a": "", "b": 1}]}),
            json!({"free": {"x": 1}, "l": [{"a": ""}]}),
            &["l[0].b"],
        );
    }
}
