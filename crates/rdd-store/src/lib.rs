//! Keys, opaque bytes and revisions over a database, with a durable history.
//!
//! The model is etcd's: every transaction that changes something takes the next [`Revision`]; what changed can be read
//! again as [events](Store::events) until it is compacted; a key has the revision of its last change. The store knows
//! nothing of what the bytes mean and keeps no value in memory.

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

/// The number of a transaction. It grows by one with each transaction that changes something, and never goes back:
/// not over restarts, not when everything is deleted and compacted, not when a backup is restored (then it leaps).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A store of keys and values with revisions.
///
/// Every method returns at once. The [`Reply`] is a future, and has [`wait`](Reply::wait) for threads without a runtime.
/// Dropping a reply does not undo the request. Requests of one caller that awaits each reply take effect in order.
pub trait Store: Debug + Send + Sync {
    /// Applies all operations of a transaction under one new revision, or none.
    ///
    /// All [`Expect`]ations are checked against the state before the transaction; the first that fails is the
    /// [`Error::Conflict`], and nothing changes. Deleting a key that is absent changes nothing, and a transaction that
    /// changes nothing takes no revision: its reply is the revision of the newest one. When the reply is a revision, the
    /// transaction is durable: it survives `kill -9` and loss of power. Nothing of it was visible to anyone before that.
    /// After [`Error::DiskFull`] nothing has changed; after [`Error::Poisoned`] a restart decides.
    ///
    /// A put with a time to live is deleted, by an ordinary transaction of the store's own, when that time has passed
    /// and no later put of the key has replaced it. It never goes early because the wall clock jumped while the store
    /// was open.
    fn commit(&self, txn: Txn) -> Reply<Revision>;

    /// The newest value of a key.
    fn get(&self, key: &str) -> Reply<Option<Entry>>;

    /// How the store fares. It answers from memory, also while the disk hangs, and knows every commit that was answered.
    fn status(&self) -> Status;

    /// The newest revision: of every commit that was answered, at least. It answers from memory and is cheap, unlike
    /// [`status`](Self::status), which looks at files.
    fn head(&self) -> Revision;

    /// All live entries as of the compaction horizon, with the horizon's revision.
    ///
    /// [`events`](Self::events) after that revision continues from there: the two together are the whole retained
    /// history, without a gap or a repeat. The horizon stays where it is until the load is dropped, so subscribe first
    /// and drop it then. A reader that does not read on is cut off with [`Error::LoadExpired`], which frees the horizon.
    fn load(&self) -> Reply<Load>;

    /// Every batch with a revision greater than `after`, in order, each exactly once, from history and then live.
    ///
    /// [`Error::Compacted`] if `after` is before the horizon, [`Error::FutureRevision`] if it is beyond the newest.
    fn events(&self, after: Revision) -> Reply<Subscription>;

    /// Moves the compaction horizon up to `upto` and replies where it is now: at least there, unless a load holds it,
    /// in which case it follows when the load is over.
    fn compact(&self, upto: Revision) -> Reply<Revision>;

    /// Sends an empty batch with the newest revision to every subscription and replies that revision. A subscription
    /// that has handed out a batch of revision r, empty or not, has handed out everything up to r.
    fn progress(&self) -> Reply<Revision>;

    /// Writes a copy of the store to `target`, which must not exist, while commits go on. It holds everything up to the
    /// revision replied, and has been read back and verified when the reply comes.
    fn backup(&self, target: &Path) -> Reply<Revision>;

    /// Finishes what was asked before, ends all subscriptions with [`Error::Closed`], and gives up the files. When the
    /// reply comes, another may open them. Closing twice is fine. Dropping the store does the same and waits for it.
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

/// What one revision changed; without events, the notice that nothing happened up to that revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The revision.
    pub revision: Revision,
    /// Its changes, in the order of the transaction's operations.
    pub events: Vec<Event>,
}

/// A change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The key.
    pub key: Arc<str>,
    /// What became of it.
    pub change: Change,
}

/// What became of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It has this value now.
    Put(Bytes),
    /// It is gone: deleted, or its time to live has passed.
    Delete,
}

/// How a store fares.
#[derive(Debug, Clone)]
pub struct Status {
    /// The newest revision.
    pub head: Revision,
    /// The compaction horizon: events after it can be read.
    pub compacted: Revision,
    /// Keys that have a value.
    pub live_keys: u64,
    /// Rows kept for history only, or not removed yet.
    pub dead_rows: u64,
    /// Subscriptions that receive live events.
    pub subscribers: u64,
    /// Subscriptions cut off so far because they did not read fast enough.
    pub lagged: u64,
    /// Size of the main file and of its write-ahead log; zero for a store without files.
    pub file_bytes: u64,
    /// What commits have cost so far.
    pub commits: Commits,
    /// Whether writes are accepted, and if not, the error they get.
    pub writable: Result<(), Error>,
}

/// Counters since the store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Commits {
    /// Transactions that took a revision.
    pub transactions: u64,
    /// Transactions refused because of an expectation.
    pub conflicts: u64,
    /// Disk transactions, each carrying one or more of the former.
    pub groups: u64,
    /// Disk transactions that failed.
    pub failures: u64,
    /// Keys whose time to live passed.
    pub expired: u64,
    /// Time spent in disk transactions, in total.
    pub busy: Duration,
    /// The longest disk transaction.
    pub longest: Duration,
}
