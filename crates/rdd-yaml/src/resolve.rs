//! Determines the type of a plain scalar from its text: goyaml's `resolve`.

use rdd_meta::go_text::json_float;
use serde_json::{Number, Value};

/// The type of a scalar, with its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    /// `null`, `~` or an empty text.
    Null,
    /// `yes`, `on`, `true` and their opposites.
    Bool(bool),
    /// An integer that fits an `i64`.
    Int(i64),
    /// An integer above the range of `i64`.
    Uint(u64),
    /// Any other number, including infinities and NaN.
    Float(f64),
    /// A date, or a date and a time. It stays text in JSON.
    Timestamp,
    /// Any other text.
    Text,
}

impl Scalar {
    /// The tag of the type, as error messages name it.
    pub(super) fn tag(&self) -> &'static str {
        match self {
            Self::Null => "!!null",
            Self::Bool(_) => "!!bool",
            Self::Int(_) | Self::Uint(_) => "!!int",
            Self::Float(_) => "!!float",
            Self::Timestamp => "!!timestamp",
            Self::Text => "!!str",
        }
    }

    /// The scalar as JSON, or `None` for a float that JSON cannot represent (NaN, infinities).
    pub(super) fn to_json(&self, text: &str) -> Option<Value> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Int(value) => (*value).into(),
            Self::Uint(value) => json_number(*value as f64)?,
            Self::Float(value) => json_number(*value)?,
            Self::Timestamp | Self::Text => text.into(),
        })
    }
}

/// A float after a round trip through JSON, which turns whole numbers into integers.
fn json_number(number: f64) -> Option<Value> {
    let float = Number::from_f64(number)?;
    Some(json_float(number).parse::<i64>().map_or(Value::Number(float), Value::from))
}

/// Determines the type of a scalar that has neither quotes nor a tag.
pub(super) fn resolve(text: &str) -> Scalar {
    let Some(first) = text.bytes().next() else { return Scalar::Null };
    if let Some(known) = word(text) {
        return known;
    }
    match first {
        b'.' => finite(text).map_or(Scalar::Text, Scalar::Float),
        // Before numbers, because `2001-01-01` begins with digits.
        b'+' | b'-' | b'0'..=b'9' if is_timestamp(text) => Scalar::Timestamp,
        b'+' | b'-' | b'0'..=b'9' => number(&text.replace('_', "")),
        _ => Scalar::Text,
    }
}

/// Whether goyaml v3 takes a plain scalar for a string. There, most boolean words of YAML 1.1 (`yes`, `on`) are
/// strings.
pub(super) fn is_text_v3(text: &str) -> bool {
    match resolve(text) {
        Scalar::Bool(_) => !matches!(text, "true" | "True" | "TRUE" | "false" | "False" | "FALSE"),
        other => other == Scalar::Text,
    }
}

/// The tag that goyaml v3 gives to a scalar without quotes and without a tag: `!!int`, `!!str` and so on.
pub fn core_tag(text: &str) -> &'static str {
    match text {
        "<<" => "!!merge",
        text if is_text_v3(text) => "!!str",
        text => resolve(text).tag(),
    }
}

fn word(text: &str) -> Option<Scalar> {
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Scalar::Bool(false),
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => return None,
    })
}

fn number(plain: &str) -> Scalar {
    if let Some(integer) = integer(plain) {
        return integer;
    }
    if is_float(plain) { finite(plain).map_or(Scalar::Text, Scalar::Float) } else { Scalar::Text }
}

/// Parses an integer as `strconv.ParseInt` and `ParseUint` do with base 0: `0x1f`, `0o17`, `017`, `0b101`.
fn integer(plain: &str) -> Option<Scalar> {
    let (negative, digits) = match plain.as_bytes().first()? {
        b'-' => (true, &plain[1..]),
        b'+' => (false, &plain[1..]),
        _ => (false, plain),
    };
    let lower = digits.get(..2).unwrap_or_default().to_ascii_lowercase();
    let (base, digits) = match lower.as_str() {
        "0x" => (16, &digits[2..]),
        "0o" => (8, &digits[2..]),
        "0b" => (2, &digits[2..]),
        _ if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_alphanumeric()) {
        return None;
    }
    let size = u64::from_str_radix(digits, base).ok()?;
    match (negative, i64::try_from(size)) {
        (true, _) => 0_i64.checked_sub_unsigned(size).map(Scalar::Int),
        (false, Ok(value)) => Some(Scalar::Int(value)),
        // `strconv.ParseUint` accepts no sign.
        (false, Err(_)) => (!plain.starts_with('+')).then_some(Scalar::Uint(size)),
    }
}

/// Whether the text matches goyaml's `yamlStyleFloat`: `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let text = strip_sign(text);
    let whole = count_digits(text);
    let mut rest = &text[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let count = count_digits(fraction);
        if whole == 0 && count == 0 {
            return false;
        }
        rest = &fraction[count..];
    } else if whole == 0 {
        return false;
    }
    match rest.strip_prefix(['e', 'E']) {
        Some(power) => {
            let power = strip_sign(power);
            !power.is_empty() && count_digits(power) == power.len()
        }
        None => rest.is_empty(),
    }
}

fn count_digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn strip_sign(text: &str) -> &str {
    text.strip_prefix(['-', '+']).unwrap_or(text)
}

/// Parses a float. A number that is too large for a finite float stays text.
fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Whether goyaml takes the text for a time: `2006-1-2`, `2006-1-2T15:4:5.9Z`, `2006-1-2 15:4:5`.
pub(super) fn is_timestamp(text: &str) -> bool {
    match strip_date(text) {
        Some("") => true,
        Some(rest) => match rest.strip_prefix(['T', 't']) {
            Some(time) => strip_clock(time).is_some_and(is_zone),
            // With a blank between date and time, goyaml's layouts have no zone.
            None => rest.strip_prefix(' ').and_then(strip_clock).is_some_and(str::is_empty),
        },
        None => false,
    }
}

/// Takes up to `most` digits and then the character `follows`. Returns the number and how many digits it has.
fn take_digits(rest: &mut &str, most: usize, follows: Option<char>) -> Option<(u32, usize)> {
    let count = rest.bytes().take_while(u8::is_ascii_digit).take(most).count();
    let value = rest[..count].parse().ok()?;
    *rest = &rest[count..];
    if let Some(follows) = follows {
        *rest = rest.strip_prefix(follows)?;
    }
    Some((value, count))
}

/// Strips a valid date. Its year has exactly four digits.
fn strip_date(text: &str) -> Option<&str> {
    let mut rest = text;
    let (year, 4) = take_digits(&mut rest, 5, Some('-'))? else { return None };
    let (month, _) = take_digits(&mut rest, 2, Some('-'))?;
    let (day, _) = take_digits(&mut rest, 2, None)?;
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    (1..=days).contains(&day).then_some(rest)
}

/// Strips a time of day, with or without a fraction of a second.
fn strip_clock(text: &str) -> Option<&str> {
    let mut rest = text;
    for (limit, follows) in [(24, Some(':')), (60, Some(':')), (60, None)] {
        let (value, _) = take_digits(&mut rest, 2, follows)?;
        if value >= limit {
            return None;
        }
    }
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let count = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if count > 0 {
            rest = &fraction[count..];
        }
    }
    Some(rest)
}

/// Whether the text is `Z` or an offset such as `+02:00`.
fn is_zone(text: &str) -> bool {
    let Some(offset) = text.strip_prefix(['+', '-']) else { return text == "Z" };
    offset
        .split_once(':')
        .is_some_and(|(hours, minutes)| is_two_digits_below(hours, 25) && is_two_digits_below(minutes, 60))
}

fn is_two_digits_below(text: &str, limit: u32) -> bool {
    text.len() == 2
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && text.parse().is_ok_and(|value: u32| value < limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Finding A-11: one word of the list could be lost without a test noticing.
    #[test]
    fn every_boolean_of_yaml_1_1_is_one_in_three_spellings() {
        for (words, value) in [(["y", "yes", "true", "on"], true), (["n", "no", "false", "off"], false)] {
            for word in words {
                let upper = word.to_uppercase();
                let title = format!("{}{}", &upper[..1], &word[1..]);
                for spelling in [word, &title, &upper] {
                    assert_eq!(resolve(spelling), Scalar::Bool(value), "{spelling}");
                }
            }
        }
    }

    #[test]
    fn words_and_numbers_are_those_of_yaml_1_1() {
        for (text, json) in [
            ("yes", "true"),
            ("Off", "false"),
            ("y", "true"),
            ("~", "null"),
            ("", "null"),
            ("NULL", "null"),
            ("0x1F", "31"),
            ("0o17", "15"),
            ("017", "15"),
            ("0b101", "5"),
            ("-0b11", "-3"),
            ("1_000", "1000"),
            ("08", "8"),
            ("+12", "12"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("1.0", "1"),
            ("1e3", "1000"),
            (".5", "0.5"),
            ("5.", "5"),
            ("1.5e-3", "0.0015"),
            ("-0.0", "0"),
            ("18446744073709551615", "18446744073709552000.0"),
            ("1e20", "100000000000000000000.0"),
            ("1e999", r#""1e999""#),
            ("1:30", r#""1:30""#),
            ("2001-01-01", r#""2001-01-01""#),
            ("-", r#""-""#),
            ("0x", r#""0x""#),
            ("nope", r#""nope""#),
            ("yEs", r#""yEs""#),
            ("--1", r#""--1""#),
            ("1e", r#""1e""#),
        ] {
            let expected: Value = serde_json::from_str(json).unwrap();
            assert_eq!(resolve(text).to_json(text), Some(expected), "{text}");
        }
        assert_eq!(resolve(".nan").to_json(".nan"), None);
    }

    #[test]
    fn times_are_told_from_what_only_looks_like_them() {
        for text in
            ["2001-1-2", "2024-02-29", "2001-12-14T21:59:43.10-05:00", "2001-12-14t1:2:3Z", "2001-12-14 1:2:3.5"]
        {
            assert!(is_timestamp(text), "{text}");
        }
        for text in [
            "2001-13-01",
            "2023-02-29",
            "2001-1-2x",
            "20011-1-2",
            "2001-1-2T1:2:3",
            "2001-1-2T25:2:3Z",
            "2001-",
            "+001-1-1",
        ] {
            assert!(!is_timestamp(text), "{text}");
        }
    }
}
