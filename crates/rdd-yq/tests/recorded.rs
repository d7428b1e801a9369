//! What yq v4.54.1 itself answered to several hundred expressions, recorded in `recorded.jsonl`.
//!
//! The first line has the inputs that several cases share; each further line is one case.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

use std::collections::BTreeMap;

use rdd_yq::{Expression, InputFormat, OutputFormat, OutputOptions, Program, YqError};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Case {
    expression: String,
    #[serde(default)]
    input: String,
    #[serde(default)]
    from: Option<String>,
    #[serde(default)]
    to: Option<String>,
    #[serde(default)]
    indent: Option<usize>,
    #[serde(default)]
    unwrap: Option<bool>,
    #[serde(default)]
    all: bool,
    #[serde(default)]
    new: bool,
    #[serde(default)]
    pretty: bool,
    #[serde(default)]
    no_doc: bool,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// None if it was refused.
    output: Option<String>,
}

fn answer(case: &Case, input: &str) -> Result<String, YqError> {
    let expression = Expression::parse(&case.expression)?;
    let mut program = Program::new(|name| case.env.get(name).cloned());
    let format = if case.from.as_deref() == Some("json") { InputFormat::Json } else { InputFormat::Yaml };
    if !case.new {
        program.add_file("-", input, format)?;
    }
    let results = match (case.new, case.all) {
        (true, _) => program.evaluate_new(&expression)?,
        (false, true) => program.evaluate_all(&expression)?,
        (false, false) => program.evaluate(&expression)?,
    };
    let format = match case.to.as_deref() {
        Some("json") => OutputFormat::Json,
        Some("props") => OutputFormat::Properties,
        _ => OutputFormat::Yaml,
    };
    let options = OutputOptions {
        format,
        indent: case.indent.unwrap_or(2),
        unwrap_scalars: case.unwrap,
        separators: !case.no_doc,
        pretty: case.pretty,
    };
    program.write(&results, &options)
}

// Finding E-9.
#[test]
fn everyday_expressions_are_answered_as_yq_answers_them() {
    let mut lines = include_str!("recorded.jsonl").lines();
    let inputs: BTreeMap<String, String> = serde_json::from_str(lines.next().unwrap()).unwrap();
    let mut differences = Vec::new();
    let mut count = 0;
    for line in lines {
        let case: Case = serde_json::from_str(line).unwrap();
        let input = inputs.get(&case.input).map_or(case.input.as_str(), String::as_str);
        let ours = answer(&case, input);
        count += 1;
        if ours.as_ref().ok() != case.output.as_ref() {
            differences.push(format!("{line}\n  ours: {ours:?}\n  yq:   {:?}", case.output));
        }
    }
    assert!(count > 300, "{count}");
    assert!(differences.is_empty(), "{} of {count} differ:\n{}", differences.len(), differences.join("\n"));
}
