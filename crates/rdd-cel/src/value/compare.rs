//! Order and equality of values, across number types and between values of an object and computed ones.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use serde_json::Value as Json;

use super::{Fault, Key, List, ListKind, Map, Text, Value};
use crate::go;

/// Compares two values. Only values of one type are ordered, and numbers of all types among each other.
pub(crate) fn compare(left: &Value<'_>, right: &Value<'_>) -> Result<Ordering, Fault> {
    let nan = || Fault::error("NaN values cannot be ordered");
    Ok(match (left, right) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Uint(a), Value::Uint(b)) => a.cmp(b),
        (Value::Int(a), Value::Uint(b)) => go::compare_int_uint(*a, *b),
        (Value::Uint(a), Value::Int(b)) => go::compare_int_uint(*b, *a).reverse(),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b).ok_or_else(nan)?,
        (Value::Double(a), _) if a.is_nan() => return Err(nan()),
        (Value::Int(_) | Value::Uint(_), Value::Double(b)) if b.is_nan() => return Err(nan()),
        (Value::Double(a), Value::Int(b)) => go::compare_double_int(*a, *b),
        (Value::Double(a), Value::Uint(b)) => go::compare_double_uint(*a, *b),
        (Value::Int(a), Value::Double(b)) => go::compare_double_int(*b, *a).reverse(),
        (Value::Uint(a), Value::Double(b)) => go::compare_double_uint(*b, *a).reverse(),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::String(a), Value::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => (a.seconds, a.nanos).cmp(&(b.seconds, b.nanos)),
        (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
        _ => return Err(Fault::no_such_overload()),
    })
}

/// Equality as `==`. A value of an object fails if it is compared with a value that it can never equal.
pub(crate) fn equal(left: &Value<'_>, right: &Value<'_>) -> Result<bool, Fault> {
    Ok(match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Int(_) | Value::Uint(_) | Value::Double(_), Value::Int(_) | Value::Uint(_) | Value::Double(_)) => {
            compare(left, right).is_ok_and(Ordering::is_eq)
        }
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => **a == **b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => (a.seconds, a.nanos) == (b.seconds, b.nanos),
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a.runtime_name() == b.runtime_name(),
        (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => equal(a, b)?,
        (Value::List(a), _) => return equal_list(a, right),
        (Value::Map(a), _) => return equal_map(a, right),
        (Value::Quantity(a), Value::Quantity(b)) => {
            // As cel-go, where the sum of two quantities is a pointer, which does not match as the right operand.
            if b.is_computed() {
                return Err(Fault::no_such_overload());
            }
            a.compare(b).is_eq()
        }
        (Value::Url(a), Value::Url(b)) => a.to_string() == b.to_string(),
        (Value::Ip(a), Value::Ip(b)) => a == b,
        (Value::Cidr(a), Value::Cidr(b)) => a == b,
        (Value::Semver(a), Value::Semver(b)) => a.compare(b).is_eq(),
        (Value::Format(a), Value::Format(b)) => a.name == b.name,
        (
            Value::Quantity(_)
            | Value::Url(_)
            | Value::Ip(_)
            | Value::Cidr(_)
            | Value::Semver(_)
            | Value::Format(_)
            | Value::Authorization(_),
            _,
        ) => {
            return Err(Fault::no_such_overload());
        }
        (Value::Unknown(a), Value::Unknown(b)) => a == b,
        (Value::Unknown(a), other) => equal(&Value::from_json(a), other)?,
        _ => false,
    })
}

fn equal_list(left: &List<'_>, right: &Value<'_>) -> Result<bool, Fault> {
    let is_typed = matches!(left, List::Json(_, Some(_)));
    let Value::List(other) = right else {
        return if is_typed { Err(Fault::no_such_overload()) } else { Ok(false) };
    };
    if left.len() != other.len() {
        return Ok(false);
    }
    match left.kind() {
        ListKind::Plain => {
            for index in 0..left.len() {
                let same = left.get(index).and_then(|a| other.get(index).and_then(|b| equal(&a, &b)));
                match same {
                    Ok(true) => {}
                    Ok(false) => return Ok(false),
                    // As cel-go: in computed lists, an error counts as equal.
                    Err(Fault::Error(_)) if !is_typed => {}
                    Err(fault) => return Err(fault),
                }
            }
            Ok(true)
        }
        ListKind::Set => {
            let own: HashSet<Key> = raw_keys(left)?.into_iter().collect();
            Ok(other.iter().all(|item| item.and_then(|item| Key::of(&item)).is_ok_and(|key| own.contains(&key))))
        }
        ListKind::Map(keys) => {
            let mut own = HashMap::new();
            for (index, mine) in left.iter().enumerate() {
                own.extend(list_map_key(&mine?, &keys).map(|key| (key, index)));
            }
            for item in other.iter() {
                let item = item?;
                let matching = list_map_key(&item, &keys).and_then(|key| own.get(&key));
                let Some(index) = matching else { return Ok(false) };
                if !equal(&left.get(*index)?, &item)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

/// The keys of a set from its JSON: `1` in a list of numbers stays an integer.
fn raw_keys(list: &List<'_>) -> Result<Vec<Key>, Fault> {
    match list {
        List::Json(items, _) => items.iter().map(|item| Key::of(&Value::from_json(item))).collect(),
        List::Values(values) => values.items.iter().map(Key::of).collect(),
    }
}

/// The list map keys of an item. `None` for computed items, which have none.
pub(crate) fn list_map_key(item: &Value<'_>, keys: &[String]) -> Option<Vec<String>> {
    let Value::Map(Map::Json(object, _)) = item else { return None };
    Some(keys.iter().map(|key| object.get(key).map_or_else(|| "null".into(), Json::to_string)).collect())
}

fn equal_map(left: &Map<'_>, right: &Value<'_>) -> Result<bool, Fault> {
    let Value::Map(other) = right else {
        return if matches!(left, Map::Json(_, Some(_))) { Err(Fault::no_such_overload()) } else { Ok(false) };
    };
    if left.len() != other.len() {
        return Ok(false);
    }
    let Map::Json(object, Some(shape)) = left else {
        for (key, mine) in left.entries()? {
            match other.find(&key) {
                Ok(Some(theirs)) => match equal(&mine, &theirs) {
                    Ok(false) => return Ok(false),
                    Ok(true) | Err(Fault::Error(_)) => {}
                    Err(fault) => return Err(fault),
                },
                Ok(None) => return Ok(false),
                Err(_) => return Ok(false),
            }
        }
        return Ok(true);
    };
    for (name, json) in *object {
        // Fields that the schema does not declare can only be compared with those of another object.
        if !shape.declares(name) {
            let Map::Json(theirs, Some(_)) = other else { return Err(Fault::no_such_overload()) };
            if theirs.get(name).is_some_and(|value| value != json) {
                return Ok(false);
            }
            continue;
        }
        let key = Value::String(Text::Borrowed(name));
        match (left.find(&key)?, other.find(&key)?) {
            (None, None) => {}
            (Some(mine), Some(theirs)) => {
                if !equal(&mine, &theirs)? {
                    return Ok(false);
                }
            }
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Whether `list` contains `item`.
pub(crate) fn list_contains(list: &List<'_>, item: &Value<'_>) -> Result<bool, Fault> {
    let is_typed = matches!(list, List::Json(_, Some(_)));
    let mut refused = None;
    for candidate in list.iter() {
        let same =
            candidate.and_then(|candidate| if is_typed { equal(&candidate, item) } else { equal(item, &candidate) });
        match same {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(fault) if fault.is_final() => return Err(fault),
            // An error counts only if no item is equal, and only in a list of an object.
            Err(fault) => refused = refused.or(Some(fault)),
        }
    }
    match refused {
        Some(fault) if is_typed => Err(fault),
        _ => Ok(false),
    }
}
