//! Equality and order of values as structured-merge-diff defines them: numbers compare by value, regardless of type.

use crate::go::GoNumber;
use rdd_meta::go_text;
use serde_json::Value;
use std::cmp::Ordering;

/// Whether two values are equal. An integer and a float are equal if their numeric values are.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(_), Value::Number(_)) => compare(left, right) == Ordering::Equal,
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|((left_name, left), (right_name, right))| left_name == right_name && equal(left, right))
        }
        _ => left == right,
    }
}

/// A total order of values: numbers, strings, booleans, lists, maps, null.
pub(crate) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (GoNumber::of(left), GoNumber::of(right)) {
            (GoNumber::Int(left), GoNumber::Int(right)) => left.cmp(&right),
            (left, right) => left.as_float().partial_cmp(&right.as_float()).unwrap_or(Ordering::Equal),
        },
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let differing =
                left.iter().zip(right).map(|(left, right)| compare(left, right)).find(|order| order.is_ne());
            differing.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            for ((left_name, left), (right_name, right)) in left.iter().zip(right) {
                let order = left_name.cmp(right_name).then_with(|| compare(left, right));
                if order.is_ne() {
                    return order;
                }
            }
            left.len().cmp(&right.len())
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// Formats a value in a field path for people.
pub(crate) fn display(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(string) => go_text::quote(string),
        Value::Array(items) => format!("[{}]", items.iter().map(display).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => fields.iter().map(|(name, field)| format!("{name}={}", display(field))).collect(),
        other => go_text::plain(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_integer_equals_the_float_of_the_same_worth() {
        assert!(equal(&json!({"a": [80]}), &json!({"a": [80.0]})));
        assert!(!equal(&json!("80"), &json!(80)));
    }

    #[test]
    fn kinds_have_an_order_and_numbers_are_compared_by_worth() {
        let sorted =
            [json!(-1), json!(0.5), json!(9), json!(10), json!("a"), json!(false), json!([]), json!({}), json!(null)];
        for (index, left) in sorted.iter().enumerate() {
            for (other, right) in sorted.iter().enumerate() {
                assert_eq!(compare(left, right), index.cmp(&other), "{left} {right}");
            }
        }
    }
}
