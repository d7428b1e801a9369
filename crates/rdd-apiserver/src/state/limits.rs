//! How much of the past the state keeps, and how long it waits.

use std::time::Duration;

/// How much of the past the state keeps, and how long it waits. Counts and bytes are per resource.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Older revisions than the newest of this long ago are not listed any more, and changes before it are dropped.
    pub history_age: Duration,
    /// At most so many changes are kept. A watcher that is further behind has expired.
    pub history_events: usize,
    /// At most so many bytes of superseded objects are kept.
    pub history_bytes: usize,
    /// So many of the newest changes are kept whatever their age, so that watchers of quiet resources can resume.
    pub history_floor: usize,
    /// Every so often the past of quiet resources is looked through for what has become too old.
    pub trim_every: Duration,
    /// A committed write must be told by the store within this time.
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
