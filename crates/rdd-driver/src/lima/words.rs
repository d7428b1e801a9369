//! Turns Lima's log lines into one sentence for a condition.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
};

use serde_json::Value;

/// How many bytes at the end of a log are searched.
const TAIL_BYTES: u64 = 64 << 10;
/// The maximum length of a text in a condition.
const LENGTH_MAX: usize = 1000;
/// The prefix of QEMU's error output in Lima's log.
const QEMU_SAYS: &str = "qemu[stderr]: ";

/// Finds the reason in Lima's JSON log lines: the last fatal message, else the last error, with QEMU's last message.
/// `None` if there are no lines.
pub(super) fn reason(log: &str) -> Option<String> {
    let (mut fatal, mut error, mut qemu, mut last) = (None, None, None, None);
    for line in log.lines().map(str::trim).filter(|line| !line.is_empty()) {
        // Not a log line of Lima, for example a panic of Go.
        let Ok(record) = serde_json::from_str::<Value>(line) else {
            last = Some(line.to_owned());
            continue;
        };
        let Some(said) = message(&record) else { continue };
        if let Some((_, words)) = said.split_once(QEMU_SAYS) {
            qemu = Some(words.to_owned());
        }
        match record["level"].as_str() {
            Some("fatal" | "panic") => fatal = Some(said.clone()),
            Some("error") => error = Some(said.clone()),
            _ => {}
        }
        last = Some(said);
    }
    let why = fatal.or(error);
    let whole = match (why, qemu) {
        (Some(why), Some(qemu)) if !why.contains(&qemu) => Some(format!("{why}: {qemu}")),
        (None, Some(qemu)) => Some(qemu),
        (why, _) => why.or(last),
    };
    whole.map(|text| fit(&text))
}

fn message(record: &Value) -> Option<String> {
    let text = record["msg"].as_str()?;
    match record["error"].as_str() {
        Some(error) if !text.contains(error) => Some(format!("{text}: {error}")),
        _ => Some(text.to_owned()),
    }
}

/// Makes a text printable on one line and shortens it for a condition.
pub(super) fn fit(text: &str) -> String {
    let printable: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LENGTH_MAX).collect();
    printable.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// The reason at the end of a log file.
pub(super) fn reason_in(path: &Path) -> Option<String> {
    let mut log = File::open(path).ok()?;
    let length = log.metadata().ok()?.len();
    log.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES))).ok()?;
    let mut tail = Vec::new();
    log.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
    let text = String::from_utf8_lossy(&tail);
    // The first line may be incomplete: drop it.
    let whole = if length > TAIL_BYTES { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
    reason(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Finding O-2
    #[test]
    fn the_reason_is_what_was_fatal_with_what_qemu_said() {
        for (log, expected) in [
            ("", None),
            ("\n \n", None),
            ("plain words\n", Some("plain words")),
            (r#"{"level":"info","msg":"booting"}"#, Some("booting")),
            (
                "{\"level\":\"info\",\"msg\":\"a\"}\n{\"level\":\"fatal\",\"msg\":\"b\"}\n{\"level\":\"info\",\"msg\":\"c\"}",
                Some("b"),
            ),
            (
                "{\"level\":\"debug\",\"msg\":\"qemu[stderr]: no memory\"}\n{\"level\":\"fatal\",\"msg\":\"exit status 1\"}",
                Some("exit status 1: no memory"),
            ),
            (r#"{"level":"debug","msg":"qemu[stderr]: no memory"}"#, Some("no memory")),
            (r#"{"level":"error","msg":"cannot bind","error":"in use"}"#, Some("cannot bind: in use")),
            ("{\"title\":\"x\"}\n{\"level\":\"error\",\"msg\":\"two\\nlines\\u001b[0m\"}", Some("two lines [0m")),
        ] {
            assert_eq!(reason(log).as_deref(), expected, "{log}");
        }
        assert_eq!(reason(&"x".repeat(5000)).unwrap().len(), LENGTH_MAX);
    }

    #[test]
    fn a_long_log_is_read_from_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ha.stderr.log");
        assert_eq!(reason_in(&path), None);
        let noise = "{\"level\":\"fatal\",\"msg\":\"old\"}\n".to_owned()
            + &"{\"level\":\"info\",\"msg\":\"noise\"}\n".repeat(9000);
        std::fs::write(&path, noise + "{\"level\":\"error\",\"msg\":\"new\"}\n").unwrap();
        assert_eq!(reason_in(&path).as_deref(), Some("new"));
    }
}
