//! Operators: arithmetic, comparison, membership and size.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::libs::time;
use crate::value::{Fault, Key, List, ListKind, ListValues, Outcome, Value, compare, list_contains, list_map_key};

fn overflow() -> Fault {
    Fault::error("integer overflow")
}

fn unsigned_overflow() -> Fault {
    Fault::error("unsigned integer overflow")
}

pub(crate) fn can_add(value: &Value<'_>) -> bool {
    use Value::{Bytes, Double, Duration, Int, List, String, Timestamp, Uint};
    matches!(value, Bytes(_) | Double(_) | Duration(_) | Int(_) | List(_) | String(_) | Timestamp(_) | Uint(_))
}

pub(crate) fn can_subtract(value: &Value<'_>) -> bool {
    use Value::{Double, Duration, Int, Timestamp, Uint};
    matches!(value, Double(_) | Duration(_) | Int(_) | Timestamp(_) | Uint(_))
}

pub(crate) fn can_multiply(value: &Value<'_>) -> bool {
    matches!(value, Value::Double(_) | Value::Int(_) | Value::Uint(_))
}

pub(crate) fn can_compare(value: &Value<'_>) -> bool {
    use Value::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
    matches!(value, Bool(_) | Bytes(_) | Double(_) | Duration(_) | Int(_) | String(_) | Timestamp(_) | Uint(_))
}

pub(crate) fn not<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match &args[0] {
        Value::Bool(value) => Ok(Value::Bool(!value)),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(crate) fn negate<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match &args[0] {
        Value::Int(value) => value.checked_neg().map(Value::Int).ok_or_else(overflow),
        Value::Double(value) => Ok(Value::Double(-value)),
        Value::Duration(value) => value.checked_neg().map(Value::Duration).ok_or_else(overflow),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(crate) fn add<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match (&args[0], &args[1]) {
        (Value::Int(a), Value::Int(b)) => a.checked_add(*b).map(Value::Int).ok_or_else(overflow),
        (Value::Uint(a), Value::Uint(b)) => a.checked_add(*b).map(Value::Uint).ok_or_else(unsigned_overflow),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
        (Value::String(a), Value::String(b)) => Ok(Value::text(format!("{}{}", &**a, &**b))),
        (Value::Bytes(a), Value::Bytes(b)) => Ok(Value::Bytes(a.iter().chain(b.iter()).copied().collect())),
        (Value::Duration(a), Value::Duration(b)) => a.checked_add(*b).map(Value::Duration).ok_or_else(overflow),
        (Value::Timestamp(moment), Value::Duration(nanos)) | (Value::Duration(nanos), Value::Timestamp(moment)) => {
            time::shift(*moment, i128::from(*nanos)).map(Value::Timestamp)
        }
        (Value::List(a), Value::List(b)) => concatenate(a, b),
        _ => Err(Fault::no_such_overload()),
    }
}

/// Concatenates lists. The left list keeps its kind: a set adds no duplicates, and in a list of type map, a later item replaces
/// an earlier one with its keys.
fn concatenate<'a>(left: &List<'a>, right: &List<'a>) -> Outcome<'a> {
    let kind = left.kind();
    let mut items = left.to_vec()?;
    match &kind {
        ListKind::Plain => {
            // An empty computed list gives the right one unchanged, with its kind.
            if left.is_empty() && matches!(left, List::Values(_)) {
                return Ok(Value::List(right.clone()));
            }
            items.extend(right.to_vec()?);
        }
        ListKind::Set => {
            let mut seen = items.iter().map(Key::of).collect::<Result<HashSet<_>, _>>()?;
            for item in right.iter() {
                let item = item?;
                if seen.insert(Key::of(&item)?) {
                    items.push(item);
                }
            }
        }
        ListKind::Map(keys) => {
            let mut places: HashMap<Vec<String>, usize> =
                items.iter().enumerate().filter_map(|(index, mine)| Some((list_map_key(mine, keys)?, index))).collect();
            for item in right.iter() {
                let item = item?;
                match list_map_key(&item, keys) {
                    // The item keeps its place, as in a merge.
                    Some(key) if places.contains_key(&key) => items[places[&key]] = item,
                    key => {
                        places.extend(key.map(|key| (key, items.len())));
                        items.push(item);
                    }
                }
            }
        }
    }
    Ok(Value::List(List::Values(Arc::new(ListValues { items, kind }))))
}

pub(crate) fn subtract<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match (&args[0], &args[1]) {
        (Value::Int(a), Value::Int(b)) => a.checked_sub(*b).map(Value::Int).ok_or_else(overflow),
        (Value::Uint(a), Value::Uint(b)) => a.checked_sub(*b).map(Value::Uint).ok_or_else(unsigned_overflow),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a - b)),
        (Value::Duration(a), Value::Duration(b)) => a.checked_sub(*b).map(Value::Duration).ok_or_else(overflow),
        (Value::Timestamp(moment), Value::Duration(nanos)) => {
            // The smallest duration has no positive counterpart.
            let back = nanos.checked_neg().ok_or_else(overflow)?;
            time::shift(*moment, i128::from(back)).map(Value::Timestamp)
        }
        (Value::Timestamp(a), Value::Timestamp(b)) => time::between(*a, *b).map(Value::Duration).ok_or_else(overflow),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(crate) fn multiply<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match (&args[0], &args[1]) {
        (Value::Int(a), Value::Int(b)) => a.checked_mul(*b).map(Value::Int).ok_or_else(overflow),
        (Value::Uint(a), Value::Uint(b)) => a.checked_mul(*b).map(Value::Uint).ok_or_else(unsigned_overflow),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a * b)),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(crate) fn divide<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match (&args[0], &args[1]) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => Err(Fault::error("division by zero")),
        (Value::Int(a), Value::Int(b)) => a.checked_div(*b).map(Value::Int).ok_or_else(overflow),
        (Value::Uint(a), Value::Uint(b)) => Ok(Value::Uint(a / b)),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a / b)),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(crate) fn modulo<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match (&args[0], &args[1]) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => Err(Fault::error("modulus by zero")),
        (Value::Int(a), Value::Int(b)) => a.checked_rem(*b).map(Value::Int).ok_or_else(overflow),
        (Value::Uint(a), Value::Uint(b)) => Ok(Value::Uint(a % b)),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(crate) fn less<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    compare(&args[0], &args[1]).map(|order| Value::Bool(order == Ordering::Less))
}

pub(crate) fn less_equals<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    compare(&args[0], &args[1]).map(|order| Value::Bool(order != Ordering::Greater))
}

pub(crate) fn greater<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    compare(&args[0], &args[1]).map(|order| Value::Bool(order == Ordering::Greater))
}

pub(crate) fn greater_equals<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    compare(&args[0], &args[1]).map(|order| Value::Bool(order != Ordering::Less))
}

pub(crate) fn is_in<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match &args[1] {
        Value::List(list) => list_contains(list, &args[0]).map(Value::Bool),
        // `in` tests the keys of a map.
        Value::Map(map) => map.find(&args[0]).map(|found| Value::Bool(found.is_some())),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(crate) fn size<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    args[0].size().map(|size| Value::Int(size as i64)).ok_or_else(Fault::no_such_overload)
}
