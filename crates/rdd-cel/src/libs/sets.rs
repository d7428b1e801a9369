//! Functions that treat lists as sets.

use crate::value::{Fault, List, Outcome, Value, list_contains};

fn both<'v, 'a>(args: &'v [Value<'a>]) -> Result<(&'v List<'a>, &'v List<'a>), Fault> {
    match args {
        [Value::List(left), Value::List(right)] => Ok((left, right)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn includes(list: &List<'_>, part: &List<'_>) -> Result<bool, Fault> {
    for item in part.iter() {
        if !list_contains(list, &item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(crate) fn contains<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (list, part) = both(args)?;
    includes(list, part).map(Value::Bool)
}

pub(crate) fn equivalent<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (left, right) = both(args)?;
    Ok(Value::Bool(includes(left, right)? && includes(right, left)?))
}

pub(crate) fn intersects<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (left, right) = both(args)?;
    for item in left.iter() {
        // As in cel-go, a failed comparison counts as different.
        if list_contains(right, &item?) == Ok(true) {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
