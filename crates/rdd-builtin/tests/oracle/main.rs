//! Compares every built-in kind with upstream's own registry, over thousands of generated objects and updates.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on stops where it is; coverage is printed"
)]

mod compare;
mod fields;
mod grammar;
mod kinds;

use serde_json::Value;

/// Asks upstream's registry, which must not panic. `None` if Go is not installed.
fn ask(questions: &[Value]) -> Option<Vec<Value>> {
    let answers = rdd_testkit::oracle::ask("oracle-builtin", questions)?;
    for (question, answer) in questions.iter().zip(&answers) {
        assert!(answer.get("panic").is_none(), "the oracle panicked at {question}: {answer}");
    }
    Some(answers)
}
