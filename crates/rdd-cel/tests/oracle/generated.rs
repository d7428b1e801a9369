//! Compares thousands of generated expressions on generated data: types, values, errors and costs are the same as upstream.

use std::collections::BTreeMap;

use crate::generate::{self, Random};
use crate::ours::Ground;
use crate::vectors::differences;
use rdd_testkit::oracle::GoOracle;
use serde_json::{Value as Json, json};

const CASES: u64 = 8_000;

#[test]
fn generated_expressions_get_the_same_answers() {
    let Some(oracle) = GoOracle::build("oracle-cel") else { return };
    let ground = Ground::new(generate::schema());
    let seed_base: u64 = std::env::var("ORACLE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let cases: Vec<(String, Json, Option<Json>, u64)> = (0..CASES)
        .map(|index| {
            let mut random = Random::new(seed_base * 1_000_003 + index);
            let depth = 1 + random.below(4);
            let kind = generate::any_kind(&mut random);
            let text = generate::expression(&mut random, kind, depth, &mut Vec::new());
            let old = (random.below(3) > 0).then(|| generate::data(&mut random));
            let limit = if random.below(10) == 0 { random.below(60) as u64 } else { 1_000_000 };
            (text, generate::data(&mut random), old, limit)
        })
        .collect();
    let requests: Vec<Json> = cases
        .iter()
        .map(|(text, own, old, limit)| {
            json!({"op": "eval", "expr": text, "schema": ground.schema, "self": own, "old": old, "hasOld": old.is_some(), "limit": limit})
        })
        .collect();
    let answers = oracle.ask(&requests);
    let (mut wrong, mut kinds) = (0, BTreeMap::<&str, usize>::new());
    for ((text, own, old, limit), theirs) in cases.iter().zip(&answers) {
        let kind = ["panic", "fault", "compile", "program", "error", "value"]
            .into_iter()
            .find(|key| theirs.get(key).is_some());
        *kinds.entry(kind.unwrap_or("none")).or_default() += 1;
        let ours = ground.answer(text, own, old.as_ref(), *limit);
        // Known differences: where cel-go fails inside Go's runtime, and maps with keys that are neither scalars nor strings.
        let is_odd = |answer: &Json, words: &str| answer["error"].as_str().is_some_and(|text| text.contains(words));
        if is_odd(theirs, "runtime error") || is_odd(&ours, "unsupported map key type") {
            continue;
        }
        if let Some(kind) = differences(&ours, theirs) {
            wrong += 1;
            if wrong < 400 {
                println!(
                    "DIFF {kind}\n  {text}\n  ours   {ours}\n  theirs {theirs}\n  self {own}\n  old {old:?} limit {limit}"
                );
            }
        }
    }
    println!("generated: {CASES} compared {kinds:?}, {wrong} differ");
    assert_eq!(wrong, 0, "expressions with other answers");
}
