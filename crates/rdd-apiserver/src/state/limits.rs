//! Limits of the history, and timeouts.

use std::time::Duration;

/// How much history the state keeps, and how long it waits. Counts and bytes are per resource.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Revisions older than this cannot be listed, and the state drops the changes before them.
    pub history_age: Duration,
    /// The maximum number of changes kept. A watch that is further behind expires.
    pub history_events: usize,
    /// The maximum number of bytes of superseded objects kept.
    pub history_bytes: usize,
    /// This many of the newest changes are kept regardless of age, so that watches of quiet resources can resume.
    pub history_floor: usize,
    /// How often the follower trims the history of resources that do not change.
    pub trim_every: Duration,
    /// How long a committed write waits for the follower to apply it.
    pub commit_wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            history_age: Duration::from_mins(5),
            history_events: 10_000,
            history_bytes: 16 << 20,
            history_floor: 100,
            trim_every: Duration::from_secs(30),
            commit_wait: Duration::from_secs(30),
        }
    }
}
