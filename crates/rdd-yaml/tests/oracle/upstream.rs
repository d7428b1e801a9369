//! Talks to the oracle: upstream's own functions, built from `conformance/oracle` and asked over a pipe.

use rdd_testkit::capability::skip;
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

/// The answers to these questions, in order. None if there is no Go here; under CI that is a failure.
pub(crate) fn ask(questions: &[Value]) -> Option<Vec<Value>> {
    let oracle = build()?;
    let mut child = command(oracle).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start the oracle");
    let mut input = child.stdin.take().expect("the oracle's input is piped");
    let output = BufReader::new(child.stdout.take().expect("the oracle's output is piped"));
    let answers: Vec<Value> = std::thread::scope(|scope| {
        scope.spawn(move || {
            for question in questions {
                writeln!(input, "{question}").expect("write to the oracle");
            }
        });
        output
            .lines()
            .map(|line| serde_json::from_str(&line.expect("read from the oracle")).expect("an answer is JSON"))
            .collect()
    });
    assert!(child.wait().expect("wait for the oracle").success(), "the oracle failed");
    assert_eq!(answers.len(), questions.len(), "one answer per question");
    for (question, answer) in questions.iter().zip(&answers) {
        assert!(answer.get("broken").is_none(), "the oracle did not understand {question}: {answer}");
    }
    Some(answers)
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/oracle")
}

fn build() -> Option<&'static Path> {
    static ORACLE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let oracle = ORACLE.get_or_init(|| {
        let source = source();
        let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("yaml-oracle");
        let built = command(Path::new("go")).arg("build").arg("-o").arg(&binary).arg(".").current_dir(&source).status();
        match built {
            Ok(status) => {
                assert!(status.success(), "build the oracle in {}", source.display());
                Some(binary)
            }
            Err(error) => {
                skip(&format!("there is no Go to build the oracle with ({error})"));
                None
            }
        }
    });
    oracle.as_deref()
}

#[allow(
    clippy::disallowed_methods,
    reason = "a pure crate has no rdd dependencies, not even in its tests; this child is waited for"
)]
fn command(program: &Path) -> Command {
    Command::new(program)
}

/// Numbers as JSON cannot tell them apart: an integral float is the integer.
pub(crate) fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            #[allow(clippy::cast_possible_truncation, reason = "checked to be integral and small")]
            (None, Some(float)) if float.fract() == 0.0 && float.abs() < 9e15 => Value::from(float as i64),
            (None, Some(float)) => Value::from(float),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(fields) => fields.iter().map(|(name, field)| (name.clone(), normal(field))).collect(),
        other => other.clone(),
    }
}
