//! JSON as Go writes it: keys sorted, HTML characters escaped, floats without a needless fraction or exponent.

use std::fmt::Write;

use serde_json::{Number, Value};

use crate::golang;

/// The text of `value` as `encoding/json` would marshal it. Recursion is as deep as the value is.
pub fn to_string(value: &Value) -> String {
    let mut out = String::new();
    append(value, &mut out);
    out
}

/// Appends the text of `value` to `out`.
pub fn append(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => append_number(number, out),
        Value::String(text) => append_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                append(item, out);
            }
            out.push(']');
        }
        Value::Object(entries) => {
            out.push('{');
            for (index, (key, entry)) in entries.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                append_string(key, out);
                out.push(':');
                append(entry, out);
            }
            out.push('}');
        }
    }
}

fn append_number(number: &Number, out: &mut String) {
    match number.as_i64() {
        Some(integer) => {
            let _ = write!(out, "{integer}");
        }
        // Beyond i64 upstream holds a float.
        None => out.push_str(&golang::float_json(number.as_f64().unwrap_or(f64::NAN))),
    }
}

/// Appends a JSON string literal; `<`, `>`, `&` and the two Unicode line separators leave as escapes.
pub fn append_string(text: &str, out: &mut String) {
    out.push('"');
    let mut copied = 0;
    for (at, character) in text.char_indices() {
        let short = match character {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{08}' => "\\b",
            '\u{0c}' => "\\f",
            '\u{00}'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => "",
            _ => continue,
        };
        out.push_str(&text[copied..at]);
        copied = at + character.len_utf8();
        if short.is_empty() {
            let _ = write!(out, "\\u{:04x}", character as u32);
        } else {
            out.push_str(short);
        }
    }
    out.push_str(&text[copied..]);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn floats_lose_their_fraction_and_html_is_escaped() {
        let value = json!({"b": 1.0, "a": "<&>\u{2028}\u{1}", "c": 1e21, "d": 18_446_744_073_709_551_615_u64});
        let expected = r#"{"a":"\u003c\u0026\u003e\u2028\u0001","b":1,"c":1e+21,"d":18446744073709552000}"#;
        assert_eq!(to_string(&value), expected);
    }
}
