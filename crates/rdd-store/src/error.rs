//! Why a request to a store failed.

use std::{error::Error as StdError, path::PathBuf, sync::Arc};

use crate::{Expect, Revision};

/// A cause that several callers share.
pub(crate) type Cause = Arc<dyn StdError + Send + Sync>;

/// Why a request to a store failed. It is cheap to clone: one failed disk transaction fails many callers.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A key was not as the transaction expected. Nothing changed.
    #[error("commit to key {key:?}: expected {expected}, found {}", found(*actual))]
    Conflict {
        /// Which operation of the transaction.
        op: usize,
        /// Its key.
        key: String,
        /// What it expected.
        expected: Expect,
        /// The key's last change; `None` if it is absent.
        actual: Option<Revision>,
    },
    /// The events asked for are no longer kept.
    #[error("read events: the history before revision {compacted} is gone")]
    Compacted {
        /// Events after this revision can be read.
        compacted: Revision,
    },
    /// The revision asked for has not happened.
    #[error("revision {asked} is in the future, the newest is {head}")]
    FutureRevision {
        /// What was asked for.
        asked: Revision,
        /// The newest revision.
        head: Revision,
    },
    /// The subscription did not read fast enough and was cut off.
    #[error("the subscriber was too slow; it can resume after revision {resume_after}")]
    Lagged {
        /// Everything up to here was handed out.
        resume_after: Revision,
    },
    /// The load was not read on for too long; load again.
    #[error("the load was not read for too long and was given up")]
    LoadExpired,
    /// A key is too long. The same request can never succeed.
    #[error("the key has {bytes} bytes, the limit is {}", crate::KEY_BYTES_MAX)]
    KeyTooLong {
        /// Its length.
        bytes: usize,
    },
    /// A value is too large. The same request can never succeed.
    #[error("the value has {bytes} bytes, the limit is {}", crate::VALUE_BYTES_MAX)]
    ValueTooLarge {
        /// Its length.
        bytes: usize,
    },
    /// A transaction that no store could do.
    #[error("refuse transaction: {reason}")]
    Invalid {
        /// Why.
        reason: String,
    },
    /// Too many requests are waiting.
    #[error("the store has too many requests waiting")]
    Overloaded,
    /// No space is left on the disk. Nothing changed; writes succeed again when there is space.
    #[error("write to the store: no space is left on its disk; free space in {}", folder.display())]
    DiskFull {
        /// Where the store is.
        folder: PathBuf,
        /// What the database said.
        #[source]
        source: Cause,
    },
    /// A write failed in a way that leaves unknown what is on the disk. Reads go on; writes are refused.
    #[error(
        "the store accepts no writes since one failed ({cause}); restart the service to recover what is on the disk"
    )]
    Poisoned {
        /// What failed then.
        cause: String,
    },
    /// A read failed, or found something damaged.
    #[error("{action}")]
    Read {
        /// What was attempted.
        action: &'static str,
        /// What the database said.
        #[source]
        source: Cause,
    },
    /// A backup was not made.
    #[error("back up the store to {}", target.display())]
    Backup {
        /// Where to.
        target: PathBuf,
        /// Why.
        #[source]
        source: Cause,
    },
    /// The kind of store has no such thing.
    #[error("this store cannot {what}")]
    Unsupported {
        /// What it cannot.
        what: &'static str,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

fn found(actual: Option<Revision>) -> String {
    actual.map_or_else(|| "no such key".to_owned(), |revision| format!("revision {revision}"))
}
