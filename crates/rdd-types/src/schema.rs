//! From the schema of a Rust type to a structural one, and the pieces that Rust types cannot say.

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value, json};

/// What the API server takes for a quantity, as text or as a number.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// The structural schema of a type.
pub(crate) fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = Value::from(settings.into_generator().into_root_schema_for::<T>());
    structural(&mut schema);
    schema
}

/// Prose as it is shown: the lines of a paragraph are one line.
pub(crate) fn prose(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| {
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        words.join(" ")
    });
    let paragraphs: Vec<String> = paragraphs.filter(|paragraph| !paragraph.is_empty()).collect();
    paragraphs.join("\n\n")
}

/// Puts a schema into the form that Kubernetes calls structural. What is optional is absent and never null.
fn structural(schema: &mut Value) {
    let Value::Object(node) = schema else { return };
    node.remove("title");
    unwrap_option(node);
    gather_words(node);
    if let Some(Value::Array(types)) = node.get("type") {
        let one = types.iter().find(|one| *one != "null").cloned().unwrap_or_default();
        node.insert("type".to_owned(), one);
    }
    if let Some(Value::Array(words)) = node.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if node.get("default") == Some(&Value::Null) {
        node.remove("default");
    }
    if let Some(Value::String(text)) = node.get_mut("description") {
        *text = prose(text);
    }
    if let Some(Value::Array(required)) = node.get_mut("required") {
        required.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(below) = node.get_mut(key) {
            structural(below);
        }
    }
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        properties.values_mut().for_each(structural);
    }
}

/// `T` or null is `T`: the words of the field win over those of its type.
fn unwrap_option(node: &mut Map<String, Value>) {
    let Some(Value::Array(ways)) = node.get("anyOf") else { return };
    let Some(at) = ways.iter().position(|way| way["type"] == "null") else { return };
    let Some(Value::Object(inner)) = ways.get(1 - at.min(1)).cloned() else { return };
    node.remove("anyOf");
    for (key, value) in inner {
        node.entry(key).or_insert(value);
    }
}

/// An enum whose words are explained one by one is a list of words.
fn gather_words(node: &mut Map<String, Value>) {
    let Some(Value::Array(ways)) = node.get("oneOf") else { return };
    let words = ways.iter().flat_map(|way| match (&way["const"], &way["enum"]) {
        (Value::Null, Value::Array(words)) => words.clone(),
        (word, _) => vec![word.clone()],
    });
    let words: Vec<Value> = words.collect();
    node.remove("oneOf");
    node.insert("type".to_owned(), json!("string"));
    node.insert("enum".to_owned(), Value::Array(words));
}

/// A number without a format, as Go's `int` gives it.
pub(crate) fn integer(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer"})
}

/// A time.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

/// A quantity, as text or as a number.
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": QUANTITY,
        "x-kubernetes-int-or-string": true,
    })
}

/// Conditions, of which there is one of each type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": condition(),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

/// Conditions that are replaced as a whole.
pub(crate) fn atomic_conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": condition()})
}

fn condition() -> Value {
    json!({
        "type": "object",
        "description": "One aspect of the state of an object.",
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "lastTransitionTime": {
                "type": "string",
                "format": "date-time",
                "description": "When the status last became another one.",
            },
            "message": {
                "type": "string",
                "maxLength": 32768,
                "description": "What happened, for people. May be empty.",
            },
            "observedGeneration": {
                "type": "integer",
                "format": "int64",
                "minimum": 0,
                "description": "The generation of the object that this was said of. If it is less than metadata.generation, it is out of date.",
            },
            "reason": {
                "type": "string",
                "minLength": 1,
                "maxLength": 1024,
                "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                "description": "Why the status is what it is, in one word for programs.",
            },
            "status": {
                "type": "string",
                "enum": ["True", "False", "Unknown"],
                "description": "Whether it holds: True, False or Unknown.",
            },
            "type": {
                "type": "string",
                "maxLength": 316,
                "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                "description": "Which aspect this is about.",
            },
        },
    })
}

/// Whether a number is nought, and therefore not written.
pub(crate) fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// Whether a number is nought, and therefore not written.
pub(crate) fn is_zero_wide(number: &i64) -> bool {
    *number == 0
}

/// Whether a flag is down, and therefore not written.
pub(crate) fn is_false(flag: &bool) -> bool {
    !*flag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_keeps_its_paragraphs_and_loses_its_line_breaks() {
        assert_eq!(prose(" One line\n goes on.\n\n Another\n"), "One line goes on.\n\nAnother");
        assert_eq!(prose("\n\n"), "");
    }
}
