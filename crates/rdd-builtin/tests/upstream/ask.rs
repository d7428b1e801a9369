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
        let answer = |line: Result<String, _>| serde_json::from_str(&line.expect("read from the oracle"));
        output.lines().map(|line| answer(line).expect("an answer is JSON")).collect()
    });
    assert!(child.wait().expect("wait for the oracle").success(), "the oracle failed");
    assert_eq!(answers.len(), questions.len(), "one answer per question");
    for (question, answer) in questions.iter().zip(&answers) {
        assert!(answer.get("broken").is_none(), "the oracle did not understand {question}: {answer}");
    }
    Some(answers)
}

/// Where Kubernetes itself is, in Go's module cache; fetched if it is not there.
pub(crate) fn kubernetes() -> Option<PathBuf> {
    let arguments = ["mod", "download", "-json", "k8s.io/kubernetes@v1.35.4"];
    let output = match command(Path::new("go")).args(arguments).current_dir(std::env::temp_dir()).output() {
        Ok(output) => output,
        Err(error) => return without_go(&error),
    };
    assert!(output.status.success(), "download Kubernetes: {}", String::from_utf8_lossy(&output.stderr));
    let module: Value = serde_json::from_slice(&output.stdout).expect("go answers in JSON");
    Some(PathBuf::from(module["Dir"].as_str().expect("a module has a folder")))
}

fn build() -> Option<&'static Path> {
    static ORACLE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let oracle = ORACLE.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/oracle");
        let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("builtin-oracle");
        let built = command(Path::new("go")).arg("build").arg("-o").arg(&binary).arg(".").current_dir(&source).status();
        match built {
            Ok(status) => {
                assert!(status.success(), "build the oracle in {}", source.display());
                Some(binary)
            }
            Err(error) => without_go(&error),
        }
    });
    oracle.as_deref()
}

fn without_go<T>(error: &std::io::Error) -> Option<T> {
    skip(&format!("there is no Go ({error})"));
    None
}

#[allow(
    clippy::disallowed_methods,
    reason = "a pure crate has no rdd dependencies with IO, not even in its tests; this child is waited for"
)]
fn command(program: &Path) -> Command {
    Command::new(program)
}
