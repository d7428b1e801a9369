//! Formats text as Go does: quoted strings, printable characters, numbers, values and number parsing errors.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Why a number cannot be parsed, with the message of Go's `strconv.NumError`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("strconv.{function}: parsing {}: {problem}", quote(text))]
pub struct NumberError {
    function: &'static str,
    text: String,
    problem: &'static str,
}

/// Parses a decimal integer like `strconv.ParseInt(text, 10, 64)`, which accepts a sign and no underscores.
pub fn parse_int(text: &str) -> Result<i64, NumberError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let fail = |problem| NumberError { function: "ParseInt", text: text.to_owned(), problem };
    if !is_decimal(digits) {
        return Err(fail("invalid syntax"));
    }
    text.parse().map_err(|_| fail("value out of range"))
}

/// Parses a decimal integer like `strconv.ParseUint(text, 10, 64)`, which accepts no sign.
pub fn parse_uint(text: &str) -> Result<u64, NumberError> {
    let fail = |problem| NumberError { function: "ParseUint", text: text.to_owned(), problem };
    if !is_decimal(text) {
        return Err(fail("invalid syntax"));
    }
    text.parse().map_err(|_| fail("value out of range"))
}

fn is_decimal(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Quotes a string like `%q`.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        push_quoted(&mut quoted, character);
    }
    quoted.push('"');
    quoted
}

fn push_quoted(quoted: &mut String, character: char) {
    let short = match character {
        '"' | '\\' => Some(character),
        '\u{7}' => Some('a'),
        '\u{8}' => Some('b'),
        '\u{c}' => Some('f'),
        '\n' => Some('n'),
        '\r' => Some('r'),
        '\t' => Some('t'),
        '\u{b}' => Some('v'),
        _ => None,
    };
    let code = u32::from(character);
    match short {
        Some(letter) => quoted.extend(['\\', letter]),
        None if is_print(character) => quoted.push(character),
        None => {
            let written = match code {
                0..0x20 | 0x7f => write!(quoted, "\\x{code:02x}"),
                0x80..0x1_0000 => write!(quoted, "\\u{code:04x}"),
                _ => write!(quoted, "\\U{code:08x}"),
            };
            written.expect("writing to a string never fails");
        }
    }
}

/// Like Go's `unicode.IsPrint`: letters, marks, numbers, punctuation, symbols and the ASCII space. Characters that
/// Rust's Unicode tables have and Go's older ones lack count as printable here only.
pub fn is_print(character: char) -> bool {
    if character.is_ascii() {
        return (' '..='~').contains(&character);
    }
    // The standard library exposes its table of printable characters only through `escape_debug`. That escapes a
    // combining mark only at the start of a string, so the character is checked after a letter.
    let mut buffer = [b'a'; 5];
    let length = character.encode_utf8(&mut buffer[1..]).len();
    let text = std::str::from_utf8(&buffer[..=length]).expect("a letter and an encoded character");
    text.escape_debug().nth(1) == Some(character)
}

/// Formats a float like `encoding/json`: with an exponent below 1e-6 and from 1e21 on. Infinities and NaN, which JSON
/// lacks, become `null`.
pub fn json_float(number: f64) -> String {
    json_float_with(number, 1)
}

/// Formats a float like jsoniter: as [`json_float`], but exponents have at least two digits.
pub fn jsoniter_float(number: f64) -> String {
    json_float_with(number, 2)
}

fn json_float_with(number: f64, exponent_digits_min: usize) -> String {
    if !number.is_finite() {
        return "null".to_owned();
    }
    let (size, decimal) = (number.abs(), shortest(number));
    let has_exponent = size != 0.0 && !(1e-6..1e21).contains(&size);
    if has_exponent { exponent(&decimal, exponent_digits_min) } else { positional(&decimal) }
}

/// Formats a float like `%v`: with an exponent of at least two digits below 1e-4 and from 1e6 on.
pub fn plain_float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    let decimal = shortest(number);
    if (-4..6).contains(&decimal.power) { positional(&decimal) } else { exponent(&decimal, 2) }
}

/// Formats a decoded number like `%v`: Kubernetes decodes a number into an `int64` if it fits, otherwise into a
/// `float64`.
pub fn plain_number(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (None, Some(float)) => plain_float(float),
        _ => number.to_string(),
    }
}

/// Formats a decoded value like `%v`. The recursion is as deep as the value.
pub fn plain(value: &Value) -> String {
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

/// The name (`%T`) of the Go type that Kubernetes decodes a value into.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.as_i64().is_some() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A finite float in decimal: its digits, with the point after the first one, times ten to the `power`.
struct Decimal {
    sign: &'static str,
    digits: String,
    power: i32,
}

/// The shortest digits that parse back to the number. Where two candidates are equally near, Go prefers the even last
/// digit and Rust the greater one; this only occurs among numbers that need all their digits.
fn shortest(number: f64) -> Decimal {
    let mut text = format!("{number:e}");
    let digits = text.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    if digits >= 15 {
        // With an explicit number of digits, Rust rounds the exact value, and half to even as Go does.
        let rounded = format!("{number:.*e}", digits - 1);
        if rounded.parse() == Ok(number) {
            text = rounded;
        }
    }
    let (mantissa, power) = text.split_once('e').expect("this is what the format asks for");
    Decimal {
        sign: if mantissa.starts_with('-') { "-" } else { "" },
        digits: mantissa.chars().filter(char::is_ascii_digit).collect(),
        power: power.parse().expect("the exponent of a float is a small number"),
    }
}

fn positional(decimal: &Decimal) -> String {
    let Decimal { sign, digits, power } = decimal;
    let length = i32::try_from(digits.len()).expect("a float has few digits");
    let count = |number: i32| usize::try_from(number).unwrap_or(0);
    if *power < 0 {
        format!("{sign}0.{}{digits}", "0".repeat(count(-power - 1)))
    } else if *power >= length - 1 {
        format!("{sign}{digits}{}", "0".repeat(count(power - length + 1)))
    } else {
        let (whole, fraction) = digits.split_at(count(power + 1));
        format!("{sign}{whole}.{fraction}")
    }
}

fn exponent(decimal: &Decimal, digits_min: usize) -> String {
    let Decimal { sign, digits, power } = decimal;
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let power_sign = if *power < 0 { '-' } else { '+' };
    format!("{sign}{first}{point}{rest}e{power_sign}{:0>digits_min$}", power.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn floats_are_written_as_go_writes_them() {
        let rows: [(f64, &str, &str); 19] = [
            (0.0, "0", "0"),
            (-0.0, "-0", "-0"),
            (1.0, "1", "1"),
            (1.5, "1.5", "1.5"),
            (100_000.0, "100000", "100000"),
            (1_000_000.0, "1000000", "1e+06"),
            (123_456_789.0, "123456789", "1.23456789e+08"),
            (1e20, "100000000000000000000", "1e+20"),
            (1e21, "1e+21", "1e+21"),
            (1.5e21, "1.5e+21", "1.5e+21"),
            (1e-5, "0.00001", "1e-05"),
            (1e-6, "0.000001", "1e-06"),
            (1e-7, "1e-7", "1e-07"),
            (0.0001, "0.0001", "0.0001"),
            (5e-324, "5e-324", "5e-324"),
            (f64::MAX, "1.7976931348623157e+308", "1.7976931348623157e+308"),
            (-2.5e-8, "-2.5e-8", "-2.5e-08"),
            (-(247_689_262_985_570.0 + 0.625), "-247689262985570.62", "-2.4768926298557062e+14"),
            (-(806_645_960_967_915.0 + 0.25), "-806645960967915.2", "-8.066459609679152e+14"),
        ];
        for (number, json, plain) in rows {
            assert_eq!((json_float(number).as_str(), plain_float(number).as_str()), (json, plain));
        }
        assert_eq!((jsoniter_float(1e-7).as_str(), jsoniter_float(1.5).as_str()), ("1e-07", "1.5"));
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        assert_eq!(odd.map(plain_float), ["NaN", "+Inf", "-Inf"]);
        assert_eq!(odd.map(json_float), ["null"; 3]);
    }

    #[test]
    fn values_are_written_as_go_prints_interfaces() {
        let value = json!({"b": [1, "x", null, true], "a": {"c": 1.5, "d": 18_446_744_073_709_551_615_u64}});
        assert_eq!(plain(&value), "map[a:map[c:1.5 d:1.8446744073709552e+19] b:[1 x <nil> true]]");
        assert_eq!((type_name(&value["a"]["d"]), type_name(&value["b"])), ("float64", "[]interface {}"));
    }

    #[test]
    fn strings_are_quoted_as_go_quotes_them() {
        let text = "a\0\u{7}\u{8}\u{b}\u{7f}\u{ad}\u{301}ü😀\u{2028}\u{e0001}'\"\\";
        assert_eq!(quote(text), "\"a\\x00\\a\\b\\v\\x7f\\u00ad\u{301}ü😀\\u2028\\U000e0001'\\\"\\\\\"");
    }

    #[test]
    fn numbers_are_refused_in_the_words_of_strconv() {
        let uint = |text| parse_uint(text).unwrap_err().to_string();
        let int = |text| parse_int(text).unwrap_err().to_string();
        assert_eq!(uint(""), r#"strconv.ParseUint: parsing "": invalid syntax"#);
        assert_eq!(uint("-1"), r#"strconv.ParseUint: parsing "-1": invalid syntax"#);
        assert_eq!(uint("+5"), r#"strconv.ParseUint: parsing "+5": invalid syntax"#);
        assert_eq!(
            uint("99999999999999999999"),
            r#"strconv.ParseUint: parsing "99999999999999999999": value out of range"#
        );
        assert_eq!(int("1_0"), r#"strconv.ParseInt: parsing "1_0": invalid syntax"#);
        assert_eq!(int("-"), r#"strconv.ParseInt: parsing "-": invalid syntax"#);
        assert_eq!((parse_int("+5"), parse_int("-9223372036854775808")), (Ok(5), Ok(i64::MIN)));
        assert_eq!(parse_uint("18446744073709551615"), Ok(u64::MAX));
    }
}
