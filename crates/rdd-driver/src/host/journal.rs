//! Writes the driver's states and messages to a machine's logs, in the format of Lima's host agent.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Mutex,
};

use rdd_stdx::{clock::SharedClock, file};
use serde_json::{Value, json};

use crate::{Error, Health, LogOptions, State, log};

/// The two logs of a machine: states for programs, messages for people. A line that cannot be written is dropped,
/// because a full disk must not stop an engine.
#[derive(Debug)]
pub(super) struct Journal {
    events: Mutex<File>,
    messages: Mutex<File>,
    clock: SharedClock,
}

impl Journal {
    /// Opens new files for a new start and rotates the old ones.
    pub(super) fn begin(folder: &Path, options: &LogOptions, clock: SharedClock) -> Result<Self, Error> {
        let open = |name: &str| log::rotate(&folder.join(name), options);
        Ok(Self { events: Mutex::new(open(log::EVENTS)?), messages: Mutex::new(open(log::MESSAGES)?), clock })
    }

    /// Opens the files of the current start.
    pub(super) fn resume(folder: &Path, clock: SharedClock) -> Result<Self, Error> {
        let open = |name: &str| file::open_append_private(&PathBuf::from(folder).join(name));
        Ok(Self { events: Mutex::new(open(log::EVENTS)?), messages: Mutex::new(open(log::MESSAGES)?), clock })
    }

    pub(super) fn state(&self, state: &State) {
        let status = match state {
            State::Starting => json!({ "running": false }),
            State::Running(Health { errors }) if errors.is_empty() => json!({ "running": true }),
            State::Running(Health { errors }) => json!({ "running": true, "degraded": true, "errors": errors }),
            State::Exited { last_words } => json!({ "exiting": true, "errors": [last_words] }),
        };
        self.write(&self.events, &json!({ "time": self.now(), "status": status }));
    }

    pub(super) fn info(&self, message: &str) {
        self.write(&self.messages, &json!({ "level": "info", "msg": message, "time": self.now() }));
    }

    pub(super) fn error(&self, message: &str) {
        self.write(&self.messages, &json!({ "level": "error", "msg": message, "time": self.now() }));
    }

    fn now(&self) -> String {
        let since_epoch = jiff::SignedDuration::try_from(self.clock.wall()).unwrap_or_default();
        jiff::Timestamp::from_duration(since_epoch).unwrap_or_default().to_string()
    }

    fn write(&self, file: &Mutex<File>, line: &Value) {
        let line = format!("{line}\n");
        // A single write, so that lines of concurrent writers do not mix.
        let _ = file.lock().unwrap_or_else(std::sync::PoisonError::into_inner).write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use rdd_stdx::clock::ManualClock;

    use super::*;

    #[test]
    fn states_and_messages_are_lines_of_json() {
        let dir = tempfile::tempdir().unwrap();
        let clock = ManualClock::shared(Duration::from_secs(1_800_000_000));
        let options = LogOptions { title: Some("a \"title\"".to_owned()), ..LogOptions::default() };
        let journal = Journal::begin(dir.path(), &options, clock.clone()).unwrap();
        journal.state(&State::Running(Health { errors: vec!["slow".to_owned()] }));
        drop(journal);
        let journal = Journal::resume(dir.path(), clock).unwrap();
        journal.state(&State::Exited { last_words: "no".to_owned() });
        journal.info("hello");
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(
            read(log::EVENTS),
            "{\"title\":\"a \\\"title\\\"\"}\n\
             {\"status\":{\"degraded\":true,\"errors\":[\"slow\"],\"running\":true},\"time\":\"2027-01-15T08:00:00Z\"}\n\
             {\"status\":{\"errors\":[\"no\"],\"exiting\":true},\"time\":\"2027-01-15T08:00:00Z\"}\n"
        );
        let last = read(log::MESSAGES).lines().last().unwrap().to_owned();
        assert_eq!(last, "{\"level\":\"info\",\"msg\":\"hello\",\"time\":\"2027-01-15T08:00:00Z\"}");
    }
}
