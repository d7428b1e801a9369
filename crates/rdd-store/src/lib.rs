//! A datastore of keys, byte values and revisions, with a durable history that can be watched.
//!
//! The data model is etcd's. Each transaction that changes something gets the next [`Revision`]; its changes can be read as
//! [events](Store::events) until they are compacted; each key carries the revision of its last change. The store does not
//! interpret values and keeps none in memory: [`sqlite`] keeps them in one file, [`MemoryStore`] serves tests and servers without
//! persistence.

mod engine;
mod error;
mod hub;
mod memory;
mod queue;
mod reader;
mod reply;
pub mod sqlite;
#[cfg(feature = "suite")]
pub mod suite;
mod txn;

use std::{
    fmt::{self, Debug},
    path::Path,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;

pub use engine::limits::Limits;
pub use error::Error;
pub use memory::MemoryStore;
pub use reader::{Load, Subscription};
pub use reply::Reply;
pub use txn::{Action, Expect, KEY_BYTES_MAX, OPS_MAX, Op, TXN_BYTES_MAX, Txn, VALUE_BYTES_MAX};

/// The number of a transaction, as in etcd. It grows by one with each transaction that changes something and never goes back: not
/// after a restart, not when everything is deleted and compacted, not when a backup is restored (a restore makes it jump ahead).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A datastore of keys and values with revisions; the seam between the API server and the database.
///
/// # Flow
/// Every method queues a request and returns at once; one writer thread executes the requests. The [`Reply`] is a future and has
/// [`wait`](Reply::wait) for threads without a runtime. A reader that needs everything calls [`load`](Self::load), then
/// [`events`](Self::events) after the revision of the load, then drops the load.
///
/// # Guarantees
/// - Transactions are atomic, durable and totally ordered: the reply to a [`commit`](Self::commit) comes after the disk has the
///   data, and no reader sees a change before it is durable.
/// - Every subscription delivers every batch exactly once, in order. A subscription that falls behind ends with
///   [`Error::Lagged`]; it never slows down the writer.
/// - Requests of one caller that awaits each reply take effect in order. Dropping a reply does not cancel the request.
///
/// # Errors
/// Any request can fail with [`Error::Overloaded`] when the queue is full, and with [`Error::Closed`] after the store was closed.
pub trait Store: Debug + Send + Sync {
    /// Applies all operations of a transaction under one new revision, or none of them.
    ///
    /// The store checks all [`Expect`]ations against the state before the transaction. Deleting an absent key changes nothing; a
    /// transaction that changes nothing gets no revision of its own, and its reply is the newest revision.
    ///
    /// When the reply is a revision, the transaction is durable: it survives `kill -9` and loss of power.
    ///
    /// A put with a time to live is deleted by a transaction of the store's own once the time has passed, unless a later put
    /// replaced it. A jump of the wall clock while the store is open never makes a key expire early.
    ///
    /// # Errors
    /// - [`Error::Conflict`] for the first operation whose expectation does not hold. Nothing changed.
    /// - [`Error::KeyTooLong`], [`Error::ValueTooLarge`], [`Error::Invalid`]: the same transaction can never succeed.
    /// - [`Error::DiskFull`]: nothing changed; a retry succeeds when there is space.
    /// - [`Error::Poisoned`]: it is unknown whether the transaction is on the disk; reopening the store shows.
    fn commit(&self, txn: Txn) -> Reply<Revision>;

    /// Reads the newest value of a key, or `None` if the key is absent.
    fn get(&self, key: &str) -> Reply<Option<Entry>>;

    /// The store's metrics and health. It does not wait for the writer, so it returns also while the disk hangs, and it includes
    /// every commit that was acknowledged.
    fn status(&self) -> Status;

    /// The newest revision, at least that of every acknowledged commit. It reads memory only, unlike [`status`](Self::status),
    /// which also reads file sizes.
    fn head(&self) -> Revision;

    /// Reads all live entries as of the compaction horizon; [`Load::revision`] is the horizon's revision.
    ///
    /// [`events`](Self::events) after that revision continue from there. The two together are the whole retained history, without
    /// gaps or repeats. The horizon does not move until the load is dropped, so subscribe first and drop the load then. A load
    /// that is not read for too long ends with [`Error::LoadExpired`], which frees the horizon.
    fn load(&self) -> Reply<Load>;

    /// Subscribes to every batch with a revision greater than `after`: first from history, then live; each exactly once and in
    /// order.
    ///
    /// # Errors
    /// [`Error::Compacted`] if `after` is before the compaction horizon, [`Error::FutureRevision`] if it is beyond the newest
    /// revision.
    fn events(&self, after: Revision) -> Reply<Subscription>;

    /// Moves the compaction horizon up to `upto` and replies with the new horizon. While a load holds the horizon it stays, and
    /// moves when the load is over.
    ///
    /// # Errors
    /// [`Error::FutureRevision`] if `upto` is beyond the newest revision.
    fn compact(&self, upto: Revision) -> Reply<Revision>;

    /// Sends a bookmark, a batch without events that carries the newest revision, to every subscription and replies with that
    /// revision. A subscription that returned a batch of revision r, empty or not, has returned everything up to r.
    fn progress(&self) -> Reply<Revision>;

    /// Writes a copy of the store to the new file `target` while commits go on. Replies with the revision that the copy is at,
    /// after the copy was synced, read back and verified.
    ///
    /// # Errors
    /// [`Error::Backup`] if `target` exists or the copy fails, [`Error::Unsupported`] if the store has no files.
    fn backup(&self, target: &Path) -> Reply<Revision>;

    /// Finishes the requests before this one, ends all subscriptions with [`Error::Closed`] and closes the files. After the
    /// reply, another process can open them. Closing twice is allowed. Dropping the store also closes it and blocks until that is
    /// done.
    fn close(&self) -> Reply<()>;
}

/// A key with its newest value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Arc<str>,
    /// The revision of its last change.
    pub revision: Revision,
    /// Its value.
    pub value: Bytes,
}

/// The changes of one revision. A batch without events is a bookmark: the subscription is up to date as of its revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The revision.
    pub revision: Revision,
    /// The changes, in the order of the transaction's operations.
    pub events: Vec<Event>,
}

/// A change of one key, as subscriptions deliver it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The key.
    pub key: Arc<str>,
    /// The new state of the key.
    pub change: Change,
}

/// The new state of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The key has this value now.
    Put(Bytes),
    /// The key was deleted, or its time to live has passed.
    Delete,
}

/// The metrics and health of a store.
#[derive(Debug, Clone)]
pub struct Status {
    /// The newest revision.
    pub head: Revision,
    /// The compaction horizon: events after this revision can be read.
    pub compacted: Revision,
    /// Keys that have a value.
    pub live_keys: u64,
    /// Rows that only history needs, and rows that are waiting to be removed.
    pub dead_rows: u64,
    /// Subscriptions that receive live events.
    pub subscribers: u64,
    /// How many subscriptions were cut off because they did not read fast enough.
    pub lagged: u64,
    /// Size of the main file and of its write-ahead log; zero for a store without files.
    pub file_bytes: u64,
    /// Counters of the commits.
    pub commits: Commits,
    /// `Ok` if the store accepts writes, otherwise the error that writes get.
    pub writable: Result<(), Error>,
}

/// Counters since the store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Commits {
    /// Transactions that took a revision.
    pub transactions: u64,
    /// Transactions that failed with [`Error::Conflict`].
    pub conflicts: u64,
    /// Disk transactions (group commits); each carries one or more transactions.
    pub groups: u64,
    /// Disk transactions that failed.
    pub failures: u64,
    /// Keys that were deleted because their time to live passed.
    pub expired: u64,
    /// Total time spent in disk transactions.
    pub busy: Duration,
    /// The longest disk transaction.
    pub longest: Duration,
}
