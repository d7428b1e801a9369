//! Converts JSON to protobuf.

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};
use rdd_meta::{go_json, time::Timestamp};
use serde_json::{Map, Value};

use super::{
    Member, Message, is_zero,
    wire::{put_bytes, put_double, put_integer, put_message},
};
use crate::types::{self, Field, Struct, Type};

/// Lenient about trailing bits: the text was validated when it was decoded.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// Encodes an object as its struct's message, byte for byte like upstream. The type belongs in the envelope.
///
/// The object must have the form of the struct; values that do not are omitted or become Go's zero value.
pub fn write(structure: &'static Struct, object: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    message(&mut out, Message::of(structure), object.as_object());
    out
}

/// Encodes a list: its metadata as JSON, and its items, which are already encoded.
pub fn write_list<'i>(metadata: &Value, items: impl Iterator<Item = &'i [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    let list_meta = known("ListMeta");
    put_message(&mut out, 1, |out| message(out, Message::of(list_meta), metadata.as_object()));
    items.for_each(|item| put_bytes(&mut out, 2, item));
    out
}

/// Encodes a `PartialObjectMetadata`.
pub fn write_partial(object: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let metadata = object.get("metadata").and_then(Value::as_object);
    put_message(&mut out, 1, |out| message(out, Message::of(known("ObjectMeta")), metadata));
    out
}

/// Encodes a `PartialObjectMetadataList`.
pub fn write_partial_list(list: &Value) -> Vec<u8> {
    let items = list.get("items").and_then(Value::as_array).into_iter().flatten();
    let items: Vec<Vec<u8>> = items.map(write_partial).collect();
    write_list(&list["metadata"], items.iter().map(Vec::as_slice))
}

fn known(name: &str) -> &'static Struct {
    types::structure(&format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}")).expect("the table has all metadata")
}

type Entries<'v> = Option<&'v Map<String, Value>>;

fn message(out: &mut Vec<u8>, message: Message, entries: Entries<'_>) {
    let depth = message.within.len();
    let mut last = 0;
    for field in message.fields() {
        match message.member(field) {
            Member::Field(field) => self::field(out, field, field.numbers[depth], entries),
            // All fields of an embedded struct follow each other.
            Member::Embedded(..) if field.numbers[depth] == last => {}
            Member::Embedded(embedded, _) => {
                last = field.numbers[depth];
                put_message(out, last, |out| self::message(out, embedded, entries));
            }
        }
    }
}

fn field(out: &mut Vec<u8>, field: &'static Field, number: u32, entries: Entries<'_>) {
    let value = entries.and_then(|entries| entries.get(field.name)).filter(|value| !value.is_null());
    match field.kind.underlying() {
        Type::Pointer(below) => {
            if value.is_some() {
                single(out, number, below, value);
            }
        }
        Type::List(below) => {
            let items = value.and_then(Value::as_array).into_iter().flatten();
            items.for_each(|item| single(out, number, below, Some(item)));
        }
        Type::Map(below) => {
            for (key, item) in value.and_then(Value::as_object).into_iter().flatten() {
                put_message(out, number, |out| {
                    put_bytes(out, 1, key.as_bytes());
                    single(out, 2, below, Some(item));
                });
            }
        }
        other => single(out, number, other, value),
    }
}

/// Writes one value; Go's zero value if absent.
fn single(out: &mut Vec<u8>, number: u32, kind: &'static Type, value: Option<&Value>) {
    let value = value.filter(|value| !value.is_null());
    let text = value.and_then(Value::as_str);
    match kind.underlying() {
        Type::Bool => put_integer(out, number, i64::from(value.and_then(Value::as_bool).unwrap_or(false))),
        Type::Int32 | Type::Int64 => put_integer(out, number, value.and_then(Value::as_i64).unwrap_or(0)),
        Type::Float64 => put_double(out, number, value.and_then(Value::as_f64).unwrap_or(0.0)),
        Type::String => put_bytes(out, number, text.unwrap_or_default().as_bytes()),
        Type::Bytes => {
            if let Some(text) = text {
                put_bytes(out, number, &BASE64.decode(text).unwrap_or_default());
            }
        }
        Type::Time => put_message(out, number, |out| time(out, text, Timestamp::parse_time)),
        Type::MicroTime => put_message(out, number, |out| time(out, text, Timestamp::parse_micro_time)),
        Type::Quantity => put_message(out, number, |out| put_bytes(out, 1, text.unwrap_or("0").as_bytes())),
        Type::IntOrString => put_message(out, number, |out| {
            put_integer(out, 1, i64::from(text.is_some()));
            put_integer(out, 2, value.and_then(Value::as_i64).unwrap_or(0));
            put_bytes(out, 3, text.unwrap_or_default().as_bytes());
        }),
        Type::FieldsV1 | Type::RawExtension | Type::Json => put_message(out, number, |out| {
            if let Some(value) = value {
                put_bytes(out, 1, go_json::to_string(value).as_bytes());
            }
        }),
        Type::SchemaOrArray | Type::SchemaOrStringArray => put_message(out, number, |out| schemas(out, kind, value)),
        Type::SchemaOrBool => put_message(out, number, |out| {
            let schema = value.filter(|value| value.is_object());
            put_integer(out, 1, i64::from(schema.is_some() || value.and_then(Value::as_bool).unwrap_or(false)));
            if schema.is_some() {
                single(out, 2, types::json_schema_props_type(), schema);
            }
        }),
        Type::List(below) => put_message(out, number, |out| {
            let items = value.and_then(Value::as_array).into_iter().flatten();
            items.for_each(|item| single(out, 1, below, Some(item)));
        }),
        Type::Pointer(below) => single(out, number, below, value),
        other => {
            let structure = other.structure();
            let entries = value.and_then(Value::as_object);
            put_message(out, number, |out| {
                if let Some(structure) = structure {
                    message(out, Message::of(structure), entries);
                }
            });
        }
    }
}

fn time(out: &mut Vec<u8>, text: Option<&str>, parse: fn(&str) -> Result<Timestamp, rdd_meta::time::ParseError>) {
    // The text was validated as a time when it was decoded.
    let Some(time) = text.and_then(|text| parse(text).ok()).filter(|time| !is_zero(*time)) else { return };
    put_integer(out, 1, time.seconds());
    put_integer(out, 2, i64::from(time.nanoseconds() / 1000 * 1000));
}

fn schemas(out: &mut Vec<u8>, kind: &Type, value: Option<&Value>) {
    match value {
        Some(Value::Array(items)) if *kind.underlying() == Type::SchemaOrStringArray => {
            items.iter().for_each(|item| single(out, 2, &Type::String, Some(item)));
        }
        Some(Value::Array(items)) => {
            items.iter().for_each(|item| single(out, 2, types::json_schema_props_type(), Some(item)));
        }
        Some(value) => single(out, 1, types::json_schema_props_type(), Some(value)),
        None => {}
    }
}
