//! Writes JSON as Go's `encoding/json` does: sorted keys, escaped HTML characters, numbers in Go's format.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

use crate::go_text::json_float;

/// The JSON text of a value, without the newline that Go's stream encoder appends.
pub fn to_string(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value);
    text
}

/// The response body that an API server sends for a value: its JSON text and a newline.
pub fn to_wire(value: &Value) -> Vec<u8> {
    let mut text = to_string(value);
    text.push('\n');
    text.into_bytes()
}

/// Appends the JSON text of a value.
pub fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => write_number(text, number),
        Value::String(string) => write_string(text, string),
        Value::Array(items) => write_array(text, items),
        Value::Object(fields) => write_object(text, fields),
    }
}

fn write_array(text: &mut String, items: &[Value]) {
    text.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write_value(text, item);
    }
    text.push(']');
}

fn write_object(text: &mut String, fields: &Map<String, Value>) {
    // The map is sorted unless some crate of the build enables serde_json's `preserve_order`.
    if fields.keys().is_sorted() {
        return write_fields(text, fields.iter());
    }
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by_key(|(key, _)| *key);
    write_fields(text, fields.into_iter());
}

fn write_fields<'a>(text: &mut String, fields: impl Iterator<Item = (&'a String, &'a Value)>) {
    text.push('{');
    for (index, (key, value)) in fields.enumerate() {
        if index > 0 {
            text.push(',');
        }
        write_string(text, key);
        text.push(':');
        write_value(text, value);
    }
    text.push('}');
}

/// Appends a number. Kubernetes decodes a number that does not fit `int64` into a float, which loses digits; this
/// function writes the same digits.
fn write_number(text: &mut String, number: &Number) {
    let written = match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) => write!(text, "{integer}"),
        (None, Some(float)) => write!(text, "{}", json_float(float)),
        (None, None) => write!(text, "{number}"),
    };
    written.expect("writing to a string never fails");
}

/// Whether a byte must be escaped or may start a character that must be: 0xe2 starts U+2028 and U+2029. The function
/// has no branches, so that the compiler can vectorize a loop over it.
const fn is_suspect(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\') | (byte == b'<') | (byte == b'>') | (byte == b'&') | (byte == 0xe2)
}

/// [`is_suspect`] as a table, which is faster for single bytes.
const SUSPECT: [bool; 256] = {
    let mut suspect = [false; 256];
    let mut byte = 0;
    while byte < suspect.len() {
        suspect[byte] = is_suspect(byte as u8);
        byte += 1;
    }
    suspect
};

/// How many bytes [`first_suspect`] checks at a time.
const STRIDE: usize = 32;

/// The position of the first suspect byte. Most long strings have none, so whole strides are checked before single
/// bytes.
fn first_suspect(bytes: &[u8]) -> Option<usize> {
    let has_none = |stride: &&[u8; STRIDE]| !stride.iter().fold(false, |found, byte| found | is_suspect(*byte));
    let (strides, _) = bytes.as_chunks();
    let passed = strides.iter().take_while(has_none).count() * STRIDE;
    let ahead = bytes[passed..].iter().position(|byte| SUSPECT[usize::from(*byte)]);
    ahead.map(|ahead| passed + ahead)
}

/// Appends a string in quotes, escaped as Go does: control characters, `"`, `\`, `<`, `>`, `&`, U+2028 and U+2029.
pub fn write_string(text: &mut String, string: &str) {
    text.push('"');
    let bytes = string.as_bytes();
    let (mut copied, mut looked) = (0, 0);
    while let Some(ahead) = first_suspect(&bytes[looked..]) {
        let at = looked + ahead;
        looked = at + 1;
        let short = match bytes[at] {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            8 => "\\b",
            12 => "\\f",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0xe2 => match bytes[at + 1..] {
                [0x80, 0xa8, ..] => "\\u2028",
                [0x80, 0xa9, ..] => "\\u2029",
                _ => continue,
            },
            _ => "",
        };
        text.push_str(&string[copied..at]);
        if short.is_empty() {
            write!(text, "\\u{:04x}", bytes[at]).expect("writing to a string never fails");
        } else {
            text.push_str(short);
        }
        // The escape replaces all three bytes of the character.
        if bytes[at] == 0xe2 {
            looked += 2;
        }
        copied = looked;
    }
    text.push_str(&string[copied..]);
    text.push('"');
}

/// The name of a value's JSON type in errors of Go's decoder.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The description of a value in Go's type mismatch errors: the type's name, and for a number where `wanted` is an
/// integer also the digits.
pub(crate) fn found_type(value: &Value, wanted: &str) -> String {
    match value {
        Value::Number(number) if wanted == "int64" => format!("number {number}"),
        other => type_name(other).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_sorted_and_nothing_is_padded() {
        let value = json!({"b": [1, null, true, {}], "a": {"z": [], "y": false}, "B": ""});
        assert_eq!(to_string(&value), r#"{"B":"","a":{"y":false,"z":[]},"b":[1,null,true,{}]}"#);
        assert_eq!(to_wire(&json!({})), b"{}\n");
    }

    #[test]
    fn characters_that_html_and_javascript_trip_over_are_escaped() {
        let value = json!("a\0\u{8}\u{c}\n\r\t\u{1f}\u{7f}\"\\/<>&\u{2028}\u{2029}\u{2027}€ü😀");
        let text = "\"a\\u0000\\b\\f\\n\\r\\t\\u001f\u{7f}\\\"\\\\/\\u003c\\u003e\\u0026\\u2028\\u2029\u{2027}€ü😀\"";
        assert_eq!(to_string(&value), text);
        assert_eq!(to_string(&json!({"<k>": 1})), r#"{"\u003ck\u003e":1}"#);
    }

    #[test]
    fn a_suspect_is_found_wherever_it_is_in_a_long_text() {
        for suspect in 0..=u8::MAX {
            let is_one = suspect < b' ' || b"\"\\<>&\xe2".contains(&suspect);
            for at in 0..100 {
                let mut bytes = [b'x'; 100];
                bytes[at] = suspect;
                assert_eq!(first_suspect(&bytes), is_one.then_some(at), "{suspect} at {at}");
            }
        }
    }

    #[test]
    fn numbers_take_the_form_they_have_in_go() {
        for (json, text) in [
            ("1", "1"),
            ("-7", "-7"),
            ("1.0", "1"),
            ("1e3", "1000"),
            ("1.50", "1.5"),
            ("-0.0", "-0"),
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "9223372036854776000"),
            ("18446744073709551615", "18446744073709552000"),
            ("1e21", "1e+21"),
            ("1e-7", "1e-7"),
            ("0.000001", "0.000001"),
            ("929932.2944349999", "929932.2944349999"),
            ("97522452424.20001", "97522452424.20001"),
            ("-4.932401607813245e-268", "-4.932401607813245e-268"),
        ] {
            let value: Value = serde_json::from_str(json).unwrap();
            assert_eq!(to_string(&value), text, "{json}");
        }
    }

    #[test]
    fn the_text_reads_back_as_the_value() {
        let value = json!({"a": ["<&>", 1.5, -3, {"ü\n": null}]});
        assert_eq!(serde_json::from_str::<Value>(&to_string(&value)).unwrap(), value);
    }
}
