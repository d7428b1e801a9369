//! Comparison operators in filters, with the semantics of Go templates.

use std::cmp::Ordering;

use serde_json::Value;

use super::Error;

/// Evaluates `left operator right`.
pub(super) fn holds(left: &Value, operator: &str, right: &Value) -> Result<bool, Error> {
    let equal = || equal(left, right);
    let order = || order(left, right);
    match operator {
        "==" => equal(),
        "!=" => equal().map(|equal| !equal),
        "<" => order().map(|order| order == Some(Ordering::Less)),
        "<=" => order().map(|order| matches!(order, Some(Ordering::Less | Ordering::Equal))),
        ">" => order().map(|order| !matches!(order, Some(Ordering::Less | Ordering::Equal))),
        ">=" => order().map(|order| order != Some(Ordering::Less)),
        other => Err(Error::new(format!("unrecognized filter operator {other}"))),
    }
}

#[derive(PartialEq)]
enum Kind {
    Bool,
    Integer,
    Float,
    Text,
}

fn kind(value: &Value) -> Result<Kind, Error> {
    match value {
        Value::Bool(_) => Ok(Kind::Bool),
        Value::Number(number) if number.is_f64() => Ok(Kind::Float),
        Value::Number(_) => Ok(Kind::Integer),
        Value::String(_) => Ok(Kind::Text),
        _ => Err(Error::new("invalid type for comparison")),
    }
}

fn same_kind(left: &Value, right: &Value) -> Result<Kind, Error> {
    let (left, right) = (kind(left)?, kind(right)?);
    if left == right { Ok(left) } else { Err(Error::new("incompatible types for comparison")) }
}

fn equal(left: &Value, right: &Value) -> Result<bool, Error> {
    same_kind(left, right)?;
    Ok(left == right)
}

fn order(left: &Value, right: &Value) -> Result<Option<Ordering>, Error> {
    match same_kind(left, right)? {
        Kind::Bool => Err(Error::new("invalid type for comparison")),
        Kind::Text => Ok(left.as_str().partial_cmp(&right.as_str())),
        Kind::Integer => Ok(left.as_i64().partial_cmp(&right.as_i64())),
        Kind::Float => Ok(left.as_f64().partial_cmp(&right.as_f64())),
    }
}
