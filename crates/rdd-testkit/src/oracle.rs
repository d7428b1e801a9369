//! Oracles: Go programs of `conformance/` that call upstream's own functions and answer questions over a pipe.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Mutex, PoisonError},
};

use rdd_stdx::process::foreground;
use serde_json::Value;

use crate::capability::skip;

/// A Go program that reads a JSON question per line and writes a JSON answer per question.
#[derive(Debug, Clone)]
pub struct GoOracle {
    source: PathBuf,
    program: PathBuf,
}

impl GoOracle {
    /// Builds `conformance/<name>`, once per process. Returns `None` without Go; under CI that is a failure.
    ///
    /// # Panics
    ///
    /// If the oracle cannot be built.
    #[track_caller]
    pub fn build(name: &str) -> Option<Self> {
        static BUILT: Mutex<BTreeMap<String, Option<GoOracle>>> = Mutex::new(BTreeMap::new());
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(oracle) = built.get(name) {
            return oracle.clone();
        }
        let oracle = Self::build_now(name);
        built.insert(name.to_owned(), oracle.clone());
        oracle
    }

    #[track_caller]
    fn build_now(name: &str) -> Option<Self> {
        let source = repository().join("conformance").join(name);
        let program = target_folder().join("conformance").join(name);
        fs::create_dir_all(target_folder().join("conformance")).expect("make the folder of oracles");
        // Test programs that run at the same time build the same file.
        let lock = fs::File::create(program.with_extension("lock")).expect("create the lock of an oracle");
        lock.lock().expect("lock an oracle while it is built");
        let status = foreground("go").arg("build").arg("-o").arg(&program).arg(".").current_dir(&source).status();
        match status {
            Ok(status) => assert!(status.success(), "build the oracle in {}", source.display()),
            Err(error) => {
                skip(&format!("there is no Go to build the oracle with ({error})"));
                return None;
            }
        }
        Some(Self { source, program })
    }

    /// Answers these questions, in order.
    ///
    /// # Panics
    ///
    /// If the oracle fails, or answers a question with `broken`, which means that it did not understand it.
    pub fn ask(&self, questions: &[Value]) -> Vec<Value> {
        let lines = self.ask_lines(questions);
        let answers: Vec<Value> =
            lines.iter().map(|line| serde_json::from_str(line).expect("an answer is JSON")).collect();
        for (question, answer) in questions.iter().zip(&answers) {
            assert!(answer.get("broken").is_none(), "the oracle did not understand {question}: {answer}");
        }
        answers
    }

    /// Like [`GoOracle::ask`], but returns the answers as the oracle wrote them, including those to questions that it did not understand.
    ///
    /// # Panics
    ///
    /// If the oracle fails.
    pub fn ask_lines(&self, questions: &[Value]) -> Vec<String> {
        let child = foreground(&self.program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("start the oracle");
        let mut input = child.stdin.take().expect("the oracle's input is piped");
        let output = BufReader::new(child.stdout.take().expect("the oracle's output is piped"));
        let answers: Vec<String> = std::thread::scope(|scope| {
            // On its own thread: both pipes have limited buffers, and the oracle answers while it reads.
            scope.spawn(move || {
                for question in questions {
                    writeln!(input, "{question}").expect("write to the oracle");
                }
            });
            output.lines().map(|line| line.expect("read from the oracle")).collect()
        });
        assert!(child.wait().expect("wait for the oracle").success(), "the oracle failed");
        assert_eq!(answers.len(), questions.len(), "one answer per question");
        answers
    }

    /// The folder of a dependency of the oracle in Go's module cache.
    ///
    /// # Panics
    ///
    /// If the oracle does not depend on this module.
    pub fn module(&self, name: &str) -> PathBuf {
        let listed = foreground("go").args(["list", "-m", "-f", "{{.Dir}}", name]).current_dir(&self.source).output();
        let listed = listed.expect("go built the oracle, so it is there");
        assert!(listed.status.success(), "find module {name}");
        PathBuf::from(String::from_utf8(listed.stdout).expect("a path").trim())
    }
}

/// The answers of `conformance/<oracle>` to these questions, in order. Returns `None` without Go; under CI that is a failure.
///
/// # Panics
///
/// If the oracle cannot be built, fails, or does not understand a question.
#[track_caller]
pub fn ask(oracle: &str, questions: &[Value]) -> Option<Vec<Value>> {
    Some(GoOracle::build(oracle)?.ask(questions))
}

/// The folder of a Go module (`path@version`) in the module cache, downloaded if needed. Returns `None` if it is unavailable; under CI that
/// is a failure.
#[track_caller]
pub fn go_module(name: &str) -> Option<PathBuf> {
    // Outside any module, whose go.mod would affect the version.
    let output = foreground("go").current_dir(std::env::temp_dir()).args(["mod", "download", "-json", name]).output();
    let answer: Option<Value> = output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok());
    let folder = answer.and_then(|answer| Some(PathBuf::from(answer.get("Dir")?.as_str()?)));
    if folder.is_none() {
        skip(&format!("the Go module {name} cannot be fetched"));
    }
    folder
}

/// The CustomResourceDefinitions in a folder's files with these extensions, sorted and without duplicates. Templates are skipped.
pub fn definitions(folder: &Path, endings: &[&str]) -> Vec<Value> {
    let mut files = Vec::new();
    collect_files(folder, endings, &mut files);
    let mut found = BTreeMap::new();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        if !text.contains("CustomResourceDefinition") || text.contains("{{") {
            continue;
        }
        for document in text.split("\n---") {
            let Ok(value) = serde_saphyr::from_str::<Value>(document.trim_start_matches("---")) else { continue };
            if is_definition(&value) {
                found.insert(value.to_string(), value);
            }
        }
    }
    found.into_values().collect()
}

fn is_definition(value: &Value) -> bool {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    text("kind") == Some("CustomResourceDefinition")
        && text("apiVersion") == Some("apiextensions.k8s.io/v1")
        && value.pointer("/spec/names/plural").is_some()
}

fn collect_files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect_files(&path, endings, found);
        } else if path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| endings.contains(&ending)) {
            found.push(path);
        }
    }
}

/// Normalizes numbers that JSON does not distinguish: an integral float becomes an integer.
pub fn integral_numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            #[expect(clippy::cast_possible_truncation, reason = "checked to be integral and small")]
            (None, Some(float)) if float.fract() == 0.0 && float.abs() < 9e15 => Value::from(float as i64),
            (None, Some(float)) => Value::from(float),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(integral_numbers).collect(),
        Value::Object(fields) => fields.iter().map(|(name, field)| (name.clone(), integral_numbers(field))).collect(),
        other => other.clone(),
    }
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Cargo's target folder of this build.
fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}
