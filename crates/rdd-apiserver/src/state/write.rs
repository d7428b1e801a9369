//! Writes as callers make them, and their results.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use rdd_store::{Action, Expect, Revision, Txn};

use super::{Key, Object};

/// A change of one object, under a precondition.
#[derive(Debug, Clone)]
pub struct Write {
    /// The object to change.
    pub key: Key,
    /// The precondition.
    pub expect: Expect,
    /// The change. The value of a put is the object's JSON, without a resourceVersion.
    pub action: Action,
}

/// The result of a committed write.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The revision of the write; the newest revision if it changed nothing.
    pub revision: Revision,
    /// The object after the write. For a deletion: its last content under the revision of the deletion, or `None` if
    /// there was nothing to delete.
    pub object: Option<Arc<Object>>,
}

impl Write {
    /// Creates or replaces an object.
    pub fn put(key: Key, expect: Expect, json: impl Into<Bytes>) -> Self {
        Self { key, expect, action: Action::Put { value: json.into(), ttl: None } }
    }

    /// Creates or replaces an object that the store deletes after `ttl`.
    pub fn put_for(key: Key, expect: Expect, json: impl Into<Bytes>, ttl: Duration) -> Self {
        Self { key, expect, action: Action::Put { value: json.into(), ttl: Some(ttl) } }
    }

    /// Deletes an object.
    pub fn delete(key: Key, expect: Expect) -> Self {
        Self { key, expect, action: Action::Delete }
    }

    pub(super) fn to_txn(&self) -> Txn {
        Txn::default().with(self.key.as_str(), self.expect, self.action.clone())
    }
}
