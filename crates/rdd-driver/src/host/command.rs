//! Runs a short program to its end, with a timeout.

use std::{ffi::OsStr, path::Path, process::Stdio, time::Duration};

use rdd_stdx::process;
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::Error;

/// The timeout for `ip` and `iptables`, including the wait for the lock of the packet filter.
const TAKES: Duration = Duration::from_secs(20);
/// The maximum length of a program's error output in an error message.
const SAID_MAX: usize = 500;

/// Runs a program and returns its standard output.
///
/// # Errors
/// [`Error::Program`] if it cannot be started, fails, or does not end in time; with the start of its error output.
pub(super) async fn run(program: &Path, arguments: &[&str]) -> Result<String, Error> {
    run_with_input(program, arguments, "").await
}

/// Runs a program and returns whether it succeeded.
pub(super) async fn succeeds(program: &Path, arguments: &[&str]) -> bool {
    run(program, arguments).await.is_ok()
}

/// Like [`run`], with standard input.
pub(super) async fn run_with_input(program: &Path, arguments: &[&str], input: &str) -> Result<String, Error> {
    run_within(program, arguments, input, TAKES).await
}

/// Like [`run_with_input`], with a timeout.
pub(super) async fn run_within(
    program: &Path,
    arguments: &[&str],
    input: &str,
    takes: Duration,
) -> Result<String, Error> {
    let failed = |message: String| Error::Program { program: shown(program, arguments), message };
    let mut command = Command::from(process::background(program, Path::new("/")));
    command.args(arguments).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let stdin = child.stdin.take();
    let work = async {
        if let Some(mut stdin) = stdin {
            // A program that exits without reading its input reports the reason by its status and error output.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        child.wait_with_output().await
    };
    let output = match tokio::time::timeout(takes, work).await {
        Ok(output) => output.map_err(|error| failed(error.to_string()))?,
        Err(_) => return Err(failed(format!("it did not end within {takes:?}"))),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().chars().take(SAID_MAX).collect::<String>();
    Err(failed(if said.is_empty() { output.status.to_string() } else { said.replace('\n', " ") }))
}

fn shown(program: &Path, arguments: &[&str]) -> String {
    let name = program.file_name().unwrap_or(OsStr::new("program")).to_string_lossy();
    std::iter::once(&*name).chain(arguments.iter().copied()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failure_says_what_was_run_and_what_it_said() {
        assert_eq!(run(Path::new("/bin/echo"), &["a", "b"]).await.unwrap(), "a b\n");
        assert_eq!(run_with_input(Path::new("/bin/cat"), &[], "text").await.unwrap(), "text");
        let error = run(Path::new("/bin/ls"), &["/nonexistent"]).await.unwrap_err().to_string();
        assert!(error.starts_with("ls /nonexistent failed: ") && error.contains("No such file"), "{error}");
        assert_eq!(run(Path::new("/bin/false"), &[]).await.unwrap_err().to_string(), "false failed: exit status: 1");
        assert!(run(Path::new("/nonexistent"), &[]).await.is_err());
    }
}
