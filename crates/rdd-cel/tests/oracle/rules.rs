//! Compares generated schemas with rules at every level: failures, messages, paths and costs are those of Kubernetes.

use std::sync::Arc;

use crate::generate::{self, Random};
use rdd_cel::rules::{Limits, RuleSet};
use rdd_cel::{JsonSchema, Shape};
use rdd_testkit::oracle::GoOracle;
use serde_json::{Value as Json, json};

const SCHEMAS: u64 = 60;
const OBJECTS: u64 = 12;

/// Rules for nodes of a kind; `{}` is replaced by a number.
fn candidates(kind: &str) -> &'static [&'static str] {
    match kind {
        "integer" => &["self > {}", "self == oldSelf", "oldSelf <= self", "self % {} == 0", "self < 'a'"],
        "number" => &["self < {}.5", "self >= oldSelf"],
        "string" => {
            &["self.size() < {}", "self.startsWith('a')", "self == oldSelf", "self.matches('^[a-z]*$')", "self != ''"]
        }
        "boolean" => &["self", "self || oldSelf", "!self"],
        "array" => &[
            "self.size() < {}",
            "self.all(x, x == x)",
            "self == oldSelf",
            "self.exists(x, true)",
            "oldSelf.all(x, x in self)",
        ],
        "map" => &["self.size() <= {}", "self.all(k, k.size() < 9)", "!has(self.a) || self.a > 0", "'a' in self"],
        _ => &[
            "has(self.i)",
            "has(self.i) && self.i > {}",
            "has(self.x)",
            "!has(oldSelf.i) || has(self.i)",
            "self.i == oldSelf.i",
            "self.nope > 1",
            "1 + 1",
            "has(self.s) ? self.s != 'abc' : true",
            "1 / 0 == 1",
            "self == self",
            "lists.range({}).map(x, lists.range(300)).size() > 0",
        ],
    }
}

fn optional_rules() -> &'static [&'static str] {
    &[
        "oldSelf.hasValue() || true",
        "!oldSelf.hasValue()",
        "oldSelf.orValue(self) == self",
        "oldSelf.optMap(o, o == self).orValue(true)",
    ]
}

fn attach(schema: &mut Json, kind: &str, random: &mut Random) {
    if random.below(3) != 0 {
        return;
    }
    let rules: Vec<Json> = (0..1 + random.below(2))
        .map(|_| {
            let optional = random.below(5) == 0;
            let from = if optional { optional_rules() } else { candidates(kind) };
            let number = 1 + random.below(6);
            let mut rule = json!({"rule": from[random.below(from.len())].replace("{}", &number.to_string())});
            if optional {
                rule["optionalOldSelf"] = json!(true);
            }
            match random.below(4) {
                0 => rule["message"] = json!("  must hold  "),
                1 => {
                    let texts = [
                        "'value: ' + string(self.size())",
                        "'plain'",
                        "''",
                        "'two\\nlines'",
                        "string(1 / 0)",
                        "'old ' + string(oldSelf.i)",
                        "1",
                    ];
                    rule["messageExpression"] = json!(texts[random.below(texts.len())]);
                }
                _ => {}
            }
            if random.below(3) == 0 {
                rule["reason"] = json!(
                    ["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"]
                        [random.below(4)]
                );
            }
            if random.below(4) == 0 {
                rule["fieldPath"] =
                    json!([".i", ".o.x", ".m.key", ".m['a b']", ".nope", ".o['my-name']"][random.below(6)]);
            }
            rule
        })
        .collect();
    schema["x-kubernetes-validations"] = json!(rules);
}

fn with_rules(schema: &Json, random: &mut Random) -> Json {
    let mut made = schema.clone();
    let mut kind = schema.get("type").and_then(Json::as_str).unwrap_or_default().to_owned();
    if let Some(properties) = made.get_mut("properties").and_then(Json::as_object_mut) {
        for property in properties.values_mut() {
            *property = with_rules(property, random);
        }
    }
    for below in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(below) {
            made[below] = with_rules(inner, random);
            if below == "additionalProperties" {
                kind = "map".into();
            }
        }
    }
    if !kind.is_empty() {
        attach(&mut made, &kind, random);
        if random.below(8) == 0 {
            let mut member = json!({});
            attach(&mut member, &kind, random);
            if kind == "object" {
                member["properties"] = json!({"i": {"x-kubernetes-validations": [{"rule": "self != 2"}]}});
            }
            made["allOf"] = json!([member]);
        }
    }
    made
}

#[test]
fn generated_rules_judge_objects_as_upstream_does() {
    let Some(oracle) = GoOracle::build("oracle-cel") else { return };
    let base = generate::schema();
    let (mut sets, mut cases) = (Vec::new(), Vec::new());
    for index in 0..SCHEMAS {
        let mut random = Random::new(9_000_000 + index);
        let schema = with_rules(&base, &mut random);
        sets.push((RuleSet::new(Arc::new(Shape::new(&JsonSchema::new(&schema), false))), schema));
        for object in 0..OBJECTS {
            let mut old = (object % 2 == 1).then(|| generate::data(&mut random));
            // Known difference: old data that was never valid, inside of an optional.
            if let Some(old) = old.as_mut().filter(|old| old["i"].is_string()) {
                old["i"] = json!(3);
            }
            let budget = if object == 5 { 40 + random.below(400) as i64 } else { 10_000_000 };
            // On every third update most values are unchanged, and their failures are ratcheted.
            let ratchet = object % 3 == 0;
            // Old data may have two items with one key, from before the list got its type; the first one counts.
            let keyed =
                old.as_mut().filter(|_| !ratchet).and_then(|old| old.get_mut("ml")).and_then(Json::as_array_mut);
            if let Some(keyed) = keyed {
                keyed.extend([json!({"k": "p", "v": 3}), json!({"k": "q", "v": 7})]);
            }
            let new = match &mut old {
                Some(old) if ratchet => {
                    let mut new = old.clone();
                    let other = generate::data(&mut random);
                    for name in ["i", "s", "l", "o"] {
                        if random.below(3) == 0 {
                            new[name] = other.get(name).cloned().unwrap_or(json!(null));
                        }
                    }
                    new.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
                    new
                }
                _ => generate::data(&mut random),
            };
            cases.push((index as usize, new, old, budget, ratchet));
        }
    }
    let requests: Vec<Json> = cases
        .iter()
        .map(|(set, new, old, budget, ratchet)| json!({"op": "rules", "schema": sets[*set].1, "self": new, "old": old, "budget": budget, "ratchet": ratchet}))
        .collect();
    let answers = oracle.ask(&requests);
    let (mut wrong, mut failures, mut exhausted) = (0, 0, 0);
    for ((set, new, old, budget, ratchet), theirs) in cases.iter().zip(&answers) {
        let verdict = sets[*set].0.validate(
            "root",
            new,
            old.as_ref(),
            Limits { budget: *budget, ratcheting: *ratchet, ..Limits::default() },
        );
        let Some(errors) = theirs["errors"].as_array() else { panic!("{theirs}") };
        // Go walks maps in random order, so the place where the budget ends is random.
        if theirs["remaining"] == json!(-1) {
            exhausted += 1;
            assert_eq!(verdict.remaining_budget, -1, "{new}");
            continue;
        }
        // Upstream's type names contain the time of day.
        let unnamed = |text: &str| {
            let mut parts = text.split("selfType");
            let first = parts.next().unwrap_or_default().to_owned();
            parts.fold(first, |done, part| {
                format!("{done}selfType{}", part.trim_start_matches(|c: char| c.is_ascii_digit()))
            })
        };
        let mut ours: Vec<String> = verdict.failures.iter().map(ToString::to_string).collect();
        let mut expected: Vec<String> =
            errors.iter().map(|error| unnamed(error["text"].as_str().unwrap_or_default())).collect();
        ours.sort();
        expected.sort();
        failures += expected.len();
        if ours != expected || json!(verdict.remaining_budget) != theirs["remaining"] {
            wrong += 1;
            if wrong < 20 {
                let only =
                    |a: &[String], b: &[String]| a.iter().filter(|text| !b.contains(text)).cloned().collect::<Vec<_>>();
                println!(
                    "RULES self {new}\n  old {old:?}\n  only ours   {:#?} {}\n  only theirs {:#?} {}",
                    only(&ours, &expected),
                    verdict.remaining_budget,
                    only(&expected, &ours),
                    theirs["remaining"]
                );
            }
        }
    }
    println!(
        "rules: {SCHEMAS} schemas, {} objects, {failures} failures compared, {exhausted} out of budget, {wrong} differ",
        cases.len()
    );
    assert_eq!(wrong, 0, "objects that are judged differently");
}
