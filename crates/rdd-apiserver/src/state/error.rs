//! Errors of the state.

use std::sync::Arc;

use rdd_store::Revision;

/// The error of a caller's [`Extract`](super::Extract).
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// Why an operation of the state failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A group, resource, namespace or name that cannot be part of a key.
    #[error("make a key of {text:?}: its parts must not be empty and hold no slash")]
    InvalidKey {
        /// The key it would have been.
        text: String,
    },
    /// The value is not an object that the server can serve.
    #[error("read the object of {key}")]
    Unreadable {
        /// Its key.
        key: String,
        /// What is wrong with the value.
        #[source]
        source: Cause,
    },
    /// The object does not meet the precondition of the write. Nothing changed.
    #[error("write {key}: it is not as expected")]
    Conflict {
        /// Its key.
        key: String,
        /// The revision of its last change; `None` if the object does not exist.
        actual: Option<Revision>,
    },
    /// The store refused the commit or failed.
    #[error("commit to the store")]
    Store {
        /// The store's error.
        #[source]
        source: rdd_store::Error,
    },
    /// The state could not be loaded from the store.
    #[error("load the state from the store")]
    Load {
        /// The store's error.
        #[source]
        source: rdd_store::Error,
    },
    /// The write is durable, but the follower did not apply it within
    /// [`Limits::commit_wait`](super::Limits::commit_wait).
    #[error("the write was committed as revision {revision}, which the store has not told yet")]
    Unseen {
        /// The revision of the write.
        revision: Revision,
    },
    /// The revision did not become visible within the time limit.
    #[error("revision {wanted} has not happened, the newest is {current}")]
    TooLarge {
        /// The requested revision.
        wanted: Revision,
        /// The newest visible revision.
        current: Revision,
    },
    /// The content of the revision, or the changes after it, are no longer kept.
    #[error("revision {wanted} is too old, what is kept begins at {oldest}")]
    Expired {
        /// The requested revision; for a watch, the last one that it delivered.
        wanted: Revision,
        /// The oldest revision that is available.
        oldest: Revision,
    },
    /// The follower has ended, so the state changes no more.
    #[error("the state is closed")]
    Closed,
}
