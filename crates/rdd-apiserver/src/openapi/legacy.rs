//! Converts the definitions of built-in types from version 3 to version 2.

use serde_json::{Map, Value};

/// Converts a definition from version 3 to version 2: removes defaults and alternatives and unwraps references. The recursion is
/// bounded, because the definitions are built in.
pub(super) fn to_v2(definition: &mut Value) {
    let Value::Object(schema) = definition else { return };
    schema.remove("default");
    schema.remove("nullable");
    unwrap_reference(schema);
    // Types with alternatives, such as int-or-string, are strings in version 2.
    // `|` does not short-circuit, so both members are removed.
    if schema.remove("oneOf").is_some() | schema.remove("anyOf").is_some() && !schema.contains_key("type") {
        schema.insert("type".to_owned(), "string".into());
    }
    if let Some(Value::String(reference)) = schema.get_mut("$ref") {
        *reference = reference.replacen("#/components/schemas/", "#/definitions/", 1);
    }
    for name in ["items", "additionalProperties"] {
        schema.get_mut(name).into_iter().for_each(to_v2);
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(to_v2);
    }
}

/// Replaces an `allOf` with one reference by the reference. Version 3 wraps references that have other members beside them.
fn unwrap_reference(schema: &mut Map<String, Value>) {
    let wrapped = schema.get("allOf").and_then(Value::as_array).filter(|all| all.len() == 1);
    if let Some(reference) = wrapped.and_then(|all| all[0].get("$ref")).cloned() {
        schema.remove("allOf");
        schema.insert("$ref".to_owned(), reference);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_plain_and_defaults_and_alternatives_are_gone() {
        let mut definition = json!({
            "type": "object",
            "properties": {
                "port": {"allOf": [{"$ref": "#/components/schemas/a.B"}], "description": "d", "default": 0},
                "list": {"type": "array", "items": {"$ref": "#/components/schemas/a.C", "default": {}}},
                "map": {"type": "object", "additionalProperties": {"type": "string", "default": ""}},
                "default": {"type": "string"},
            },
        });
        to_v2(&mut definition);
        assert_eq!(
            definition,
            json!({
                "type": "object",
                "properties": {
                    "port": {"$ref": "#/definitions/a.B", "description": "d"},
                    "list": {"type": "array", "items": {"$ref": "#/definitions/a.C"}},
                    "map": {"type": "object", "additionalProperties": {"type": "string"}},
                    "default": {"type": "string"},
                },
            })
        );
        let mut either = json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]});
        to_v2(&mut either);
        assert_eq!(either, json!({"format": "int-or-string", "type": "string"}));
    }
}
