//! SeededRandom JSON.

use rdd_testkit::random::SeededRandom;
use serde_json::{Map, Value, json};

pub(crate) const NAMES: [&str; 9] = ["a", "b", "c", "d", "a/b", "m~n", "", "é<&>", "x\"y\u{1}"];

pub(crate) fn scalar(random: &mut SeededRandom) -> Value {
    let scalars = [
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(-7),
        json!(1.5),
        json!(1e22),
        json!(1e-7),
        json!(9_007_199_254_740_993_i64),
        json!(18_446_744_073_709_551_615_u64),
        json!(""),
        json!("a"),
        json!("b"),
        json!("<&>"),
        json!("\u{2028}\u{8}é\\"),
        json!("10"),
    ];
    random.pick(&scalars).clone()
}

pub(crate) fn value(random: &mut SeededRandom, depth: usize) -> Value {
    match random.below(if depth == 0 { 1 } else { 3 }) {
        0 => scalar(random),
        1 => (0..random.below(4)).map(|_| value(random, depth - 1)).collect(),
        _ => object(random, depth - 1),
    }
}

pub(crate) fn object(random: &mut SeededRandom, depth: usize) -> Value {
    let fields: Map<String, Value> =
        (0..random.below(5)).map(|_| ((*random.pick(&NAMES)).to_owned(), value(random, depth))).collect();
    Value::Object(fields)
}

/// The document with some of its parts replaced.
pub(crate) fn changed(random: &mut SeededRandom, document: &Value) -> Value {
    if random.chance(12) {
        return value(random, 2);
    }
    match document {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(|item| changed(random, item)).collect();
            if random.chance(20) && !items.is_empty() {
                items.remove(random.below(items.len()));
            }
            if random.chance(20) {
                items.push(value(random, 1));
            }
            Value::Array(items)
        }
        Value::Object(fields) => {
            let mut fields: Map<String, Value> =
                fields.iter().map(|(name, field)| (name.clone(), changed(random, field))).collect();
            fields.retain(|_, _| !random.chance(15));
            if random.chance(20) {
                fields.insert((*random.pick(&NAMES)).to_owned(), value(random, 2));
            }
            Value::Object(fields)
        }
        other => other.clone(),
    }
}
