//! How Go prints floats and quotes strings: upstream's messages and JSON are made of these.

use std::fmt::Write;

use serde_json::Value;

/// The shortest decimal digits of a finite float, and the exponent of the first digit.
fn shortest(value: f64) -> (String, i32) {
    let text = format!("{:e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').expect("LowerExp writes an exponent");
    let digits = mantissa.replace('.', "");
    (digits, exponent.parse().expect("LowerExp writes a decimal exponent"))
}

fn exponential(digits: &str, exponent: i32, exponent_width: usize) -> String {
    let mut out = String::with_capacity(digits.len() + 6);
    out.push_str(&digits[..1]);
    if digits.len() > 1 {
        out.push('.');
        out.push_str(&digits[1..]);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let _ = write!(out, "e{sign}{:0exponent_width$}", exponent.unsigned_abs());
    out
}

fn positional(digits: &str, exponent: i32) -> String {
    if exponent < 0 {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        return format!("0.{zeros}{digits}");
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{digits}{}", "0".repeat(whole - digits.len()));
    }
    format!("{}.{}", &digits[..whole], &digits[whole..])
}

fn signed(value: f64, text: String) -> String {
    if value.is_sign_negative() { format!("-{text}") } else { text }
}

/// `fmt.Sprintf("%v", value)`: `%g` with the shortest digits, an exponent below -4 and from 6 on.
pub fn float_verb_v(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".into() } else { "-Inf".into() };
    }
    let (digits, exponent) = shortest(value);
    let text =
        if !(-4..6).contains(&exponent) { exponential(&digits, exponent, 2) } else { positional(&digits, exponent) };
    signed(value, text)
}

/// `encoding/json`'s float: positional between 1e-6 and 1e21, else an exponent of as few digits as it needs.
pub fn float_json(value: f64) -> String {
    if !value.is_finite() {
        return "null".into();
    }
    let (digits, exponent) = shortest(value);
    let magnitude = value.abs();
    let text = if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        exponential(&digits, exponent, if exponent < 0 { 1 } else { 2 })
    } else {
        positional(&digits, exponent)
    };
    signed(value, text)
}

/// Whether Go calls the character printable (`strconv.IsPrint`).
pub fn is_printable(character: char) -> bool {
    if character == ' ' {
        return true;
    }
    // `str::escape_debug` leaves exactly the printable characters alone, except a combining mark at the start of the string.
    let mut buffer = String::with_capacity(5);
    buffer.push('a');
    buffer.push(character);
    buffer.escape_debug().nth(1) == Some(character)
}

/// `strconv.Quote`: a double-quoted Go string literal.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{07}' => out.push_str("\\a"),
            '\u{08}' => out.push_str("\\b"),
            '\u{0c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{0b}' => out.push_str("\\v"),
            c if c == '\'' || is_printable(c) => out.push(c),
            c => {
                let code = c as u32;
                let _ = match code {
                    0..0x80 => write!(out, "\\x{code:02x}"),
                    0x80..0x10000 => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push('"');
    out
}

/// `fmt.Sprintf("%v", value)` of a JSON value.
pub fn verb_v(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => integer.to_string(),
            None => float_verb_v(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::Array(items) => {
            let texts: Vec<String> = items.iter().map(verb_v).collect();
            format!("[{}]", texts.join(" "))
        }
        Value::Object(entries) => {
            let texts: Vec<String> = entries.iter().map(|(key, entry)| format!("{key}:{}", verb_v(entry))).collect();
            format!("map[{}]", texts.join(" "))
        }
    }
}

/// `fmt.Sprintf("%T", value)` of a JSON value.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::String(_) => "string",
        Value::Number(number) if number.as_i64().is_some() => "int64",
        Value::Number(_) => "float64",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Go's conversion of a float to `int64` on amd64: towards zero, and the smallest integer when it does not fit.
pub fn float_to_int(value: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) { value as i64 } else { i64::MIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_go_prints_them() {
        for (value, verb, json) in [
            (1.0, "1", "1"),
            (-0.5, "-0.5", "-0.5"),
            (1e6, "1e+06", "1000000"),
            (1e20, "1e+20", "100000000000000000000"),
            (1e21, "1e+21", "1e+21"),
            (1e-7, "1e-07", "1e-7"),
            (0.0001, "0.0001", "0.0001"),
            (0.0, "0", "0"),
        ] {
            assert_eq!((float_verb_v(value).as_str(), float_json(value).as_str()), (verb, json));
        }
    }

    #[test]
    fn quoting_escapes_what_go_escapes() {
        assert_eq!(quote("a\"b\\\n\u{7f}é\u{200b}\u{1f600}\u{301}"), "\"a\\\"b\\\\\\n\\x7fé\\u200b😀\u{301}\"");
    }
}
