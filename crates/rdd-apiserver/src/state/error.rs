//! Why the state could not do what it was asked.

use std::sync::Arc;

use rdd_store::Revision;

/// What a caller-given [`Extract`](super::Extract) may fail with.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// Why the state could not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A group, resource, namespace or name that cannot be part of a key.
    #[error("make a key of {text:?}: its parts must not be empty and hold no slash")]
    InvalidKey {
        /// The key it would have been.
        text: String,
    },
    /// The bytes are no object that could be served.
    #[error("read the object of {key}")]
    Unreadable {
        /// Its key.
        key: String,
        /// What is wrong with it.
        #[source]
        source: Cause,
    },
    /// The object was not as the write expected. Nothing changed.
    #[error("write {key}: it is not as expected")]
    Conflict {
        /// Its key.
        key: String,
        /// Its last change; `None` if it is absent.
        actual: Option<Revision>,
    },
    /// The store refused or failed.
    #[error("commit to the store")]
    Store {
        /// Why.
        #[source]
        source: rdd_store::Error,
    },
    /// The store could not be read.
    #[error("load the state from the store")]
    Load {
        /// Why.
        #[source]
        source: rdd_store::Error,
    },
    /// The write is durable, but was not told by the store within the time that is given to it.
    #[error("the write was committed as revision {revision}, which the store has not told yet")]
    Unseen {
        /// Its revision.
        revision: Revision,
    },
    /// A revision that has not happened within the time that was given to it.
    #[error("revision {wanted} has not happened, the newest is {current}")]
    TooLarge {
        /// What was asked for.
        wanted: Revision,
        /// The newest one.
        current: Revision,
    },
    /// A revision whose content or whose later changes are no longer kept.
    #[error("revision {wanted} is too old, what is kept begins at {oldest}")]
    Expired {
        /// What was asked for; of a watch, how far it came.
        wanted: Revision,
        /// The oldest that can be had.
        oldest: Revision,
    },
    /// The state follows its store no longer.
    #[error("the state is closed")]
    Closed,
}
