//! A small seeded generator, and JSON from it.

use serde_json::{Map, Value, json};

/// SplitMix64: every seed gives the same cases on every machine.
pub(crate) struct Random(u64);

impl Random {
    /// `RDD_ORACLE_SEED` moves all seeds: another number, other cases.
    pub(crate) fn new(seed: u64) -> Self {
        let moved: u64 = std::env::var("RDD_ORACLE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        Self(seed.wrapping_add(moved.wrapping_mul(0x5851_f42d_4c95_7f2d)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % (limit.max(1) as u64)).expect("smaller than a usize")
    }

    /// True in so many of a hundred cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index + 1));
        }
    }
}

pub(crate) const NAMES: [&str; 9] = ["a", "b", "c", "d", "a/b", "m~n", "", "é<&>", "x\"y\u{1}"];

pub(crate) fn scalar(random: &mut Random) -> Value {
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

pub(crate) fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 1 } else { 3 }) {
        0 => scalar(random),
        1 => (0..random.below(4)).map(|_| value(random, depth - 1)).collect(),
        _ => object(random, depth - 1),
    }
}

pub(crate) fn object(random: &mut Random, depth: usize) -> Value {
    let fields: Map<String, Value> =
        (0..random.below(5)).map(|_| ((*random.pick(&NAMES)).to_owned(), value(random, depth))).collect();
    Value::Object(fields)
}

/// The document with some of its parts replaced.
pub(crate) fn changed(random: &mut Random, document: &Value) -> Value {
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
