//! Functions on strings. Positions count code points.

use crate::value::{Fault, Outcome, TEXT_BYTES_MAX, Value};

fn text<'v>(value: &'v Value<'_>) -> Result<&'v str, Fault> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(Fault::no_such_overload()),
    }
}

fn int(value: &Value<'_>) -> Result<i64, Fault> {
    match value {
        Value::Int(value) => Ok(*value),
        _ => Err(Fault::no_such_overload()),
    }
}

fn out_of_range(index: i64) -> Fault {
    Fault::error(format!("index out of range: {index}"))
}

pub(crate) fn contains<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(text(&args[0])?.contains(text(&args[1])?)))
}

pub(crate) fn starts_with<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(text(&args[0])?.starts_with(text(&args[1])?)))
}

pub(crate) fn ends_with<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(text(&args[0])?.ends_with(text(&args[1])?)))
}

pub(crate) fn char_at<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (text, index) = (text(&args[0])?, int(&args[1])?);
    let at = usize::try_from(index).map_err(|_| out_of_range(index))?;
    match text.chars().nth(at) {
        Some(c) => Ok(Value::text(c.to_string())),
        // As in cel-go, the index after the last character gives an empty string.
        None if text.chars().count() == at => Ok(Value::text("")),
        None => Err(out_of_range(index)),
    }
}

pub(crate) fn index_of<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (text, wanted) = (text(&args[0])?, text(&args[1])?);
    let offset = args.get(2).map_or(Ok(0), int)?;
    if wanted.is_empty() {
        return Ok(Value::Int(offset));
    }
    let from = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
    // An offset after the end finds nothing; only a negative one is an error.
    let Some((start, _)) = text.char_indices().nth(from) else { return Ok(Value::Int(-1)) };
    Ok(Value::Int(match text[start..].find(wanted) {
        Some(at) => (from + text[start..start + at].chars().count()) as i64,
        None => -1,
    }))
}

pub(crate) fn last_index_of<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (text, wanted) = (text(&args[0])?, text(&args[1])?);
    let length = text.chars().count() as i64;
    let offset = match args.get(2) {
        Some(offset) => int(offset)?,
        None if wanted.is_empty() => return Ok(Value::Int(length)),
        None if text.len() < wanted.len() => return Ok(Value::Int(-1)),
        None => length - 1,
    };
    if wanted.is_empty() {
        return Ok(Value::Int(offset));
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    if offset >= length {
        return Ok(Value::Int(-1));
    }
    let width = wanted.chars().count() as i64;
    let last = offset.min(length - width);
    if last < 0 {
        return Ok(Value::Int(-1));
    }
    let end = text.char_indices().nth((last + width) as usize).map_or(text.len(), |(at, _)| at);
    Ok(Value::Int(text[..end].rfind(wanted).map_or(-1, |at| text[..at].chars().count() as i64)))
}

pub(crate) fn lower_ascii<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::text(text(&args[0])?.to_ascii_lowercase()))
}

pub(crate) fn upper_ascii<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::text(text(&args[0])?.to_ascii_uppercase()))
}

pub(crate) fn replace<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (text, old, new) = (text(&args[0])?, text(&args[1])?, text(&args[2])?);
    let limit = args.get(3).map_or(Ok(-1), int)?;
    // The length of the result is computed first, so that a result that is too long is never built.
    let count = text.matches(old).count().min(usize::try_from(limit).unwrap_or(usize::MAX));
    if text.len().saturating_add(count.saturating_mul(new.len())) > TEXT_BYTES_MAX {
        return Err(Fault::CostLimit);
    }
    Ok(Value::text(match usize::try_from(limit) {
        Ok(limit) => text.replacen(old, new, limit),
        Err(_) => text.replace(old, new),
    }))
}

pub(crate) fn split<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (text, separator) = (text(&args[0])?, text(&args[1])?);
    let limit = args.get(2).map_or(Ok(-1), int)?;
    if limit == 0 {
        return Ok(Value::texts([]));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if !separator.is_empty() {
        return Ok(Value::texts(text.splitn(limit, separator).map(str::to_owned)));
    }
    // An empty separator splits into code points. At the limit, the last part is the rest.
    let mut parts: Vec<String> = Vec::new();
    for (at, c) in text.char_indices() {
        if parts.len() + 1 == limit {
            parts.push(text[at..].to_owned());
            break;
        }
        parts.push(c.to_string());
    }
    Ok(Value::texts(parts))
}

pub(crate) fn substring<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (text, start) = (text(&args[0])?, int(&args[1])?);
    let length = text.chars().count() as i64;
    let end = args.get(2).map_or(Ok(length), int)?;
    if args.len() == 3 && start > end {
        return Err(Fault::error(format!("invalid substring range. start: {start}, end: {end}")));
    }
    if start < 0 || start > length {
        return Err(out_of_range(start));
    }
    if end < 0 || end > length {
        return Err(out_of_range(end));
    }
    Ok(Value::text(text.chars().skip(start as usize).take((end - start) as usize).collect::<String>()))
}

pub(crate) fn trim<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::text(text(&args[0])?.trim()))
}

pub(crate) fn join<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let Value::List(list) = &args[0] else { return Err(Fault::no_such_overload()) };
    let separator = args.get(1).map_or(Ok(""), text)?;
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        if index > 0 {
            joined.push_str(separator);
        }
        match item {
            Ok(Value::String(text)) if joined.len() + text.len() > TEXT_BYTES_MAX => return Err(Fault::CostLimit),
            Ok(Value::String(text)) => joined.push_str(&text),
            Ok(other) => return Err(Fault::error(format!("join: invalid input: {}", other.shown()))),
            Err(fault) => return Err(Fault::error(format!("join: invalid input: {fault}"))),
        }
    }
    Ok(Value::text(joined))
}

pub(crate) fn quote<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let mut quoted = String::from('"');
    for c in text(&args[0])?.chars() {
        match c {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    Ok(Value::text(quoted))
}
