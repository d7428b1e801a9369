//! `string.format(list)`, as in version 2 of cel-go's strings library.

use rdd_meta::go_text;

use crate::libs::convert;
use crate::value::{Fault, Outcome, TEXT_BYTES_MAX, Value};

/// A part of a format string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    Clause(char, Option<usize>),
}

/// The error of an invalid format string, in cel-go's words.
pub(crate) type Malformed = String;

/// Calls `take` for each piece in order, with the index of its argument. Returns the number of arguments used, or the first
/// error, as cel-go does.
pub(crate) fn pieces(
    format: &str,
    arguments: usize,
    mut take: impl FnMut(Piece, usize) -> Result<(), Malformed>,
) -> Result<usize, Malformed> {
    let octets = format.as_bytes();
    let (mut at, mut argument, mut plain) = (0, 0, 0);
    while at < octets.len() {
        if octets[at] != b'%' {
            at += 1;
            continue;
        }
        if plain < at {
            take(Piece::Text(format[plain..at].to_owned()), argument)?;
        }
        // An escaped percent sign uses no argument.
        if octets.get(at + 1) == Some(&b'%') {
            take(Piece::Text("%".into()), argument)?;
            at += 2;
            plain = at;
            continue;
        }
        if argument >= arguments {
            return Err(format!("index {argument} out of range"));
        }
        if at + 1 >= octets.len() {
            return Err("unexpected end of string".into());
        }
        let (clause, precision, length) =
            clause(&format[at + 1..]).map_err(|problem| format!("could not parse formatting clause: {problem}"))?;
        take(Piece::Clause(clause, precision), argument)
            .map_err(|problem| format!("error during formatting: {problem}"))?;
        argument += 1;
        at += 1 + length;
        plain = at;
    }
    if plain < at {
        take(Piece::Text(format[plain..at].to_owned()), argument)?;
    }
    Ok(argument)
}

fn clause(text: &str) -> Result<(char, Option<usize>, usize), String> {
    let octets = text.as_bytes();
    let (mut at, mut precision) = (0, None);
    if octets[0] == b'.' {
        let digits = octets[1..].iter().take_while(|octet| octet.is_ascii_digit()).count();
        at = 1 + digits;
        if at >= octets.len() {
            return Err("error while parsing precision: could not find end of precision specifier".into());
        }
        let number = &text[1..at];
        precision = Some(number.parse().map_err(|_| {
            let quoted = go_text::quote(number);
            let reason = if number.is_empty() { "invalid syntax" } else { "value out of range" };
            format!("error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing {quoted}: {reason}")
        })?);
    }
    let kind = octets[at] as char;
    if !"sdfebxXo".contains(kind) {
        return Err(format!("unrecognized formatting clause \"{kind}\""));
    }
    Ok((kind, precision, at + 1))
}

pub(crate) fn format<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (Value::String(format), Value::List(list)) = (&args[0], &args[1]) else {
        return Err(Fault::no_such_overload());
    };
    let (mut text, mut too_long) = (String::new(), false);
    let outcome = pieces(format, list.len(), |piece, argument| {
        match piece {
            Piece::Text(plain) => text.push_str(&plain),
            Piece::Clause(kind, precision) => {
                let value = list.get(argument).map_err(|fault| fault.to_string())?;
                text.push_str(&clause_text(kind, precision, &value)?);
                if text.len() > TEXT_BYTES_MAX {
                    too_long = true;
                    // The error text is replaced by the cost limit below.
                    return Err(String::new());
                }
            }
        }
        Ok(())
    });
    outcome
        .map(|_| Value::text(text))
        .map_err(|problem| if too_long { Fault::CostLimit } else { Fault::Error(problem) })
}

fn clause_text(kind: char, precision: Option<usize>, value: &Value<'_>) -> Result<String, String> {
    match kind {
        's' => plain(value),
        'd' => decimal(value),
        'f' => fixed(value, precision.unwrap_or(6)),
        'e' => scientific(value, precision.unwrap_or(6)),
        'b' => match value {
            Value::Int(number) if *number < 0 => Ok(format!("-{:b}", number.unsigned_abs())),
            Value::Int(number) => Ok(format!("{number:b}")),
            Value::Uint(number) => Ok(format!("{number:b}")),
            Value::Bool(value) => Ok(if *value { "1" } else { "0" }.into()),
            other => Err(mistake('b', other.type_name())),
        },
        'x' | 'X' => hex(value, kind == 'X'),
        _ => match value {
            Value::Int(number) if *number < 0 => Ok(format!("-{:o}", number.unsigned_abs())),
            Value::Int(number) => Ok(format!("{number:o}")),
            Value::Uint(number) => Ok(format!("{number:o}")),
            other => Err(mistake('o', other.type_name())),
        },
    }
}

/// The error for a value that a clause does not accept.
pub(crate) fn mistake(kind: char, given: &str) -> String {
    let rule = match kind {
        's' => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        }
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'x' | 'X' => "only integers, byte buffers, and strings can be formatted as hex",
        _ => "octal clause can only be used on integers",
    };
    format!("{rule}, was given {given}")
}

fn plain(value: &Value<'_>) -> Result<String, String> {
    match value {
        Value::List(list) => {
            let items: Result<Vec<String>, String> = list
                .iter()
                .map(|item| item.map_err(|fault| fault.to_string()).and_then(|item| nested(&item)))
                .collect();
            Ok(format!("[{}]", items?.join(", ")))
        }
        Value::Map(map) => {
            let mut entries = Vec::with_capacity(map.len());
            for (key, value) in map.entries().map_err(|fault| fault.to_string())? {
                let key = match &key {
                    Value::String(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_) => nested(&key)?,
                    other => return Err(format!("no formatting function for map key of type {}", other.type_name())),
                };
                entries.push((key, nested(&value)?));
            }
            // Sorted by the formatted keys, so that the result does not depend on the order of the map.
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            let entries: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            Ok(format!("{{{}}}", entries.join(", ")))
        }
        Value::Null => Ok("null".into()),
        Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::Bool(_)
        | Value::String(_)
        | Value::Timestamp(_)
        | Value::Bytes(_)
        | Value::Duration(_)
        | Value::Type(_) => match convert::to_string(std::slice::from_ref(value)) {
            Ok(text) => Ok(text.shown()),
            Err(fault) => Err(format!("could not convert argument {} to string", go_text::quote(&fault.to_string()))),
        },
        other => Err(mistake('s', other.type_name())),
    }
}

/// Formats a value inside of a list or map: quoted where the plain text would be ambiguous.
fn nested(value: &Value<'_>) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(go_text::quote(text)),
        Value::Bytes(_) => Ok(format!("b{}", go_text::quote(&plain(value)?))),
        Value::Timestamp(_) => Ok(format!("timestamp({})", go_text::quote(&value.shown()))),
        Value::Duration(_) => Ok(format!("duration({})", go_text::quote(&value.shown()))),
        Value::Double(number) if number.is_finite() => Ok(format!("{number:.6}")),
        Value::Double(number) => Ok(go_text::quote(&go_text::plain_float(*number))),
        Value::Int(_)
        | Value::Uint(_)
        | Value::Bool(_)
        | Value::Null
        | Value::Type(_)
        | Value::List(_)
        | Value::Map(_) => plain(value),
        other => Err(format!("no formatting function for {}", other.type_name())),
    }
}

fn decimal(value: &Value<'_>) -> Result<String, String> {
    match value {
        Value::Int(_) | Value::Uint(_) => Ok(value.shown()),
        other => Err(mistake('d', other.type_name())),
    }
}

/// The number for a clause that takes doubles. A string may name a number that has no digits.
fn number(value: &Value<'_>, kind: char) -> Result<f64, String> {
    match value {
        Value::Double(number) => Ok(*number),
        Value::String(text) => match &**text {
            "NaN" => Ok(f64::NAN),
            "Infinity" => Ok(f64::INFINITY),
            "-Infinity" => Ok(f64::NEG_INFINITY),
            _ => Err(mistake(kind, "string")),
        },
        other => Err(mistake(kind, other.type_name())),
    }
}

/// The names of numbers without digits in the American locale.
fn unusual(number: f64) -> Option<String> {
    if number.is_nan() {
        return Some("NaN".into());
    }
    number.is_infinite().then(|| if number > 0.0 { "∞".into() } else { "-∞".into() })
}

fn fixed(value: &Value<'_>, precision: usize) -> Result<String, String> {
    let number = number(value, 'f')?;
    if let Some(name) = unusual(number) {
        return Ok(name);
    }
    // The limit bounds the length of the result.
    let text = format!("{number:.precision$}", precision = precision.min(1000));
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').map_or((digits, ""), |(whole, fraction)| (whole, fraction));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        // The American locale groups digits by three.
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let point = if fraction.is_empty() { "" } else { "." };
    Ok(format!("{sign}{grouped}{point}{fraction}"))
}

/// Scientific notation in the American locale: `1.052033×10⁰³`. cel-go passes the precision as a width, so the result is
/// padded.
fn scientific(value: &Value<'_>, width: usize) -> Result<String, String> {
    let number = number(value, 'e')?;
    let text = unusual(number).unwrap_or_else(|| raised(number));
    Ok(format!("{text:>width$}", width = width.min(1000)))
}

fn raised(number: f64) -> String {
    let text = format!("{number:.6e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let digits = format!("{:02}", exponent.abs());
    const SUPERSCRIPT: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let exponent_text: String =
        digits.chars().filter_map(|digit| digit.to_digit(10)).map(|digit| SUPERSCRIPT[digit as usize]).collect();
    let sign = if exponent < 0 { "⁻" } else { "" };
    format!("{mantissa}×10{sign}{exponent_text}")
}

fn hex(value: &Value<'_>, upper: bool) -> Result<String, String> {
    let lower = match value {
        Value::String(text) => text.bytes().map(|octet| format!("{octet:02x}")).collect(),
        Value::Bytes(octets) => octets.iter().map(|octet| format!("{octet:02x}")).collect(),
        Value::Int(number) if *number < 0 => format!("-{:x}", number.unsigned_abs()),
        Value::Int(number) => format!("{number:x}"),
        Value::Uint(number) => format!("{number:x}"),
        other => return Err(mistake('x', other.type_name())),
    };
    Ok(if upper { lower.to_ascii_uppercase() } else { lower })
}
