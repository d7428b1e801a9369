//! `--sort-by`: sorts objects by one of their fields.

use std::cmp::Ordering;

use rdd_meta::go_text::quote;
use serde_json::Value;

use crate::{
    error::{Error, Result},
    jsonpath::{Template, relaxed},
};

/// Sorts objects, or the rows of a table, by the first value at a path.
pub(crate) fn sort_by<T>(items: &mut [T], path: &str, object: impl Fn(&T) -> &Value) -> Result<()> {
    let template = relaxed(path).unwrap_or_else(|_| path.to_owned());
    let parsed = Template::parse(&template).map_err(|error| Error::text(format!("sorting error: {error}")))?;
    let parsed = parsed.allow_missing_keys(true);
    let mut keys: Vec<Option<Value>> = Vec::new();
    for item in items.iter() {
        let found = parsed.find(object(item)).map_err(|error| Error::text(error.to_string()))?;
        keys.push(found.first().and_then(|results| results.first()).map(|value| value.as_ref().clone()));
    }
    if !items.is_empty() && keys.iter().all(Option::is_none) {
        return Err(Error::text(format!(
            "couldn't find any field with path {} in the list of objects",
            quote(&template)
        )));
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|left, right| compare(keys[*left].as_ref(), keys[*right].as_ref()));
    apply(items, order);
    Ok(())
}

/// Permutes in place: moves the item at `order[i]` to `i`.
fn apply<T>(items: &mut [T], mut order: Vec<usize>) {
    for place in 0..items.len() {
        let mut from = order[place];
        while from < place {
            from = order[from];
        }
        items.swap(place, from);
        order[place] = from;
    }
}

/// Compares two values; a missing one sorts first.
fn compare(left: Option<&Value>, right: Option<&Value>) -> Ordering {
    let (left, right) = match (left, right) {
        (None, None) => return Ordering::Equal,
        (None, _) => return Ordering::Less,
        (_, None) => return Ordering::Greater,
        (Some(left), Some(right)) => (left, right),
    };
    match (left, right) {
        (Value::String(left), Value::String(right)) => match (quantity(left), quantity(right)) {
            (Some(left), Some(right)) => left.partial_cmp(&right).unwrap_or(Ordering::Equal),
            _ => left.cmp(right),
        },
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => left.as_f64().partial_cmp(&right.as_f64()).unwrap_or(Ordering::Equal),
        },
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

/// Parses a quantity such as `500m`, `2Gi` or `1e3`.
fn quantity(text: &str) -> Option<f64> {
    let end = text.find(|letter: char| !matches!(letter, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    let factor = match suffix {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024.0_f64.powi(2),
        "Gi" => 1024.0_f64.powi(3),
        "Ti" => 1024.0_f64.powi(4),
        "Pi" => 1024.0_f64.powi(5),
        "Ei" => 1024.0_f64.powi(6),
        suffix => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            10.0_f64.powi(exponent)
        }
    };
    Some(number * factor)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sorted(values: Value) -> Vec<Value> {
        let mut items: Vec<Value> = values.as_array().unwrap().iter().map(|value| json!({ "a": value })).collect();
        sort_by(&mut items, ".a", |item| item).unwrap();
        items.into_iter().map(|mut item| item["a"].take()).collect()
    }

    #[test]
    fn numbers_texts_and_quantities_have_their_own_order() {
        assert_eq!(sorted(json!([3, 1, 2])), [json!(1), json!(2), json!(3)]);
        assert_eq!(sorted(json!(["b", "a", "c"])), [json!("a"), json!("b"), json!("c")]);
        assert_eq!(sorted(json!(["1Gi", "900Mi", "2k"])), [json!("2k"), json!("900Mi"), json!("1Gi")]);
    }

    #[test]
    fn what_is_missing_comes_first_and_what_is_nowhere_is_an_error() {
        let mut items = vec![json!({"a": 1}), json!({}), json!({"a": 0})];
        sort_by(&mut items, "{.a}", |item| item).unwrap();
        assert_eq!(items, [json!({}), json!({"a": 0}), json!({"a": 1})]);
        let error = sort_by(&mut items, ".b", |item| item).unwrap_err();
        assert_eq!(error.to_string(), "couldn't find any field with path \"{.b}\" in the list of objects");
    }
}
