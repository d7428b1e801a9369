//! The errors of requests to a store.

use std::{error::Error as StdError, path::PathBuf, sync::Arc};

use crate::{Expect, Revision};

/// The cause of an error, shared by all callers that get it.
pub(crate) type Cause = Arc<dyn StdError + Send + Sync>;

/// Why a request to a store failed. Cheap to clone, because one failed disk transaction fails many callers.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A key was not as the transaction expected. Nothing changed; read again and retry.
    #[error("commit to key {key:?}: expected {expected}, found {}", found(*actual))]
    Conflict {
        /// The index of the operation in the transaction.
        op: usize,
        /// The key of the operation.
        key: String,
        /// What the operation expected.
        expected: Expect,
        /// The revision of the key's last change; `None` if the key is absent.
        actual: Option<Revision>,
    },
    /// The requested events were compacted; load again.
    #[error("read events: the history before revision {compacted} is gone")]
    Compacted {
        /// Events after this revision can be read.
        compacted: Revision,
    },
    /// The requested revision does not exist yet.
    #[error("revision {asked} is in the future, the newest is {head}")]
    FutureRevision {
        /// The requested revision.
        asked: Revision,
        /// The newest revision.
        head: Revision,
    },
    /// The subscription was cut off because it did not read fast enough; subscribe again.
    #[error("the subscriber was too slow; it can resume after revision {resume_after}")]
    Lagged {
        /// The subscription returned everything up to this revision.
        resume_after: Revision,
    },
    /// The load was not read for too long; load again.
    #[error("the load was not read for too long and was given up")]
    LoadExpired,
    /// A key exceeds [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX). The same request can never succeed.
    #[error("the key has {bytes} bytes, the limit is {}", crate::KEY_BYTES_MAX)]
    KeyTooLong {
        /// The length of the key.
        bytes: usize,
    },
    /// A value exceeds [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX). The same request can never succeed.
    #[error("the value has {bytes} bytes, the limit is {}", crate::VALUE_BYTES_MAX)]
    ValueTooLarge {
        /// The length of the value.
        bytes: usize,
    },
    /// The transaction breaks another limit or rule. The same request can never succeed.
    #[error("refuse transaction: {reason}")]
    Invalid {
        /// The rule that it breaks.
        reason: String,
    },
    /// The request queue is full; retry later.
    #[error("the store has too many requests waiting")]
    Overloaded,
    /// The disk is full. Nothing changed; writes succeed again when there is space.
    #[error("write to the store: no space is left on its disk; free space in {}", folder.display())]
    DiskFull {
        /// The folder of the store.
        folder: PathBuf,
        /// The database's error.
        #[source]
        source: Cause,
    },
    /// An earlier write failed in a way that leaves the content of the disk unknown. Reads continue; all writes are refused until
    /// the store is reopened.
    #[error(
        "the store accepts no writes since one failed ({cause}); restart the service to recover what is on the disk"
    )]
    Poisoned {
        /// The error of that write.
        cause: String,
    },
    /// A read failed or found a damaged row.
    #[error("{action}")]
    Read {
        /// What the store tried to do.
        action: &'static str,
        /// The database's error.
        #[source]
        source: Cause,
    },
    /// A backup failed.
    #[error("back up the store to {}", target.display())]
    Backup {
        /// The file that the backup should have been written to.
        target: PathBuf,
        /// The cause.
        #[source]
        source: Cause,
    },
    /// This store does not support the operation.
    #[error("this store cannot {what}")]
    Unsupported {
        /// The operation.
        what: &'static str,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

fn found(actual: Option<Revision>) -> String {
    actual.map_or_else(|| "no such key".to_owned(), |revision| format!("revision {revision}"))
}
