//! Compares our handling of an object with upstream's.

use std::collections::{BTreeMap, BTreeSet};

use rdd_builtin::{kinds, strategy::Strategy};
use rdd_meta::FieldError;
use rdd_testkit::random::SeededRandom;
use serde_json::{Value, json};

use crate::{
    ask,
    grammar::{generate, mix},
};

/// How many questions a kind got, and which errors occurred.
#[derive(Default)]
struct Coverage {
    questions: usize,
    accepted: usize,
    errors: BTreeSet<String>,
}

/// Runs objects of a kind's grammar through create and, at each endpoint, update.
pub(crate) fn run(group: &str, grammar: &Value, endpoints: &[&str], seed: u64) {
    let kind = grammar["kind"].as_str().unwrap();
    let strategy = kinds::of(group, kind).unwrap();
    let mut random = SeededRandom::new(seed);
    let mut coverage = Coverage::default();
    let objects: Vec<Value> = (0..600).map(|_| generate(&mut random, grammar)).collect();
    let questions: Vec<Value> = objects.iter().map(|object| json!({"op": "create", "object": object})).collect();
    let Some(answers) = ask(&questions) else { return };
    for (question, answer) in questions.iter().zip(&answers) {
        check_create(strategy, question, answer, &mut coverage);
    }
    for endpoint in endpoints {
        let pairs = objects.iter().take(400).map(|old| (old, generate(&mut random, grammar))).collect::<Vec<_>>();
        let questions: Vec<Value> = pairs
            .iter()
            .map(|(old, other)| {
                let new = mix(&mut random, old, other);
                json!({"op": "update", "subresource": endpoint, "old": old, "new": new})
            })
            .collect();
        let answers = ask(&questions).unwrap();
        for (question, answer) in questions.iter().zip(&answers) {
            check_update(strategy, endpoint, question, answer, &mut coverage);
        }
    }
    println!(
        "{kind}.{group}: {} questions, {} accepted, {} different errors",
        coverage.questions,
        coverage.accepted,
        coverage.errors.len()
    );
    assert!(coverage.accepted > 0, "no {kind} was accepted: the grammar has too few good values");
}

fn check_create(strategy: &Strategy, question: &Value, answer: &Value, coverage: &mut Coverage) {
    let mut ours = answer["decoded"].clone();
    (strategy.default)(&mut ours);
    assert_same(&ours, &answer["defaulted"], "defaults", question);
    (strategy.prepare_for_create)(&mut ours);
    assert_same(&ours, &answer["prepared"], "what is prepared for a create", question);
    let errors = (strategy.validate_create)(&ours);
    check_errors(&errors, question, answer, coverage);
    if errors.is_empty() {
        assert_eq!((strategy.warnings)(&ours, None), texts(&answer["warnings"]), "warnings about {question}");
        if !answer["stored"].is_null() {
            assert_same(&ours, &answer["stored"], "what is stored", question);
        }
    }
}

fn check_update(strategy: &Strategy, endpoint: &str, question: &Value, answer: &Value, coverage: &mut Coverage) {
    let (mut ours, old) = (answer["decoded"].clone(), answer["old"].clone());
    (strategy.default)(&mut ours);
    let generation = old["metadata"]["generation"].clone();
    if let Some(metadata) = ours["metadata"].as_object_mut() {
        metadata.insert("generation".to_owned(), generation);
    }
    (strategy.prepare_for_update)(endpoint, &mut ours, &old);
    assert_same(&ours, &answer["prepared"], "what is prepared for an update", question);
    let errors = (strategy.validate_update)(endpoint, &ours, &old);
    check_errors(&errors, question, answer, coverage);
    if errors.is_empty() {
        assert_eq!((strategy.warnings)(&ours, Some(&old)), texts(&answer["warnings"]), "warnings about {question}");
        assert_same(&ours, &answer["stored"], "what is stored", question);
    }
}

fn check_errors(errors: &[FieldError], question: &Value, answer: &Value, coverage: &mut Coverage) {
    let mut ours: Vec<String> = errors.iter().map(|error| format!("{} {error}", error.kind.reason())).collect();
    let mut theirs = texts(&answer["errors"]);
    coverage.questions += 1;
    coverage.accepted += usize::from(theirs.is_empty());
    for error in errors {
        coverage.errors.insert(format!("{} {}", error.kind.reason(), error.detail));
    }
    if has_maps(question) || has_maps(&answer["prepared"]) {
        // Upstream's order is that of a Go map.
        ours.sort_unstable();
        theirs.sort_unstable();
    }
    assert_eq!(ours, theirs, "errors about {question}");
}

fn has_maps(value: &Value) -> bool {
    const MAPS: [&str; 8] =
        ["labels", "annotations", "data", "binaryData", "stringData", "hard", "used", "matchLabels"];
    match value {
        Value::Array(items) => items.iter().any(has_maps),
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            let is_map = MAPS.contains(&name.as_str()) || name == "selector";
            (is_map && value.as_object().is_some_and(|map| map.len() > 1)) || has_maps(value)
        }),
        _ => false,
    }
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn assert_same(ours: &Value, theirs: &Value, what: &str, question: &Value) {
    let (ours, theirs) = (normal(ours), normal(theirs));
    assert_eq!(ours, theirs, "{what}, for {question}");
}

/// Removes what Go's encoding does not distinguish from an absent value, and the time of day.
fn normal(value: &Value) -> Value {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(truth) => !truth,
    };
    match value {
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(name, _)| *name != "lastTransitionTime");
            let fields: BTreeMap<String, Value> = fields.map(|(name, value)| (name.clone(), normal(value))).collect();
            fields.into_iter().filter(|(_, value)| !empty(value)).collect()
        }
        other => other.clone(),
    }
}
