//! Runs the conformance vectors of the CEL specification, which come from the Go module cache.

use crate::ours::Ground;
use rdd_testkit::oracle::{GoOracle, go_module};
use serde_json::{Value as Json, json};

/// The first part in which two answers differ; `None` also where cel-go panics.
pub(crate) fn differences(ours: &Json, theirs: &Json) -> Option<String> {
    for key in ["panic", "fault"] {
        if theirs.get(key).is_some() {
            return None;
        }
    }
    if ours.get("program").is_some() && theirs.get("program").is_some() {
        return (ours["program"] != theirs["program"]).then(|| "program".into());
    }
    for key in ["compile", "program", "type", "error", "value", "cost"] {
        if ours.get(key) != theirs.get(key) {
            return Some(key.into());
        }
    }
    None
}

#[test]
fn the_vectors_of_the_specification_get_the_same_answers() {
    let Some(oracle) = GoOracle::build("oracle-cel") else { return };
    let Some(module) = go_module("cel.dev/expr@v0.24.0") else { return };
    let folder = module.join("tests/simple/testdata");
    let listed = oracle.ask(&[json!({"op": "vectors", "path": folder})]);
    let cases = listed[0]["cases"].as_array().expect("cases").clone();
    let ground = Ground::new(json!({"type": "object", "properties": {"a": {"type": "integer"}}}));
    let own = json!({"a": 1});
    let requests: Vec<Json> = cases
        .iter()
        .map(|case| json!({"op": "eval", "expr": case["expr"], "schema": ground.schema, "self": own}))
        .collect();
    let answers = oracle.ask(&requests);
    let (mut wrong, mut skipped) = (0, 0);
    let mut by_kind = std::collections::BTreeMap::<String, usize>::new();
    for (case, theirs) in cases.iter().zip(&answers) {
        let expression = case["expr"].as_str().expect("text");
        // Known difference: messages of protocol buffers, which rules of Kubernetes cannot use.
        if expression.contains("google.protobuf.") && expression.contains('{') {
            skipped += 1;
            continue;
        }
        let mut ours = ground.answer(expression, &own, None, 1_000_000);
        // Go's maps have no order, so the cost of a loop that ends early is random.
        let file = case["file"].as_str().unwrap_or_default();
        if file.starts_with("macros") && expression.contains('{') && theirs.get("cost").is_some() {
            ours["cost"] = theirs["cost"].clone();
        }
        if let Some(kind) = differences(&ours, theirs) {
            wrong += 1;
            *by_kind.entry(format!("{}:{kind}", case["file"].as_str().unwrap_or_default())).or_default() += 1;
            println!("{} {} {kind}\n  {expression}\n  ours   {ours}\n  theirs {theirs}", case["file"], case["name"]);
        }
    }
    println!("vectors: {} compared, {skipped} skipped, {wrong} differ {by_kind:?}", cases.len() - skipped);
    assert_eq!(wrong, 0, "vectors with other answers");
}
