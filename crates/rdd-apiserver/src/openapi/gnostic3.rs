//! Encodes the version 3 document as the protobuf message of `gnostic`, piece by piece; see [`gnostic`](super::gnostic).

use rdd_builtin::protobuf::{put_bytes, put_double, put_integer, put_message};
use serde_json::Value;

use super::{
    document::Section,
    gnostic::{
        Fields,
        Kind::{Double, Flag, Integer, Many, One, Text, Texts},
        any, message, named, put_named, text,
    },
};

const DOCUMENT: Fields = &[
    ("openapi", 1, Text),
    ("info", 2, One(|out, value| message(out, INFO, 7, value))),
    // The entries are written separately; this empty message makes the field present even without entries.
    ("paths", 4, One(|_, _| {})),
    ("components", 5, One(|out, value| message(out, COMPONENTS, 10, value))),
];

const INFO: Fields = &[("title", 1, Text), ("description", 2, Text), ("version", 6, Text)];

const COMPONENTS: Fields =
    &[("schemas", 1, One(|_, _| {})), ("securitySchemes", 7, One(|out, value| named(out, 1, security_scheme, value)))];

const SECURITY_SCHEME: Fields = &[("type", 1, Text), ("description", 2, Text), ("name", 3, Text), ("in", 4, Text)];

const PATH_ITEM: Fields = &[
    ("get", 4, One(operation)),
    ("put", 5, One(operation)),
    ("post", 6, One(operation)),
    ("delete", 7, One(operation)),
    ("options", 8, One(operation)),
    ("head", 9, One(operation)),
    ("patch", 10, One(operation)),
    ("parameters", 13, Many(parameter)),
];

const OPERATION: Fields = &[
    ("tags", 1, Texts),
    ("summary", 2, Text),
    ("description", 3, Text),
    ("operationId", 5, Text),
    ("parameters", 6, Many(parameter)),
    ("requestBody", 7, One(|out, value| put_message(out, 1, |out| message(out, REQUEST_BODY, 4, value)))),
    ("responses", 8, One(|out, value| named(out, 2, response, value))),
    ("deprecated", 10, Flag),
];

const REQUEST_BODY: Fields = &[("description", 1, Text), ("content", 2, One(content)), ("required", 3, Flag)];

const RESPONSE: Fields = &[("description", 1, Text), ("content", 3, One(content))];

const MEDIA_TYPE: Fields = &[("schema", 1, One(schema_or_reference))];

const PARAMETER: Fields = &[
    ("name", 1, Text),
    ("in", 2, Text),
    ("description", 3, Text),
    ("required", 4, Flag),
    ("schema", 10, One(schema_or_reference)),
];

/// The fields of a reference. It has no others and no extensions.
const REFERENCE: [(&str, u32); 3] = [("$ref", 1), ("summary", 2), ("description", 3)];

const SCHEMA: Fields = &[
    ("nullable", 1, Flag),
    ("readOnly", 3, Flag),
    ("writeOnly", 4, Flag),
    ("example", 7, One(any)),
    ("deprecated", 8, Flag),
    ("title", 9, Text),
    ("multipleOf", 10, Double),
    ("maximum", 11, Double),
    ("exclusiveMaximum", 12, Flag),
    ("minimum", 13, Double),
    ("exclusiveMinimum", 14, Flag),
    ("maxLength", 15, Integer),
    ("minLength", 16, Integer),
    ("pattern", 17, Text),
    ("maxItems", 18, Integer),
    ("minItems", 19, Integer),
    ("uniqueItems", 20, Flag),
    ("maxProperties", 21, Integer),
    ("minProperties", 22, Integer),
    ("required", 23, Texts),
    ("enum", 24, Many(any)),
    ("type", 25, Text),
    ("allOf", 26, Many(schema_or_reference)),
    ("oneOf", 27, Many(schema_or_reference)),
    ("anyOf", 28, Many(schema_or_reference)),
    ("not", 29, One(schema)),
    ("items", 30, One(|out, value| put_message(out, 1, |out| schema_or_reference(out, value)))),
    ("properties", 31, One(|out, value| named(out, 1, schema_or_reference, value))),
    ("additionalProperties", 32, One(additional_properties)),
    ("default", 33, One(default)),
    ("description", 34, Text),
    ("format", 35, Text),
];

/// Writes the members other than paths and schemas.
pub(super) fn members(out: &mut Vec<u8>, members: &Value) {
    message(out, DOCUMENT, 9, members);
}

/// Writes one path or one schema.
pub(super) fn entry(out: &mut Vec<u8>, section: Section, name: &str, value: &Value) {
    match section {
        Section::Paths => put_message(out, 4, |out| put_named(out, 1, path_item, name, value)),
        Section::Definitions => put_message(out, 5, |out| {
            put_message(out, 1, |out| put_named(out, 1, schema_or_reference, name, value));
        }),
    }
}

fn path_item(out: &mut Vec<u8>, value: &Value) {
    message(out, PATH_ITEM, 14, value);
}

fn operation(out: &mut Vec<u8>, value: &Value) {
    message(out, OPERATION, 13, value);
}

fn parameter(out: &mut Vec<u8>, value: &Value) {
    put_message(out, 1, |out| message(out, PARAMETER, 14, value));
}

fn response(out: &mut Vec<u8>, value: &Value) {
    put_message(out, 1, |out| message(out, RESPONSE, 5, value));
}

fn content(out: &mut Vec<u8>, value: &Value) {
    named(out, 1, |out, value| message(out, MEDIA_TYPE, 5, value), value);
}

fn security_scheme(out: &mut Vec<u8>, value: &Value) {
    put_message(out, 1, |out| message(out, SECURITY_SCHEME, 9, value));
}

fn schema(out: &mut Vec<u8>, value: &Value) {
    message(out, SCHEMA, 36, value);
}

fn schema_or_reference(out: &mut Vec<u8>, value: &Value) {
    match value.get("$ref") {
        Some(_) => put_message(out, 2, |out| {
            REFERENCE.iter().for_each(|(name, number)| text(out, *number, value[*name].as_str().unwrap_or_default()));
        }),
        None => put_message(out, 1, |out| schema(out, value)),
    }
}

/// Encodes `additionalProperties`: a schema for all of them, or whether they are allowed.
fn additional_properties(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Bool(any) => put_integer(out, 2, i64::from(*any)),
        _ => put_message(out, 1, |out| schema_or_reference(out, value)),
    }
}

/// Encodes a default. The message can hold only scalars; for a list or an object it is empty.
fn default(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Number(number) => put_double(out, 1, number.as_f64().unwrap_or_default()),
        Value::Bool(value) => put_integer(out, 2, i64::from(*value)),
        Value::String(text) => put_bytes(out, 3, text.as_bytes()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use serde_json::json;

    use super::*;

    /// `testdata/gnostic3.base64` is the output of gnostic's own parser for the JSON beside it, with fields ordered by number.
    // Finding E-18
    #[test]
    fn a_document_of_one_path_and_one_schema_is_byte_for_byte_what_gnostic_makes_of_it() {
        let document: Value = serde_json::from_str(include_str!("testdata/gnostic3.json")).unwrap();
        let expected = STANDARD.decode(include_str!("testdata/gnostic3.base64").replace('\n', "")).unwrap();
        let mut out = Vec::new();
        members(&mut out, &json!({"openapi": document["openapi"], "info": document["info"]}));
        let paths = document["paths"].as_object().unwrap();
        assert_eq!(paths.len(), 1);
        paths.iter().for_each(|(name, value)| entry(&mut out, Section::Paths, name, value));
        // gnostic writes the components as one message; readers merge several.
        put_message(&mut out, 5, |out| {
            let schemas = document["components"]["schemas"].as_object().unwrap();
            assert_eq!(schemas.len(), 1);
            for (name, value) in schemas {
                put_message(out, 1, |out| put_named(out, 1, schema_or_reference, name, value));
            }
            let beside = json!({"securitySchemes": document["components"]["securitySchemes"]});
            message(out, COMPONENTS, 10, &beside);
        });
        assert_eq!(STANDARD.encode(out), STANDARD.encode(expected));
    }

    #[test]
    fn an_entry_of_a_schema_is_a_message_that_merges_into_the_components() {
        let mut whole = Vec::new();
        entry(&mut whole, Section::Definitions, "a", &json!({"type": "string"}));
        let mut expected = Vec::new();
        put_message(&mut expected, 5, |out| {
            put_message(out, 1, |out| {
                put_message(out, 1, |out| {
                    text(out, 1, "a");
                    put_message(out, 2, |out| put_message(out, 1, |out| text(out, 25, "string")));
                });
            });
        });
        assert_eq!(whole, expected);
    }

    #[test]
    fn fields_come_in_the_order_of_their_numbers() {
        let tables = [
            DOCUMENT,
            INFO,
            COMPONENTS,
            SECURITY_SCHEME,
            PATH_ITEM,
            OPERATION,
            REQUEST_BODY,
            RESPONSE,
            MEDIA_TYPE,
            PARAMETER,
            SCHEMA,
        ];
        for table in tables {
            assert!(table.is_sorted_by(|(_, one, _), (_, other, _)| one < other));
        }
    }
}
