//! Optional values.

use crate::value::{Fault, List, Outcome, Value};

pub(crate) fn of<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::optional(Some(args[0].clone())))
}

pub(crate) fn of_non_zero<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let is_zero = match &args[0] {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(value) | Value::Duration(value) => *value == 0,
        Value::Uint(value) => *value == 0,
        Value::Double(value) => *value == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(octets) => octets.is_empty(),
        // Go's zero time is the first second of the year 1.
        Value::Timestamp(moment) => moment.seconds == crate::libs::time::SECONDS_MIN && moment.nanos == 0,
        // In cel-go, lists and maps of an object never count as zero, even if they are empty.
        Value::List(list @ List::Values(_)) => list.is_empty(),
        Value::Map(map @ crate::value::Map::Values(_)) => map.is_empty(),
        _ => false,
    };
    Ok(Value::optional((!is_zero).then(|| args[0].clone())))
}

pub(crate) fn none<'a>(_: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::optional(None))
}

pub(crate) fn value<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match &args[0] {
        Value::Optional(Some(value)) => Ok((**value).clone()),
        Value::Optional(None) => Err(Fault::error("optional.none() dereference")),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(crate) fn has_value<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match &args[0] {
        Value::Optional(value) => Ok(Value::Bool(value.is_some())),
        _ => Err(Fault::no_such_overload()),
    }
}

fn at<'a>(args: &[Value<'a>], index: fn(usize) -> usize) -> Outcome<'a> {
    match &args[0] {
        Value::List(list) if list.is_empty() => Ok(Value::optional(None)),
        Value::List(list) => Ok(Value::optional(Some(list.get(index(list.len()))?))),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(crate) fn first<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    at(args, |_| 0)
}

pub(crate) fn last<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    at(args, |length| length - 1)
}

pub(crate) fn unwrap<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let Value::List(list) = &args[0] else { return Err(Fault::no_such_overload()) };
    let mut values = Vec::new();
    for item in list.iter() {
        match item? {
            Value::Optional(Some(value)) => values.push((*value).clone()),
            Value::Optional(None) => {}
            other => return Err(Fault::error(format!("value {} is not optional", other.shown()))),
        }
    }
    Ok(Value::List(List::new(values)))
}
