//! How much of everything a store takes, keeps and does at once.

use std::time::Duration;

/// How much of everything a store takes, keeps and does at once. The defaults suit the service; tests narrow them.
#[derive(Debug, Clone)]
pub struct Limits {
    /// History is kept this long.
    pub history_age: Duration,
    /// At most so many rows are kept for history alone.
    pub history_rows: usize,
    /// At most so many bytes are kept for history alone.
    pub history_bytes: u64,
    /// So many requests may wait.
    pub queue_requests: usize,
    /// So many bytes may wait.
    pub queue_bytes: usize,
    /// So many requests share one disk transaction.
    pub batch_requests: usize,
    /// After so many bytes no further request joins a disk transaction.
    pub batch_bytes: usize,
    /// A live subscriber may be so many batches behind.
    pub subscriber_batches: usize,
    /// History and loads are read in pieces of about so many bytes.
    pub piece_bytes: usize,
    /// A load that is not read on for this long is given up.
    pub load_idle: Duration,
    /// A load that takes longer than this is given up.
    pub load_total: Duration,
    /// Of the time a store was closed, at most this much counts towards times to live. A wall clock that was set forward
    /// meanwhile looks the same as a long pause, so this bounds what it can cost.
    pub closed_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            history_age: Duration::from_mins(5),
            history_rows: 100_000,
            history_bytes: 128 << 20,
            queue_requests: 4_096,
            queue_bytes: 64 << 20,
            batch_requests: 512,
            batch_bytes: 1 << 20,
            subscriber_batches: 1_024,
            piece_bytes: 1 << 20,
            load_idle: Duration::from_secs(10),
            load_total: Duration::from_mins(2),
            closed_time: Duration::from_hours(1),
        }
    }
}
