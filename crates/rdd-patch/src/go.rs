//! How Go prints values: error texts, field paths and FieldsV1 keys carry its spelling.

use serde_json::{Number, Value};
use std::fmt::Write;

/// A number as Kubernetes decodes it: an int64 where it fits, else a float64.
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

/// The Go type that Kubernetes decodes this value into, as `%T` prints it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) => match GoNumber::of(number) {
            GoNumber::Int(_) => "int64",
            GoNumber::Float(_) => "float64",
        },
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Go's `==` on two decoded values: `None` where Go would panic because maps and slices are not comparable.
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

/// `%v`.
pub(crate) fn plain(value: &Value) -> String {
    let mut text = String::new();
    write_plain(&mut text, value);
    text
}

fn write_plain(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("<nil>"),
        Value::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&plain_number(number)),
        Value::String(string) => text.push_str(string),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(' ');
                }
                write_plain(text, item);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            text.push_str("map[");
            for (index, (name, field)) in fields.iter().enumerate() {
                if index > 0 {
                    text.push(' ');
                }
                text.push_str(name);
                text.push(':');
                write_plain(text, field);
            }
            text.push(']');
        }
    }
}

/// `%#v`.
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

/// `%v` of a number.
pub(crate) fn plain_number(number: &Number) -> String {
    match GoNumber::of(number) {
        GoNumber::Int(int) => int.to_string(),
        GoNumber::Float(float) => general(float),
    }
}

/// `%v` of a float64: the shortest digits, with an exponent below 1e-4 and from 1e6 on.
fn general(float: f64) -> String {
    let (negative, digits, exponent) = shortest(float);
    let body = if !(-4..6).contains(&exponent) { scientific(&digits, exponent) } else { positional(&digits, exponent) };
    if negative { format!("-{body}") } else { body }
}

/// A float64 as encoding/json and jsoniter write it. Only the former shortens `e-09` to `e-9`.
pub(crate) fn json_float(float: f64, shorten_exponent: bool) -> String {
    let (negative, digits, exponent) = shortest(float);
    let magnitude = float.abs();
    let body = if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = scientific(&digits, exponent);
        if shorten_exponent { text.replace("e-0", "e-") } else { text }
    } else {
        positional(&digits, exponent)
    };
    if negative { format!("-{body}") } else { body }
}

/// Sign, shortest decimal digits and decimal exponent of the first digit.
fn shortest(float: f64) -> (bool, String, i32) {
    let text = format!("{:e}", float.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (float.is_sign_negative(), mantissa.replace('.', ""), exponent.parse().unwrap_or(0))
}

fn scientific(digits: &str, exponent: i32) -> String {
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{first}{point}{rest}e{sign}{:02}", exponent.abs())
}

fn positional(digits: &str, exponent: i32) -> String {
    let Ok(integral) = usize::try_from(exponent + 1) else {
        let zeros = usize::try_from(-exponent - 1).unwrap_or(0);
        return format!("0.{}{digits}", "0".repeat(zeros));
    };
    if integral == 0 {
        return format!("0.{digits}");
    }
    if digits.len() <= integral {
        return format!("{digits}{}", "0".repeat(integral - digits.len()));
    }
    let (whole, fraction) = digits.split_at(integral);
    format!("{whole}.{fraction}")
}

/// `%q`.
pub(crate) fn quote(string: &str) -> String {
    let mut text = String::with_capacity(string.len() + 2);
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\x07' => text.push_str("\\a"),
            '\x08' => text.push_str("\\b"),
            '\x0c' => text.push_str("\\f"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\x0b' => text.push_str("\\v"),
            character if is_print(character) => text.push(character),
            character => {
                let code = u32::from(character);
                // Writing to a String cannot fail.
                let _ = match code {
                    0..=0x7f => write!(text, "\\x{code:02x}"),
                    0x80..=0xffff => write!(text, "\\u{code:04x}"),
                    _ => write!(text, "\\U{code:08x}"),
                };
            }
        }
    }
    text.push('"');
    text
}

/// Go's `unicode.IsPrint`, as far as std's tables tell: std also escapes combining marks, which Go prints.
fn is_print(character: char) -> bool {
    match character {
        ' '..='~' => true,
        '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1ace}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20f0}' => true,
        '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}' | '\u{e0100}'..='\u{e01ef}' => true,
        _ => character.escape_debug().len() == 1,
    }
}

/// The `%q` list of Go: `["a" "b"]`.
pub(crate) fn quote_list<S: AsRef<str>>(items: &[S]) -> String {
    format!("[{}]", items.iter().map(|item| quote(item.as_ref())).collect::<Vec<_>>().join(" "))
}

/// Which of Go's JSON writers to imitate when a string is escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escape {
    /// encoding/json: `<`, `>`, `&`, U+2028 and U+2029 are escaped, `\b` and `\f` have short forms.
    Standard,
    /// jsoniter's value writer: as above without the short forms.
    Jsoniter,
    /// jsoniter's field-name writer: only what JSON demands.
    JsoniterName,
}

pub(crate) fn write_json_string(text: &mut String, string: &str, escape: Escape) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\x08' if escape == Escape::Standard => text.push_str("\\b"),
            '\x0c' if escape == Escape::Standard => text.push_str("\\f"),
            '\0'..='\x1f' => {
                let _ = write!(text, "\\u{:04x}", u32::from(character));
            }
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if escape != Escape::JsoniterName => {
                let _ = write!(text, "\\u{:04x}", u32::from(character));
            }
            character => text.push(character),
        }
    }
    text.push('"');
}

/// A value as encoding/json (or jsoniter in its compatible mode) writes it: keys sorted, Go's floats.
pub(crate) fn write_json(text: &mut String, value: &Value, escape: Escape) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => match GoNumber::of(number) {
            GoNumber::Int(int) => text.push_str(&int.to_string()),
            GoNumber::Float(float) => text.push_str(&json_float(float, escape == Escape::Standard)),
        },
        Value::String(string) => write_json_string(text, string, escape),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_json(text, item, escape);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            text.push('{');
            for (index, (name, field)) in fields.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_json_string(text, name, escape);
                text.push(':');
                write_json(text, field, escape);
            }
            text.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_print_as_go_prints_them() {
        assert_eq!(plain(&json!({"b": [1, "x", null], "a": {"c": 1.5}})), "map[a:map[c:1.5] b:[1 x <nil>]]");
        assert_eq!(plain(&json!(1e21)), "1e+21");
        assert_eq!(plain(&json!(0.00001)), "1e-05");
        assert_eq!(plain(&json!(123_456.5)), "123456.5");
        assert_eq!(plain(&json!(1e6)), "1e+06");
        assert_eq!(plain(&json!(123_456_789.0)), "1.23456789e+08");
        assert_eq!(syntax(&json!({"a": [1, "x"]})), r#"map[string]interface {}{"a":[]interface {}{1, "x"}}"#);
    }

    #[test]
    fn json_floats_follow_the_two_writers() {
        assert_eq!(json_float(80.0, true), "80");
        assert_eq!(json_float(1e-7, true), "1e-7");
        assert_eq!(json_float(1e-7, false), "1e-07");
        assert_eq!(json_float(-1.25e22, false), "-1.25e+22");
        assert_eq!(json_float(0.000_001, true), "0.000001");
    }

    #[test]
    fn quoting_escapes_what_go_cannot_print() {
        assert_eq!(quote("a\"\n\u{7f}é\u{200b}\u{301}"), "\"a\\\"\\n\\x7fé\\u200b\u{301}\"");
    }
}
