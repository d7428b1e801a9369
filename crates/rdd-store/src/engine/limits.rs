//! The configurable limits of a store: history, queue, batches, readers.

use std::time::Duration;

/// The limits of a store. The defaults suit the service; tests use smaller ones.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How long history is kept.
    pub history_age: Duration,
    /// The maximum number of rows that are kept for history only.
    pub history_rows: usize,
    /// The maximum number of bytes that are kept for history only.
    pub history_bytes: u64,
    /// The maximum number of requests in the queue.
    pub queue_requests: usize,
    /// The number of bytes in the queue from which it refuses requests.
    pub queue_bytes: usize,
    /// The maximum number of requests in one disk transaction.
    pub batch_requests: usize,
    /// The number of bytes from which no further request joins a disk transaction.
    pub batch_bytes: usize,
    /// How many batches a live subscriber may lag before it is cut off.
    pub subscriber_batches: usize,
    /// The approximate size of the pieces in which history and loads are read, in bytes.
    pub piece_bytes: usize,
    /// A load that is not read for this long expires.
    pub load_idle: Duration,
    /// A load that takes longer than this in total expires.
    pub load_total: Duration,
    /// How much of the time while the store was closed counts towards times to live, at most. The store cannot distinguish a long
    /// pause from a wall clock that was set forward, so this bounds the effect of the latter.
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
