//! Conversions between types.

use std::sync::Arc;

use crate::go;
use crate::libs::time::{SECONDS_MAX, SECONDS_MIN};
use crate::value::{Fault, Outcome, Text, Timestamp, Value};

/// The error of a conversion that is not possible.
fn refused<'a>(value: &Value<'_>, to: &str) -> Outcome<'a> {
    Err(Fault::error(format!("type conversion error from '{}' to '{to}'", value.type_name())))
}

pub(crate) fn identity<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(args[0].clone())
}

pub(crate) fn to_type<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match &args[0] {
        Value::Unknown(_) => Err(Fault::error(
            "type conversion to 'type' not supported for values preserved by x-kubernetes-preserve-unknown-fields",
        )),
        value => Ok(Value::Type(Arc::new(value.type_value()))),
    }
}

pub(crate) fn to_bool<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match &args[0] {
        Value::String(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => refused(&args[0], "bool"),
        },
        other => refused(other, "bool"),
    }
}

pub(crate) fn to_bytes<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match &args[0] {
        Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
        other => refused(other, "bytes"),
    }
}

pub(crate) fn to_double<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match &args[0] {
        Value::Int(value) => Ok(Value::Double(*value as f64)),
        Value::Uint(value) => Ok(Value::Double(*value as f64)),
        Value::String(text) => {
            parse_double(text).map_or_else(|| refused(&args[0], "double"), |value| Ok(Value::Double(value)))
        }
        other => refused(other, "double"),
    }
}

/// Parses as Go's `strconv.ParseFloat`: decimal and hexadecimal numbers, infinities and NaN by name, no underscores. A number
/// that is too large is an error.
pub(crate) fn parse_double(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let negative = text.starts_with('-');
    match unsigned.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => return Some(if negative { f64::NEG_INFINITY } else { f64::INFINITY }),
        // Go does not accept a sign before NaN.
        "nan" if unsigned.len() == text.len() => return Some(f64::NAN),
        lower if lower.starts_with("0x") => {
            let value = parse_hex_double(&lower[2..])?;
            return Some(if negative { -value } else { value });
        }
        _ => {}
    }
    if !unsigned.bytes().all(|c| c.is_ascii_digit() || matches!(c, b'.' | b'e' | b'E' | b'+' | b'-')) {
        return None;
    }
    text.parse::<f64>().ok().filter(|value| value.is_finite())
}

fn parse_hex_double(digits: &str) -> Option<f64> {
    // Go requires an exponent in hexadecimal numbers.
    let (mantissa, exponent) = digits.split_once('p')?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0f64;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    // Each digit after the point is worth four bits; the limit only keeps the exponent in range.
    let value = value * 2f64.powi(exponent.clamp(-4000, 4000) - 4 * fraction.len() as i32);
    value.is_finite().then_some(value)
}

pub(crate) fn to_duration<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match &args[0] {
        Value::String(text) => match go::parse_duration(text) {
            Some(nanos) => Ok(Value::Duration(nanos)),
            None => refused(&args[0], "google.protobuf.Duration"),
        },
        other => refused(other, "google.protobuf.Duration"),
    }
}

pub(crate) fn to_int<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let overflow = || Fault::error("integer overflow");
    match &args[0] {
        Value::Uint(value) => i64::try_from(*value).map(Value::Int).map_err(|_| overflow()),
        Value::Double(value) => {
            // Both bounds are excluded, as in cel-go: `i64::MAX` as a double is already too large.
            let fits = value.is_finite() && *value > i64::MIN as f64 && *value < i64::MAX as f64;
            if fits { Ok(Value::Int(*value as i64)) } else { Err(overflow()) }
        }
        Value::String(text) => match parse_digits(text, true).and_then(|text| text.parse().ok()) {
            Some(value) => Ok(Value::Int(value)),
            None => refused(&args[0], "int"),
        },
        // In cel-go a duration is its nanoseconds, a timestamp its seconds.
        Value::Duration(nanos) => Ok(Value::Int(*nanos)),
        Value::Timestamp(moment) => Ok(Value::Int(moment.seconds)),
        other => refused(other, "int"),
    }
}

/// Checks a decimal number as Go's `strconv` does: digits after at most one sign.
fn parse_digits(text: &str, signed: bool) -> Option<&str> {
    let digits = if signed { text.strip_prefix(['+', '-']).unwrap_or(text) } else { text };
    (!digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit())).then_some(text)
}

pub(crate) fn to_uint<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let overflow = || Fault::error("unsigned integer overflow");
    match &args[0] {
        Value::Int(value) => u64::try_from(*value).map(Value::Uint).map_err(|_| overflow()),
        Value::Double(value) => {
            let fits = value.is_finite() && *value >= 0.0 && *value < 18_446_744_073_709_551_616.0;
            if fits { Ok(Value::Uint(*value as u64)) } else { Err(overflow()) }
        }
        Value::String(text) => match parse_digits(text, false).and_then(|text| text.parse().ok()) {
            Some(value) => Ok(Value::Uint(value)),
            None => refused(&args[0], "uint"),
        },
        other => refused(other, "uint"),
    }
}

pub(crate) fn to_string<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match &args[0] {
        Value::Bytes(octets) => match std::str::from_utf8(octets) {
            Ok(text) => Ok(Value::String(Text::Shared(text.into()))),
            Err(_) => Err(Fault::error("invalid UTF-8 in bytes, cannot convert to string")),
        },
        value @ (Value::Bool(_)
        | Value::Double(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::String(_)
        | Value::Timestamp(_)
        | Value::Duration(_)
        | Value::Type(_)) => Ok(Value::text(value.shown())),
        Value::Null => Ok(Value::text("null")),
        other => refused(other, "string"),
    }
}

pub(crate) fn to_timestamp<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let overflow = || Fault::error("timestamp overflow");
    match &args[0] {
        Value::Int(seconds) if !(SECONDS_MIN..=SECONDS_MAX).contains(seconds) => Err(overflow()),
        Value::Int(seconds) => Ok(Value::Timestamp(Timestamp { seconds: *seconds, nanos: 0, offset_seconds: 0 })),
        Value::String(text) => match go::parse_rfc3339(text) {
            Some(moment) if !(SECONDS_MIN..=SECONDS_MAX).contains(&moment.seconds) => Err(overflow()),
            Some(moment) => Ok(Value::Timestamp(moment)),
            None => refused(&args[0], "google.protobuf.Timestamp"),
        },
        other => refused(other, "google.protobuf.Timestamp"),
    }
}
