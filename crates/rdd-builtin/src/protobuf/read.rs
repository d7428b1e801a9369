//! Converts protobuf to JSON.

use base64::{Engine, engine::general_purpose::STANDARD};
use rdd_meta::time::Timestamp;
use rdd_schema::strict;
use serde_json::{Map, Number, Value};

use super::{
    Malformed, Member, Message,
    envelope::text,
    is_zero,
    wire::{self, Cursor, DELIMITED, FIXED_64, Tag, VARINT, malformed},
};
use crate::{
    quantity,
    types::{self, Field, Struct, Type},
};

/// The maximum nesting of JSON that can be parsed again.
const NESTING_MAX: usize = 100;
/// `intstr.Type`.
const INTEGER: u64 = 0;
const STRING: u64 = 1;

/// Parses a message to JSON. Unknown fields are skipped, like upstream does.
///
/// Time and memory are linear in the number of bytes; more than 100 levels of JSON nesting are refused.
pub fn read(structure: &'static Struct, bytes: &[u8]) -> Result<Value, Malformed> {
    let mut object = Map::new();
    message(Message::of(structure), bytes, 1, &mut object)?;
    Ok(Value::Object(object))
}

/// Parses the fields of a message into an object; `depth` is the JSON nesting of `into`.
fn message(message: Message, bytes: &[u8], depth: usize, into: &mut Map<String, Value>) -> Result<(), Malformed> {
    check_depth(depth)?;
    wire::fields(bytes, message.name(), |tag, cursor| {
        match message.numbered(tag.number) {
            None => return Ok(false),
            Some(Member::Field(found)) => field(found, tag, cursor, depth, into)?,
            Some(Member::Embedded(embedded, name)) => {
                tag.expect(DELIMITED, name)?;
                self::message(embedded, cursor.delimited()?, depth, into)?;
            }
        }
        Ok(true)
    })
}

fn check_depth(depth: usize) -> Result<(), Malformed> {
    if depth > NESTING_MAX { Err(malformed("proto: exceeded max depth")) } else { Ok(()) }
}

fn field(
    field: &'static Field,
    tag: Tag,
    cursor: &mut Cursor<'_>,
    depth: usize,
    into: &mut Map<String, Value>,
) -> Result<(), Malformed> {
    let slot = into.entry(field.name).or_insert(Value::Null);
    match without_pointer(&field.kind) {
        Type::List(below) => {
            let item = value(below, field.go_name, tag, cursor, depth + 2, None)?;
            match slot {
                Value::Array(items) => items.push(item),
                other => *other = vec![item].into(),
            }
        }
        Type::Map(below) => {
            let (key, item) = entry(below, field.go_name, tag, cursor, depth + 2)?;
            match slot {
                Value::Object(entries) => drop(entries.insert(key, item)),
                other => *other = Value::Object([(key, item)].into_iter().collect()),
            }
        }
        single => {
            let before = Some(slot.take());
            *slot = value(single, field.go_name, tag, cursor, depth + 1, before)?;
        }
    }
    Ok(())
}

fn without_pointer(kind: &'static Type) -> &'static Type {
    match kind.underlying() {
        Type::Pointer(below) => without_pointer(below),
        other => other,
    }
}

/// Parses a map entry, which is a message with key and value.
fn entry(
    below: &'static Type,
    name: &str,
    tag: Tag,
    cursor: &mut Cursor<'_>,
    depth: usize,
) -> Result<(String, Value), Malformed> {
    tag.expect(DELIMITED, name)?;
    let (mut key, mut item) = (String::new(), None);
    wire::fields(cursor.delimited()?, name, |tag, cursor| {
        // Both are length-delimited, and upstream does not check their wire type.
        let tag = Tag { wire: DELIMITED, ..tag };
        match tag.number {
            1 => key = text(tag, cursor, name)?,
            2 => item = Some(value(below, name, tag, cursor, depth, None)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok((key, item.unwrap_or_else(|| zero(below))))
}

/// Go's zero value of a part that a map entry lacks.
fn zero(kind: &'static Type) -> Value {
    match kind.underlying() {
        Type::String | Type::Bytes => "".into(),
        Type::Quantity => "0".into(),
        Type::Struct(_) => Value::Object(Map::new()),
        Type::List(_) => Value::Array(Vec::new()),
        _ => Value::Null,
    }
}

/// Parses one value. A struct merges into the earlier value; any other value replaces it.
fn value(
    kind: &'static Type,
    name: &str,
    tag: Tag,
    cursor: &mut Cursor<'_>,
    depth: usize,
    before: Option<Value>,
) -> Result<Value, Malformed> {
    let kind = without_pointer(kind);
    match kind {
        Type::Bool | Type::Int32 | Type::Int64 => {
            tag.expect(VARINT, name)?;
            let number = cursor.varint()?;
            return Ok(match kind {
                Type::Bool => (number != 0).into(),
                Type::Int32 => (number as i32).into(),
                _ => (number as i64).into(),
            });
        }
        Type::Float64 => {
            tag.expect(FIXED_64, name)?;
            return float(f64::from_bits(cursor.fixed_64()?));
        }
        Type::String => return text(tag, cursor, name).map(Value::String),
        _ => tag.expect(DELIMITED, name)?,
    }
    let bytes = cursor.delimited()?;
    match kind {
        Type::Bytes => Ok(STANDARD.encode(bytes).into()),
        Type::Time => time(bytes, false),
        Type::MicroTime => time(bytes, true),
        Type::Quantity => canonical_quantity(bytes),
        Type::IntOrString => int_or_string(bytes),
        Type::FieldsV1 => json(bytes, "FieldsV1", depth),
        Type::RawExtension => json(bytes, "RawExtension", depth),
        Type::Json => json(bytes, "JSON", depth),
        Type::SchemaOrArray => schema_or(bytes, "JSONSchemaPropsOrArray", depth),
        Type::SchemaOrBool => schema_or_bool(bytes, depth),
        Type::SchemaOrStringArray => schema_or(bytes, "JSONSchemaPropsOrStringArray", depth),
        Type::List(below) => wrapped(below, bytes, depth),
        other => {
            let mut fields = match before {
                Some(Value::Object(fields)) => fields,
                _ => Map::new(),
            };
            if let Some(structure) = other.structure() {
                message(Message::of(structure), bytes, depth, &mut fields)?;
            }
            Ok(Value::Object(fields))
        }
    }
}

/// A float as Go writes it in JSON: integral values have no decimal point.
fn float(value: f64) -> Result<Value, Malformed> {
    // Above this, not every integer has an exact float.
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= WHOLE_MAX && !(value == 0.0 && value.is_sign_negative()) {
        return Ok((value as i64).into());
    }
    let number = Number::from_f64(value).map(Value::Number);
    number.ok_or_else(|| malformed(format!("json: unsupported value: {}", if value.is_nan() { "NaN" } else { "Inf" })))
}

/// Parses a nested list, which protobuf represents as a message with items.
fn wrapped(below: &'static Type, bytes: &[u8], depth: usize) -> Result<Value, Malformed> {
    let mut items = Vec::new();
    wire::fields(bytes, "Items", |tag, cursor| {
        if tag.number == 1 {
            items.push(value(below, "Items", tag, cursor, depth + 1, None)?);
        }
        Ok(tag.number == 1)
    })?;
    Ok(items.into())
}

fn time(bytes: &[u8], micro: bool) -> Result<Value, Malformed> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanoseconds) = (0_i64, 0_i32);
    wire::fields(bytes, "Timestamp", |tag, cursor| {
        match tag.number {
            1 => {
                tag.expect(VARINT, "Seconds")?;
                seconds = cursor.varint()? as i64;
            }
            2 => {
                tag.expect(VARINT, "Nanos")?;
                nanoseconds = cursor.varint()? as i32;
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    // Only a MicroTime keeps fractions of a second, in microseconds.
    let nanoseconds = if micro { nanoseconds / 1000 * 1000 } else { 0 };
    let seconds = seconds.saturating_add(i64::from(nanoseconds.div_euclid(1_000_000_000)));
    let time = Timestamp::new(seconds, nanoseconds.rem_euclid(1_000_000_000).unsigned_abs());
    Ok(match (is_zero(time), micro) {
        (true, _) => Value::Null,
        (_, true) => time.format_micro_time().into(),
        (_, false) => time.format_time().into(),
    })
}

fn canonical_quantity(bytes: &[u8]) -> Result<Value, Malformed> {
    let mut found = Value::from("0");
    wire::fields(bytes, "Quantity", |tag, cursor| {
        if tag.number == 1 {
            let text = text(tag, cursor, "String_")?;
            found = quantity::canonical(&text).map_err(|quantity::Wrong(why)| malformed(why))?.into();
        }
        Ok(tag.number == 1)
    })?;
    Ok(found)
}

fn int_or_string(bytes: &[u8]) -> Result<Value, Malformed> {
    let (mut kind, mut integer, mut string) = (INTEGER, 0, String::new());
    wire::fields(bytes, "IntOrString", |tag, cursor| {
        match tag.number {
            1 => {
                tag.expect(VARINT, "Type")?;
                kind = cursor.varint()?;
            }
            2 => {
                tag.expect(VARINT, "IntVal")?;
                integer = cursor.varint()? as i32;
            }
            3 => string = text(tag, cursor, "StrVal")?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    match kind {
        INTEGER => Ok(integer.into()),
        STRING => Ok(string.into()),
        _ => Err(malformed("impossible IntOrString.Type")),
    }
}

/// Parses JSON embedded in a message.
fn json(bytes: &[u8], name: &str, depth: usize) -> Result<Value, Malformed> {
    let mut raw: &[u8] = &[];
    wire::fields(bytes, name, |tag, cursor| {
        if tag.number == 1 {
            tag.expect(DELIMITED, "Raw")?;
            raw = cursor.delimited()?;
        }
        Ok(tag.number == 1)
    })?;
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    let document = strict::read(raw).map_err(|error| malformed(error.to_string()))?;
    check_depth(depth - 1 + nesting(&document.value))?;
    Ok(document.value)
}

/// The nesting of a value; the recursion is bounded, because the parser bounds nesting.
fn nesting(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(nesting).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(nesting).max().unwrap_or(0),
        _ => 0,
    }
}

fn schema(bytes: &[u8], depth: usize, before: Option<Value>) -> Result<Value, Malformed> {
    let mut fields = match before {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    message(Message::of(types::json_schema_props()), bytes, depth, &mut fields)?;
    Ok(Value::Object(fields))
}

/// Parses a schema, or a list of schemas or names.
fn schema_or(bytes: &[u8], name: &str, depth: usize) -> Result<Value, Malformed> {
    let (mut one, mut several) = (None, Vec::new());
    let names = name == "JSONSchemaPropsOrStringArray";
    wire::fields(bytes, name, |tag, cursor| {
        match tag.number {
            1 => {
                tag.expect(DELIMITED, "Schema")?;
                one = Some(schema(cursor.delimited()?, depth, one.take())?);
            }
            2 if names => several.push(text(tag, cursor, "Property")?.into()),
            2 => {
                tag.expect(DELIMITED, "JSONSchemas")?;
                several.push(schema(cursor.delimited()?, depth + 1, None)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(if several.is_empty() { one.unwrap_or_default() } else { several.into() })
}

fn schema_or_bool(bytes: &[u8], depth: usize) -> Result<Value, Malformed> {
    let (mut allows, mut one) = (false, None);
    wire::fields(bytes, "JSONSchemaPropsOrBool", |tag, cursor| {
        match tag.number {
            1 => {
                tag.expect(VARINT, "Allows")?;
                allows = cursor.varint()? != 0;
            }
            2 => {
                tag.expect(DELIMITED, "Schema")?;
                one = Some(schema(cursor.delimited()?, depth, one.take())?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(one.unwrap_or_else(|| allows.into()))
}
