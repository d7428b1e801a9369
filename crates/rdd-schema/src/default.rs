//! Defaulting: fills in the defaults of a schema, on write and on read.

use serde_json::Value;

use crate::structural::Structural;

/// Applies defaults to an object that a server decoded or read from storage: [`prune_nulls`], then [`fill`].
pub fn apply(value: &mut Value, schema: &Structural) {
    prune_nulls(value, Some(schema));
    fill(value, Some(schema));
}

/// Removes nulls from fields that are neither nullable nor have a default. Nulls in lists stay.
pub fn prune_nulls(value: &mut Value, schema: Option<&Structural>) {
    match value {
        Value::Object(entries) => entries.retain(|key, entry| {
            let below = schema.and_then(|schema| schema.field(key));
            // A null with a default stays: `fill` replaces it.
            let doomed = entry.is_null() && below.is_some_and(|below| !below.nullable && below.default.is_none());
            if !doomed {
                prune_nulls(entry, below);
            }
            !doomed
        }),
        Value::Array(items) => {
            let below = schema.and_then(|schema| schema.items.as_deref());
            items.iter_mut().for_each(|item| prune_nulls(item, below));
        }
        _ => {}
    }
}

/// Sets absent fields, and nulls of fields that are not nullable, to their defaults, then does the same in every value below.
///
/// A default that was just filled in is filled in turn, because the walk goes on into it.
// A schema may be absent: nothing is specified below this value.
pub fn fill(value: &mut Value, schema: Option<&Structural>) {
    let Some(schema) = schema else { return };
    match value {
        Value::Object(entries) => {
            for (name, property) in schema.properties() {
                let Some(default) = &property.default else { continue };
                // A null that is not allowed counts as absent, so the default applies.
                let missing = match entries.get(name) {
                    None => true,
                    Some(present) => present.is_null() && !property.nullable,
                };
                if missing {
                    entries.insert(name.to_owned(), (**default).clone());
                }
            }
            // Nulls of declared properties were replaced above, those of other keys are replaced here.
            for (key, entry) in entries {
                match schema.property(key) {
                    Some(property) => fill(entry, Some(property)),
                    None => replace_null_and_fill(entry, schema.additional_schema()),
                }
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| replace_null_and_fill(item, schema.items.as_deref()));
        }
        _ => {}
    }
}

/// Replaces a null of a list item or an undeclared field by the default of its schema, then fills the value.
fn replace_null_and_fill(value: &mut Value, schema: Option<&Structural>) {
    if let Some(schema) = schema
        && value.is_null()
        && !schema.nullable
    {
        *value = schema.default.as_deref().cloned().unwrap_or(Value::Null);
    }
    fill(value, schema);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::props::Props;

    #[test]
    fn nulls_are_dropped_or_defaulted_or_kept_as_the_schema_says() {
        let schema = json!({"type": "object", "properties": {
            "plain": {"type": "string"}, "defaulted": {"type": "string", "default": "d"},
            "nullable": {"type": "string", "nullable": true, "default": "n"},
            "nested": {"type": "object", "default": {}, "properties": {"x": {"type": "integer", "default": 5}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"y": {"type": "boolean", "default": true}}}},
        }});
        let schema = Structural::compile(&Props::parse(&schema).unwrap()).unwrap();
        let mut value =
            json!({"plain": null, "defaulted": null, "nullable": null, "list": [{}, null], "unknown": null});
        apply(&mut value, &schema);
        let expected = json!({"defaulted": "d", "nullable": null, "nested": {"x": 5}, "list": [{"y": true}, null], "unknown": null});
        assert_eq!(value, expected);
    }
}
