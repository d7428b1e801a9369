//! Encodes the version 2 document as the protobuf message of `gnostic`, piece by piece.
//!
//! In protobuf, a field that holds one message may occur several times, and readers merge the occurrences. So every path and every
//! definition is written as a message of its own, and their total length need not be known in advance.
//!
//! Known difference: `gnostic` parses the JSON as YAML, which folds U+0085 in strings and rejects control characters. This encoder
//! writes them unchanged.

use rdd_builtin::protobuf::{put_bytes, put_double, put_integer, put_message};
use rdd_yaml as yaml;
use serde_json::{Map, Value};

use self::Kind::{Double, Flag, Integer, Many, One, Text, Texts};
use super::document::Section;

/// Writes the content of a message for a value of the document.
pub(super) type Write = fn(&mut Vec<u8>, &Value);

/// How a value of the document is encoded. The recursion is bounded, because the document is generated from accepted schemas.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    Flag,
    Integer,
    Double,
    Texts,
    One(Write),
    /// One message per item of a list.
    Many(Write),
}

/// The fields of a message: name in JSON, number in protobuf and encoding, ordered by number.
pub(super) type Fields = &'static [(&'static str, u32, Kind)];

const DOCUMENT: Fields = &[
    ("swagger", 1, Text),
    ("info", 2, One(|out, value| message(out, INFO, 7, value))),
    // The entries are written separately; these empty messages make the fields present even without entries.
    ("paths", 8, One(|_, _| {})),
    ("definitions", 9, One(|_, _| {})),
    ("security", 12, Many(|out, value| named(out, 1, strings, value))),
    ("securityDefinitions", 13, One(|out, value| named(out, 1, security_definition, value))),
];

const INFO: Fields = &[("title", 1, Text), ("version", 2, Text), ("description", 3, Text)];

const API_KEY: Fields = &[("type", 1, Text), ("name", 2, Text), ("in", 3, Text), ("description", 4, Text)];

const PATH_ITEM: Fields = &[
    ("get", 2, One(operation)),
    ("put", 3, One(operation)),
    ("post", 4, One(operation)),
    ("delete", 5, One(operation)),
    ("options", 6, One(operation)),
    ("head", 7, One(operation)),
    ("patch", 8, One(operation)),
    ("parameters", 9, Many(parameter)),
];

const OPERATION: Fields = &[
    ("tags", 1, Texts),
    ("summary", 2, Text),
    ("description", 3, Text),
    ("operationId", 5, Text),
    ("produces", 6, Texts),
    ("consumes", 7, Texts),
    ("parameters", 8, Many(parameter)),
    ("responses", 9, One(|out, value| named(out, 1, response, value))),
    ("schemes", 10, Texts),
    ("deprecated", 11, Flag),
];

const RESPONSE: Fields =
    &[("description", 1, Text), ("schema", 2, One(|out, value| put_message(out, 1, |out| schema(out, value))))];

const BODY_PARAMETER: Fields =
    &[("description", 1, Text), ("name", 2, Text), ("in", 3, Text), ("required", 4, Flag), ("schema", 5, One(schema))];

const QUERY_PARAMETER: Fields = &[
    ("required", 1, Flag),
    ("in", 2, Text),
    ("description", 3, Text),
    ("name", 4, Text),
    ("allowEmptyValue", 5, Flag),
    ("type", 6, Text),
    ("format", 7, Text),
    ("uniqueItems", 20, Flag),
];

const PATH_PARAMETER: Fields = &[
    ("required", 1, Flag),
    ("in", 2, Text),
    ("description", 3, Text),
    ("name", 4, Text),
    ("type", 5, Text),
    ("format", 6, Text),
    ("uniqueItems", 19, Flag),
];

const SCHEMA: Fields = &[
    ("$ref", 1, Text),
    ("format", 2, Text),
    ("title", 3, Text),
    ("description", 4, Text),
    ("default", 5, One(any)),
    ("multipleOf", 6, Double),
    ("maximum", 7, Double),
    ("exclusiveMaximum", 8, Flag),
    ("minimum", 9, Double),
    ("exclusiveMinimum", 10, Flag),
    ("maxLength", 11, Integer),
    ("minLength", 12, Integer),
    ("pattern", 13, Text),
    ("maxItems", 14, Integer),
    ("minItems", 15, Integer),
    ("uniqueItems", 16, Flag),
    ("maxProperties", 17, Integer),
    ("minProperties", 18, Integer),
    ("required", 19, Texts),
    ("enum", 20, Many(any)),
    ("additionalProperties", 21, One(additional_properties)),
    ("type", 22, One(strings)),
    ("items", 23, One(|out, value| put_message(out, 1, |out| schema(out, value)))),
    ("allOf", 24, Many(schema)),
    ("properties", 25, One(|out, value| named(out, 1, schema, value))),
    ("discriminator", 26, Text),
    ("readOnly", 27, Flag),
    ("example", 30, One(any)),
];

/// Writes the members other than paths and definitions.
pub(super) fn members(out: &mut Vec<u8>, members: &Value) {
    message(out, DOCUMENT, 16, members);
}

/// Writes one path or one definition.
pub(super) fn entry(out: &mut Vec<u8>, section: Section, name: &str, value: &Value) {
    match section {
        Section::Paths => put_message(out, 8, |out| put_named(out, 2, path_item, name, value)),
        Section::Definitions => put_message(out, 9, |out| put_named(out, 1, schema, name, value)),
    }
}

fn path_item(out: &mut Vec<u8>, value: &Value) {
    message(out, PATH_ITEM, 10, value);
}

fn operation(out: &mut Vec<u8>, value: &Value) {
    message(out, OPERATION, 13, value);
}

fn response(out: &mut Vec<u8>, value: &Value) {
    put_message(out, 1, |out| message(out, RESPONSE, 5, value));
}

/// Encodes a parameter. Its `in` determines the type of the message.
fn parameter(out: &mut Vec<u8>, value: &Value) {
    put_message(out, 1, |out| match value["in"].as_str() {
        Some("body") => put_message(out, 1, |out| message(out, BODY_PARAMETER, 6, value)),
        Some("path") => put_message(out, 2, |out| {
            put_message(out, 4, |out| message(out, PATH_PARAMETER, 22, value));
        }),
        _ => put_message(out, 2, |out| put_message(out, 3, |out| message(out, QUERY_PARAMETER, 23, value))),
    });
}

fn security_definition(out: &mut Vec<u8>, value: &Value) {
    put_message(out, 2, |out| message(out, API_KEY, 5, value));
}

fn schema(out: &mut Vec<u8>, value: &Value) {
    message(out, SCHEMA, 31, value);
}

/// Encodes `additionalProperties`: a schema for all of them, or whether they are allowed.
fn additional_properties(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Bool(any) => put_integer(out, 2, i64::from(*any)),
        _ => put_message(out, 1, |out| schema(out, value)),
    }
}

/// Encodes a string or a list of strings.
fn strings(out: &mut Vec<u8>, value: &Value) {
    let all = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    all.iter().filter_map(Value::as_str).for_each(|text| put_bytes(out, 1, text.as_bytes()));
}

pub(super) fn any(out: &mut Vec<u8>, value: &Value) {
    put_bytes(out, 2, yaml::write_v3(value).as_bytes());
}

pub(super) fn named(out: &mut Vec<u8>, number: u32, write: Write, value: &Value) {
    let entries = value.as_object().into_iter().flat_map(sorted);
    entries.for_each(|(name, value)| put_named(out, number, write, name, value));
}

pub(super) fn put_named(out: &mut Vec<u8>, number: u32, write: Write, name: &str, value: &Value) {
    put_message(out, number, |out| {
        text(out, 1, name);
        put_message(out, 2, |out| write(out, value));
    });
}

/// Encodes the fields of a message and its `x-` extensions. Members without a field are omitted.
pub(super) fn message(out: &mut Vec<u8>, fields: Fields, extensions: u32, value: &Value) {
    let Value::Object(entries) = value else { return };
    for (name, number, kind) in fields {
        if let Some(value) = entries.get(*name) {
            field(out, *number, *kind, value);
        }
    }
    for (name, value) in sorted(entries).filter(|(name, _)| name.starts_with("x-")) {
        put_named(out, extensions, any, name, value);
    }
}

/// Encodes one field. Zero values are omitted, as protobuf requires, but empty messages are written.
fn field(out: &mut Vec<u8>, number: u32, kind: Kind, value: &Value) {
    let items = || value.as_array().into_iter().flatten();
    match kind {
        Text => text(out, number, value.as_str().unwrap_or_default()),
        Flag if *value == Value::Bool(true) => put_integer(out, number, 1),
        Flag => {}
        Integer => {
            if let Some(value) = value.as_i64().filter(|value| *value != 0) {
                put_integer(out, number, value);
            }
        }
        Double => {
            if let Some(value) = value.as_f64().filter(|value| value.to_bits() != 0) {
                put_double(out, number, value);
            }
        }
        Texts => items().filter_map(Value::as_str).for_each(|text| put_bytes(out, number, text.as_bytes())),
        One(write) => put_message(out, number, |out| write(out, value)),
        Many(write) => items().for_each(|item| put_message(out, number, |out| write(out, item))),
    }
}

pub(super) fn text(out: &mut Vec<u8>, number: u32, text: &str) {
    if !text.is_empty() {
        put_bytes(out, number, text.as_bytes());
    }
}

/// The entries in the order of the JSON.
fn sorted(entries: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let mut all: Vec<_> = entries.iter().collect();
    all.sort_by_key(|(name, _)| *name);
    all.into_iter()
}

#[cfg(test)]
mod tests {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use serde_json::json;

    use super::*;

    /// `testdata/gnostic.base64` is the output of gnostic's own parser for the JSON beside it, with fields ordered by number.
    #[test]
    fn a_document_of_one_path_and_one_definition_is_byte_for_byte_what_gnostic_makes_of_it() {
        let document: Value = serde_json::from_str(include_str!("testdata/gnostic.json")).unwrap();
        let expected = include_str!("testdata/gnostic.base64").replace('\n', "");
        let mut out = Vec::new();
        members(&mut out, &json!({"swagger": document["swagger"], "info": document["info"]}));
        for (section, name) in [(Section::Paths, "paths"), (Section::Definitions, "definitions")] {
            let entries = document[name].as_object().unwrap();
            assert_eq!(entries.len(), 1);
            entries.iter().for_each(|(name, value)| entry(&mut out, section, name, value));
        }
        let (definitions, required) = (&document["securityDefinitions"], &document["security"]);
        members(&mut out, &json!({"securityDefinitions": definitions, "security": required}));
        assert_eq!(STANDARD.encode(out), expected);
    }

    #[test]
    fn fields_come_in_the_order_of_their_numbers() {
        let tables = [
            DOCUMENT,
            INFO,
            API_KEY,
            PATH_ITEM,
            OPERATION,
            RESPONSE,
            BODY_PARAMETER,
            QUERY_PARAMETER,
            PATH_PARAMETER,
            SCHEMA,
        ];
        for table in tables {
            assert!(table.is_sorted_by(|(_, one, _), (_, other, _)| one < other));
        }
    }
}
