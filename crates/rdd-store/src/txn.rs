//! Transactions as a caller writes them: operations with expectations.

use std::{collections::BTreeSet, fmt, time::Duration};

use bytes::Bytes;

use crate::{Error, Revision};

/// The maximum number of operations in a transaction.
pub const OPS_MAX: usize = 128;
/// The maximum length of a key, in bytes.
pub const KEY_BYTES_MAX: usize = 4096;
/// The maximum size of a value, in bytes.
pub const VALUE_BYTES_MAX: usize = 8 << 20;
/// The maximum size of a transaction, keys and values together, in bytes.
pub const TXN_BYTES_MAX: usize = 32 << 20;

/// Operations that take effect together or not at all. Each key may appear once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Txn {
    /// The operations; their events are delivered in this order.
    pub ops: Vec<Op>,
}

/// A conditional change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    /// The key.
    pub key: String,
    /// The condition. If one operation's condition fails, the whole transaction fails.
    pub expect: Expect,
    /// The change.
    pub action: Action,
}

/// The expected state of a key before the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Any state.
    Any,
    /// The key is absent.
    Absent,
    /// The key exists, and this revision changed it last.
    Revision(Revision),
}

/// A change of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Sets the value. With a time to live the key is deleted when that has passed; a put without one removes the time to live of
    /// the value it replaces.
    Put {
        /// The value.
        value: Bytes,
        /// The time to live.
        ttl: Option<Duration>,
    },
    /// Deletes the key.
    Delete,
}

impl Txn {
    /// Adds an operation.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, expect: Expect, action: Action) -> Self {
        self.ops.push(Op { key: key.into(), expect, action });
        self
    }

    /// A transaction that sets one key.
    pub fn put(key: impl Into<String>, expect: Expect, value: impl Into<Bytes>) -> Self {
        Self::default().with(key, expect, Action::Put { value: value.into(), ttl: None })
    }

    /// A transaction that sets one key with a time to live.
    pub fn put_for(key: impl Into<String>, expect: Expect, value: impl Into<Bytes>, ttl: Duration) -> Self {
        Self::default().with(key, expect, Action::Put { value: value.into(), ttl: Some(ttl) })
    }

    /// A transaction that deletes one key.
    pub fn delete(key: impl Into<String>, expect: Expect) -> Self {
        Self::default().with(key, expect, Action::Delete)
    }

    /// The size that counts against the bounds of the queue and of a batch.
    pub(crate) fn bytes(&self) -> usize {
        self.ops.iter().map(Op::bytes).sum()
    }

    /// Checks the limits before the transaction is queued.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let invalid = |reason: String| Err(Error::Invalid { reason });
        if self.ops.len() > OPS_MAX {
            return invalid(format!("{} operations, the most is {OPS_MAX}", self.ops.len()));
        }
        if self.bytes() > TXN_BYTES_MAX {
            return invalid(format!("{} bytes in all, the most is {TXN_BYTES_MAX}", self.bytes()));
        }
        let mut keys = BTreeSet::new();
        for op in &self.ops {
            if op.key.is_empty() {
                return invalid("a key is empty".to_owned());
            }
            if op.key.len() > KEY_BYTES_MAX {
                return Err(Error::KeyTooLong { bytes: op.key.len() });
            }
            if let Action::Put { value, .. } = &op.action
                && value.len() > VALUE_BYTES_MAX
            {
                return Err(Error::ValueTooLarge { bytes: value.len() });
            }
            if self.ops.len() > 1 && !keys.insert(&op.key) {
                return invalid(format!("key {:?} appears twice", op.key));
            }
        }
        Ok(())
    }
}

impl Op {
    fn bytes(&self) -> usize {
        let value = match &self.action {
            Action::Put { value, .. } => value.len(),
            Action::Delete => 0,
        };
        self.key.len() + value
    }
}

impl Expect {
    /// Whether the expectation holds for a key whose last change is `actual` (`None` if absent).
    pub fn holds(self, actual: Option<Revision>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => actual.is_none(),
            Self::Revision(revision) => actual == Some(revision),
        }
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("anything"),
            Self::Absent => f.write_str("no such key"),
            Self::Revision(revision) => write!(f, "revision {revision}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(txn: &Txn) -> String {
        txn.check().map_or_else(|error| error.to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn what_no_store_could_do_is_refused_with_the_reason() {
        assert_eq!(check(&Txn::put("a", Expect::Any, "1").with("b", Expect::Any, Action::Delete)), "fine");
        assert!(
            check(&Txn::put("a", Expect::Any, "1").with("a", Expect::Any, Action::Delete))
                .contains("\"a\" appears twice")
        );
        assert!(check(&Txn::delete("", Expect::Any)).contains("a key is empty"));
        let long = Txn::delete("k".repeat(KEY_BYTES_MAX + 1), Expect::Any).check();
        assert!(matches!(long, Err(Error::KeyTooLong { bytes: 4097 })), "{long:?}");
        let large = Txn::put("a", Expect::Any, vec![0; VALUE_BYTES_MAX + 1]).check();
        assert!(matches!(large, Err(Error::ValueTooLarge { bytes: 8_388_609 })), "{large:?}");
        let large = (0..5).fold(Txn::default(), |txn, number| {
            let put = Action::Put { value: vec![0; VALUE_BYTES_MAX].into(), ttl: None };
            txn.with(number.to_string(), Expect::Any, put)
        });
        assert!(check(&large).contains("41943045 bytes in all"), "{}", check(&large));
        let many = (0..=OPS_MAX).fold(Txn::default(), |txn, i| txn.with(i.to_string(), Expect::Any, Action::Delete));
        assert!(check(&many).contains("129 operations"));
    }
}
