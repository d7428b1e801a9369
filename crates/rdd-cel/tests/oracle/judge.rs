//! The oracle: Kubernetes' own CEL, built from the Go module cache and asked over a pipe.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::OnceLock;

use rdd_stdx::process;
use rdd_testkit::capability::skip;
use serde_json::Value as Json;

pub(crate) struct Judge {
    child: Child,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder of a Go module in the module cache, downloaded where it is not there yet. In CI it must be there.
pub(crate) fn module(name: &str) -> Option<PathBuf> {
    let output =
        process::foreground("go").current_dir(std::env::temp_dir()).args(["mod", "download", "-json", name]).output();
    let answer: Option<Json> = output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok());
    let folder = answer.and_then(|answer| Some(PathBuf::from(answer.get("Dir")?.as_str()?)));
    if folder.is_none() {
        skip(&format!("the Go module {name} cannot be fetched"));
    }
    folder
}

impl Judge {
    /// Builds and starts the oracle. Without Go there is none; in CI that is a failure.
    pub(crate) fn start() -> Option<Self> {
        // Once for all tests: builds into one file would trip over each other.
        static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
        let binary = root().join("target/oracle-cel");
        let built = BUILT.get_or_init(|| {
            let status = process::foreground("go")
                .current_dir(root().join("conformance/oracle-cel"))
                .args(["build", "-o"])
                .arg(&binary)
                .arg(".")
                .status();
            match status {
                Ok(status) if status.success() => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        match built {
            Ok(()) => {}
            Err(other) => {
                skip(&format!("the Go oracle cannot be built ({other})"));
                return None;
            }
        }
        let child = process::foreground(&binary)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the oracle");
        Some(Self { child })
    }

    /// One answer per request, in order.
    pub(crate) fn ask(&mut self, requests: &[Json]) -> Vec<Json> {
        let mut stdin = self.child.stdin.take().expect("the pipe is held between questions");
        let stdout = self.child.stdout.take().expect("the pipe is held between questions");
        let mut reader = BufReader::new(stdout);
        let answers = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for request in requests {
                    writeln!(stdin, "{request}").expect("the oracle reads");
                }
                stdin.flush().expect("the oracle reads");
            });
            let answers: Vec<Json> = requests
                .iter()
                .map(|request| {
                    let mut line = String::new();
                    reader.read_line(&mut line).expect("the oracle answers");
                    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{request}: {error}: {line}"))
                })
                .collect();
            writer.join().expect("the writer ends");
            answers
        });
        self.child.stdin = Some(stdin);
        self.child.stdout = Some(reader.into_inner());
        answers
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        self.child.stdin = None;
        // A child that ended by itself needs no signal.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
