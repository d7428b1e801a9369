//! Go's numbers, equality and `%#v`, and jsoniter's JSON: error messages and FieldsV1 keys contain them.

use std::fmt::Write;

use rdd_meta::go_text::{self, plain, quote};
use serde_json::{Number, Value};

/// A number as Kubernetes decodes it: an int64 if it fits, otherwise a float64.
#[derive(Debug, Clone, Copy)]
pub(crate) enum GoNumber {
    Int(i64),
    Float(f64),
}

impl GoNumber {
    pub(crate) fn of(number: &Number) -> Self {
        match number.as_i64() {
            Some(int) => Self::Int(int),
            None => Self::Float(number.as_f64().unwrap_or(f64::MAX)),
        }
    }

    pub(crate) fn as_float(self) -> f64 {
        match self {
            #[allow(clippy::cast_precision_loss, reason = "Go's float64(int64) is what decides equality upstream")]
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }
}

/// Compares two decoded values like Go's `==`. `None` where Go panics, because maps and slices are not comparable.
pub(crate) fn interface_equal(left: &Value, right: &Value) -> Option<bool> {
    match (left, right) {
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => None,
        (Value::Number(left), Value::Number(right)) => Some(match (GoNumber::of(left), GoNumber::of(right)) {
            (GoNumber::Int(left), GoNumber::Int(right)) => left == right,
            (GoNumber::Float(left), GoNumber::Float(right)) => left == right,
            _ => false,
        }),
        _ => Some(left == right),
    }
}

/// Formats a decoded value like `%#v`.
pub(crate) fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(string) => quote(string),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<_> =
                fields.iter().map(|(name, field)| format!("{}:{}", quote(name), syntax(field))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        other => plain(other),
    }
}

/// Formats a list like `%q` of a slice: `["a" "b"]`.
pub(crate) fn quote_list<S: AsRef<str>>(items: &[S]) -> String {
    format!("[{}]", items.iter().map(|item| quote(item.as_ref())).collect::<Vec<_>>().join(" "))
}

/// How a string is escaped: jsoniter has two ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escape {
    /// Values are escaped as in encoding/json, but without the short forms `\b` and `\f`.
    Value,
    /// Field names are escaped only where JSON requires it.
    Name,
}

/// Appends a string as jsoniter writes it, with quotes.
pub(crate) fn write_jsoniter_string(text: &mut String, string: &str, escape: Escape) {
    text.push('"');
    let mut copied = 0;
    for (at, character) in string.char_indices() {
        let short = match character {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\0'..='\x1f' => "",
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if escape == Escape::Value => "",
            _ => continue,
        };
        text.push_str(&string[copied..at]);
        copied = at + character.len_utf8();
        if short.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(text, "\\u{:04x}", u32::from(character));
        } else {
            text.push_str(short);
        }
    }
    text.push_str(&string[copied..]);
    text.push('"');
}

/// Appends a value as jsoniter writes it in its compatible mode: with sorted keys and Go's floats.
pub(crate) fn write_jsoniter(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => match GoNumber::of(number) {
            GoNumber::Int(int) => text.push_str(&int.to_string()),
            GoNumber::Float(float) => text.push_str(&go_text::jsoniter_float(float)),
        },
        Value::String(string) => write_jsoniter_string(text, string, Escape::Value),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_jsoniter(text, item);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            text.push('{');
            for (index, (name, field)) in fields.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_jsoniter_string(text, name, Escape::Value);
                text.push(':');
                write_jsoniter(text, field);
            }
            text.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_print_as_go_source() {
        assert_eq!(syntax(&json!({"a": [1, "x"]})), r#"map[string]interface {}{"a":[]interface {}{1, "x"}}"#);
    }

    #[test]
    fn jsoniter_has_its_own_floats_and_escapes() {
        let mut text = String::new();
        write_jsoniter(&mut text, &json!([80.0, 1e-7, -1.25e22, 0.000_001, "<\u{8}\n\u{2028}", {"<": null}]));
        assert_eq!(text, r#"[80,1e-07,-1.25e+22,0.000001,"\u003c\u0008\n\u2028",{"\u003c":null}]"#);
        let mut name = String::new();
        write_jsoniter_string(&mut name, "<\u{8}\"\u{2028}", Escape::Name);
        assert_eq!(name, "\"<\\u0008\\\"\u{2028}\"");
    }
}
