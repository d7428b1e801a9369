//! Reads the states that a host agent writes to its standard output, as JSON lines in a file.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::PathBuf,
};

use serde::Deserialize;

use crate::{Health, State};

/// A line of the file.
#[derive(Debug, Deserialize)]
struct Event {
    /// Absent in the title line of a log.
    status: Option<Status>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    running: bool,
    degraded: bool,
    exiting: bool,
    errors: Vec<String>,
}

/// The state that a line reports; `None` if it is not an event.
pub(super) fn parse(line: &str) -> Option<State> {
    let status = serde_json::from_str::<Event>(line).ok()?.status?;
    let errors: Vec<String> = status.errors.iter().map(|error| super::words::fit(error)).collect();
    Some(if status.exiting {
        State::Exited { last_words: errors.join("; ") }
    } else if status.running && status.degraded && errors.is_empty() {
        // Finding O-4: report the machine as degraded even without a reason.
        State::Running(Health { errors: vec!["the host agent reports that the machine is degraded".to_owned()] })
    } else if status.running {
        State::Running(Health { errors })
    } else {
        State::Starting
    })
}

/// The maximum length of a line; longer ones are dropped.
const LINE_BYTES_MAX: usize = 256 << 10;
/// The size of the chunks in which the file is read.
const CHUNK_BYTES: u64 = 1 << 20;

/// Follows a growing file.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    offset: u64,
    /// The beginning of an incomplete line.
    partial: Vec<u8>,
}

impl Tail {
    /// Starts at the beginning of the file.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, offset: 0, partial: Vec::new() }
    }

    /// Reads the new lines and returns the last state in them.
    pub(super) fn latest(&mut self) -> io::Result<Option<State>> {
        let mut latest = None;
        loop {
            let (states, more) = self.read()?;
            latest = states.into_iter().next_back().or(latest);
            if !more {
                return Ok(latest);
            }
        }
    }

    fn read(&mut self) -> io::Result<(Vec<State>, bool)> {
        let mut file = File::open(&self.path)?;
        let length = file.metadata()?.len();
        if length < self.offset {
            // The file was truncated: start again.
            *self = Self::new(std::mem::take(&mut self.path));
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut chunk = Vec::new();
        let read = file.take(CHUNK_BYTES).read_to_end(&mut chunk)?;
        self.offset += read as u64;
        self.partial.extend_from_slice(&chunk);
        let mut states = Vec::new();
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            states.extend(parse(&String::from_utf8_lossy(&line)));
        }
        if self.partial.len() > LINE_BYTES_MAX {
            self.partial.clear();
        }
        Ok((states, self.offset < length))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn running(errors: &[&str]) -> State {
        State::Running(Health { errors: errors.iter().map(|error| (*error).to_owned()).collect() })
    }

    // Finding O-4
    #[test]
    fn a_line_is_a_state_and_what_is_degraded_says_so() {
        for (line, expected) in [
            (r#"{"time":"2026-01-01T00:00:00Z","status":{"sshLocalPort":1234}}"#, Some(State::Starting)),
            (r#"{"status":{"running":true,"sshLocalPort":1234}}"#, Some(running(&[]))),
            (r#"{"status":{"running":true,"degraded":true,"errors":["no\nprobe"]}}"#, Some(running(&["no probe"]))),
            (
                r#"{"status":{"running":true,"degraded":true}}"#,
                Some(running(&["the host agent reports that the machine is degraded"])),
            ),
            (r#"{"status":{"exiting":true}}"#, Some(State::Exited { last_words: String::new() })),
            (
                r#"{"status":{"exiting":true,"errors":["a","b"]}}"#,
                Some(State::Exited { last_words: "a; b".to_owned() }),
            ),
            (r#"{"title":"=== x ==="}"#, None),
            (r#"{"status":{"running":"perhaps"}}"#, None),
            ("words", None),
            ("", None),
            ("[]", None),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }

    #[test]
    fn lines_are_followed_as_they_come_however_they_are_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ha.stdout.log");
        let mut tail = Tail::new(path.clone());
        assert!(tail.latest().is_err(), "there is no file yet");
        let mut file = File::create(&path).unwrap();
        assert_eq!(tail.latest().unwrap(), None);
        file.write_all(b"{\"title\":\"x\"}\n{\"status\":{\"runn").unwrap();
        assert_eq!(tail.latest().unwrap(), None);
        file.write_all(b"ing\":true}}\nnoise\n").unwrap();
        assert_eq!(tail.latest().unwrap(), Some(running(&[])));
        assert_eq!(tail.latest().unwrap(), None);
        file.write_all(&vec![b'x'; LINE_BYTES_MAX * 2]).unwrap();
        assert_eq!(tail.latest().unwrap(), None);
        file.write_all(b"\n{\"status\":{}}\n{\"status\":{\"exiting\":true}}\n").unwrap();
        assert_eq!(tail.latest().unwrap(), Some(State::Exited { last_words: String::new() }));
        drop(file);
        std::fs::write(&path, "{\"status\":{\"running\":true}}\n").unwrap();
        assert_eq!(tail.latest().unwrap(), Some(running(&[])), "a file that was cut begins anew");
    }
}
