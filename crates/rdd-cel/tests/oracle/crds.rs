//! Rules of real CustomResourceDefinitions: every rule compiles, and gives the same failures for generated objects as upstream.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::generate::Random;
use rdd_cel::rules::{Limits, RuleSet};
use rdd_cel::{JsonSchema, Shape};
use rdd_testkit::oracle::{GoOracle, go_module};
use serde_json::{Value as Json, json};

const MODULES: [&str; 4] = [
    "sigs.k8s.io/gateway-api@v1.4.1",
    "sigs.k8s.io/cluster-api@v1.14.2",
    "github.com/cert-manager/cert-manager@v1.21.2",
    "sigs.k8s.io/karpenter@v1.8.2",
];
const OBJECTS_PER_SCHEMA: u64 = 8;

/// A value that is mostly valid for a schema.
fn object(schema: &Json, random: &mut Random, depth: usize) -> Json {
    if let Some(choices) = schema.get("enum").and_then(Json::as_array) {
        return choices[random.below(choices.len())].clone();
    }
    if schema.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
        return if random.below(2) == 0 { json!(random.below(100)) } else { json!("50%") };
    }
    match schema.get("type").and_then(Json::as_str) {
        Some("object") => {
            let mut made = serde_json::Map::new();
            let required = schema.get("required").and_then(Json::as_array).cloned().unwrap_or_default();
            for (name, property) in schema.get("properties").and_then(Json::as_object).into_iter().flatten() {
                let wanted = required.iter().any(|required| required == name);
                if depth > 0 && random.below(10) < if wanted { 9 } else { 4 } {
                    made.insert(name.clone(), object(property, random, depth - 1));
                }
            }
            if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
                for index in 0..random.below(3) {
                    made.insert(format!("key-{index}"), object(values, random, depth.saturating_sub(1)));
                }
            }
            Json::Object(made)
        }
        Some("array") => {
            let items = schema.get("items").cloned().unwrap_or_default();
            json!((0..random.below(4)).map(|_| object(&items, random, depth.saturating_sub(1))).collect::<Vec<_>>())
        }
        Some("string") => match schema.get("format").and_then(Json::as_str) {
            Some("date-time") => json!("2024-05-06T07:08:09Z"),
            Some("byte") => json!("aGk="),
            Some("duration") => json!("1m"),
            _ => json!(
                [
                    "",
                    "a",
                    "name",
                    "example.com",
                    "*.example.com",
                    "10s",
                    "1h0m0s",
                    "HTTPS",
                    "Gateway",
                    "/p/q",
                    "x=y",
                    "karpenter.sh/a"
                ][random.below(12)]
            ),
        },
        Some("integer") => json!(random.below(500) as i64 - 1),
        Some("number") => json!(random.below(50) as f64 / 4.0),
        Some("boolean") => json!(random.below(2) == 0),
        _ => json!({}),
    }
}

/// The object with some parts removed or replaced by those of another one.
fn changed(value: &Json, other: &Json, random: &mut Random) -> Json {
    match (value, other) {
        (Json::Object(mine), Json::Object(theirs)) => {
            let mut made = mine.clone();
            for (name, part) in theirs {
                match random.below(4) {
                    0 => drop(made.insert(name.clone(), part.clone())),
                    1 => drop(made.remove(name)),
                    _ => {
                        if let Some(own) = made.get(name).cloned() {
                            made.insert(name.clone(), changed(&own, part, random));
                        }
                    }
                }
            }
            Json::Object(made)
        }
        (own, _) => own.clone(),
    }
}

#[test]
fn every_rule_of_real_definitions_compiles_and_judges_objects_as_upstream_does() {
    let Some(oracle) = GoOracle::build("oracle-cel") else { return };
    let mut schemas: BTreeMap<String, Json> = BTreeMap::new();
    // More modules to test: ORACLE_MODULES="example.com/module@v1.2.3 …".
    let more = std::env::var("ORACLE_MODULES").unwrap_or_default();
    for module in MODULES.into_iter().chain(more.split_whitespace()) {
        let Some(folder) = go_module(module) else { continue };
        let answer = oracle.ask(&[json!({"op": "crd", "path": folder})]).remove(0);
        for found in answer["schemas"].as_array().expect("schemas") {
            schemas.insert(format!("{module} {}", found["name"].as_str().unwrap_or_default()), found["schema"].clone());
        }
    }
    let (mut rules, mut refused, mut cases, mut sets) = (0, Vec::new(), Vec::new(), Vec::new());
    for (name, schema) in &schemas {
        let set = RuleSet::new(Arc::new(Shape::new(&JsonSchema::new(schema), true)));
        rules += set.len();
        refused.extend(set.compile_errors().into_iter().map(|(path, error)| format!("{name}{path}: {error}")));
        if set.is_empty() {
            continue;
        }
        for index in 0..OBJECTS_PER_SCHEMA {
            let mut random = Random::new(index * 7919 + name.len() as u64);
            let new = object(schema, &mut random, 9);
            let other = object(schema, &mut random, 9);
            let old = (index % 2 == 1).then(|| changed(&new, &other, &mut random));
            cases.push((sets.len(), name.clone(), new, old));
        }
        sets.push((set, schema.clone()));
    }
    assert!(refused.is_empty(), "{} rules do not compile:\n{}", refused.len(), refused.join("\n"));
    let requests: Vec<Json> = cases
        .iter()
        .map(|(set, _, new, old)| json!({"op": "rules", "schema": sets[*set].1, "root": true, "self": new, "old": old}))
        .collect();
    let answers = oracle.ask(&requests);
    let (mut wrong, mut failures) = (0, 0);
    for ((set, name, new, old), theirs) in cases.iter().zip(&answers) {
        let verdict = sets[*set].0.validate("root", new, old.as_ref(), Limits::default());
        let mut ours: Vec<String> = verdict.failures.iter().map(ToString::to_string).collect();
        let mut expected: Vec<String> = theirs["errors"]
            .as_array()
            .unwrap_or_else(|| panic!("{name}: {theirs}"))
            .iter()
            .map(|error| error["text"].as_str().unwrap_or_default().to_owned())
            .collect();
        ours.sort();
        expected.sort();
        failures += expected.len();
        if ours != expected || json!(verdict.remaining_budget) != theirs["remaining"] {
            wrong += 1;
            println!(
                "{name}\n  new {new}\n  old {old:?}\n  ours   {ours:#?} {}\n  theirs {expected:#?} {}",
                verdict.remaining_budget, theirs["remaining"]
            );
        }
    }
    println!(
        "definitions: {} versions, {rules} rules compiled; {} objects, {failures} failures compared, {wrong} differ",
        schemas.len(),
        cases.len()
    );
    assert_eq!(wrong, 0, "objects that are judged differently");
}
