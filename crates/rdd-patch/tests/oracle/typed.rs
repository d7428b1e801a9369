//! Compares the operations on values of random types with upstream.

use crate::{schemas, sorted_lines};
use rdd_patch::{
    shape::openapi::Definitions,
    ssa::{
        Set,
        typed::{self, Duplicates},
    },
};
use rdd_testkit::{
    oracle::{ask, integral_numbers},
    random::SeededRandom,
};
use serde_json::{Map, Value, json};

const CASES: u64 = 3000;

struct Case {
    definitions: Map<String, Value>,
    preserve: bool,
    left: Value,
    right: Value,
    fields: Set,
}

fn case(seed: u64) -> Case {
    let random = &mut SeededRandom::new(seed + 3_000_000);
    let old = schemas::definitions(random);
    // Some field sets were written under another schema.
    let definitions = match (seed % 4, schemas::changed(random, &Value::Object(old.clone()))) {
        (1, Value::Object(changed)) => changed,
        _ => old.clone(),
    };
    let preserve = random.chance(5);
    let wrong = if random.chance(15) { 6 } else { 0 };
    let mut value = || schemas::value(random, &definitions, &definitions["Root"], 5, wrong);
    let (left, right, other) = (value(), value(), value());
    let shape =
        Definitions::new(definitions.clone().into_iter().collect(), preserve).shape("Root").expect("it is defined");
    let shape = Definitions::new(old.into_iter().collect(), preserve).shape("Root").unwrap_or(shape);
    let paths = typed::to_set(if seed.is_multiple_of(2) { &left } else { &other }, &shape)
        .map(|set| set.paths())
        .unwrap_or_default();
    let fields = paths.into_iter().filter(|_| random.chance(50)).collect();
    Case { definitions, preserve, left, right, fields }
}

/// Our result in the format of the oracle.
fn ours(case: &Case) -> Value {
    let shape = Definitions::new(case.definitions.clone().into_iter().collect(), case.preserve).shape("Root").unwrap();
    let mut answer = json!({});
    let mut put = |name: &str, value: Value| answer[name] = value;
    let left = typed::validate(&case.left, &shape, Duplicates::Allow)
        .map_err(|errors| put("leftError", json!(errors.to_string())));
    let right = typed::validate(&case.right, &shape, Duplicates::Refuse)
        .map_err(|errors| put("rightError", json!(errors.to_string())));
    if left.is_err() || right.is_err() {
        return answer;
    }
    match typed::merge(&case.left, &case.right, &shape) {
        Ok(merged) => put("merged", merged),
        Err(errors) => put("mergeError", json!(errors.to_string())),
    }
    match typed::compare(&case.left, &case.right, &shape) {
        Ok(comparison) => {
            put("added", json!(comparison.added.to_json()));
            put("modified", json!(comparison.modified.to_json()));
            put("removed", json!(comparison.removed.to_json()));
        }
        Err(errors) => put("compareError", json!(errors.to_string())),
    }
    match typed::to_set(&case.left, &shape) {
        Ok(set) => {
            put("set", json!(set.to_json()));
            put("named", json!(set.with_named_fields(Some(&shape)).to_json()));
        }
        Err(errors) => put("setError", json!(errors.to_string())),
    }
    put("without", typed::remove(&case.left, &case.fields, &shape));
    put("extracted", typed::extract(&case.left, &case.fields, &shape));
    put("extractedWithKeys", typed::extract_with_keys(&case.left, &case.fields, &shape));
    match typed::reconcile(&case.fields, &shape) {
        Ok(Some(set)) => put("reconciled", json!(set.to_json())),
        Ok(None) => {}
        Err(_) => put("reconcileError", json!(true)),
    }
    answer
}

/// Splits errors into sorted lines, and leaves everything else as it is.
fn comparable(answer: &Value) -> Value {
    let mut answer = integral_numbers(answer);
    for (name, value) in answer.as_object_mut().into_iter().flatten() {
        if let (true, Some(text)) = (name.ends_with("Error"), value.as_str()) {
            *value = json!(sorted_lines(text));
        }
    }
    answer
}

#[test]
fn typed_values_are_handled_as_upstream_handles_them() {
    let cases: Vec<Case> = (0..CASES).map(case).collect();
    let questions: Vec<Value> = cases
        .iter()
        .map(|case| {
            let fields: Value = serde_json::from_str(&case.fields.to_json()).unwrap();
            json!({"op": "typed", "definitions": case.definitions, "preserve": case.preserve, "left": case.left, "right": case.right,
                "fields": fields, "runs": 2})
        })
        .collect();
    let Some(answers) = ask("oracle", &questions) else { return };
    let (mut valid, mut invalid, mut panicked, mut unordered, mut reconciled) = (0, 0, 0, 0, 0);
    for (case, answer) in cases.iter().zip(answers) {
        let ours = comparable(&ours(case));
        let mut outcomes: Vec<Value> = answer["outcomes"].as_array().unwrap().iter().map(comparable).collect();
        for outcome in outcomes.iter_mut().filter_map(Value::as_object_mut) {
            // Where the root is atomic, upstream reports a changed set although the set is the same.
            outcome.retain(|name, value| name != "reconciled" || *value != case.fields.to_json());
        }
        if outcomes[0].get("panic").is_some() {
            panicked += 1;
            continue;
        }
        if outcomes.contains(&ours) {
            let is_valid = ours.get("leftError").is_none() && ours.get("rightError").is_none();
            if is_valid {
                valid += 1
            } else {
                invalid += 1
            }
            reconciled += usize::from(ours.get("reconciled").is_some());
            continue;
        }
        // Upstream stops at a field it does not know, having seen others or not: only the verdict can be compared.
        let verdict = |answer: &Value| (answer.get("leftError").is_some(), answer.get("rightError").is_some());
        // A map inside a path is printed in the order of Go's map.
        let letters = |answer: &Value| {
            let mut letters: Vec<char> = answer.to_string().chars().collect();
            letters.sort_unstable();
            letters
        };
        let stops = |answer: &Value| answer.to_string().contains("field not declared in schema");
        if (stops(&ours) || letters(&ours) == letters(&outcomes[0])) && verdict(&ours) == verdict(&outcomes[0]) {
            unordered += 1;
            continue;
        }
        for (name, ours) in ours.as_object().unwrap() {
            assert_eq!(
                Some(ours),
                outcomes[0].get(name),
                "{name}: {} left {} right {} fields {:?}",
                Value::Object(case.definitions.clone()),
                case.left,
                case.right,
                case.fields
            );
        }
        panic!(
            "{} fields {:?}\nours {ours} upstream {outcomes:?}",
            Value::Object(case.definitions.clone()),
            case.fields
        );
    }
    println!(
        "typed: {valid} valid ({reconciled} reconciled), {invalid} invalid, {unordered} by verdict, {panicked} where upstream panics"
    );
    assert!(valid > 1500 && invalid > 100 && reconciled > 20);
}
