//! Transactions as a caller writes them.

use std::{collections::BTreeSet, fmt, time::Duration};

use bytes::Bytes;

use crate::{Error, Revision};

/// The most operations one transaction may have.
pub const OPS_MAX: usize = 128;
/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 4096;
/// The largest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 8 << 20;
/// The largest transaction, keys and values together, in bytes.
pub const TXN_BYTES_MAX: usize = 32 << 20;

/// Operations that take effect together or not at all. Its keys are distinct.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Txn {
    /// In the order in which their events are told.
    pub ops: Vec<Op>,
}

/// A change of one key, on a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    /// The key.
    pub key: String,
    /// What must hold for the whole transaction to take effect.
    pub expect: Expect,
    /// What to do.
    pub action: Action,
}

/// What a key must be like before a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Anything.
    Any,
    /// Not there.
    Absent,
    /// There, last changed by this revision.
    Revision(Revision),
}

/// What to do to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Give it this value; with a time to live, delete it when that has passed. Without one it stays, also when the
    /// value it replaces had one.
    Put {
        /// The value.
        value: Bytes,
        /// How long it lives.
        ttl: Option<Duration>,
    },
    /// Remove it.
    Delete,
}

impl Txn {
    /// Adds an operation.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, expect: Expect, action: Action) -> Self {
        self.ops.push(Op { key: key.into(), expect, action });
        self
    }

    /// Sets one key.
    pub fn put(key: impl Into<String>, expect: Expect, value: impl Into<Bytes>) -> Self {
        Self::default().with(key, expect, Action::Put { value: value.into(), ttl: None })
    }

    /// Sets one key for a time.
    pub fn put_for(key: impl Into<String>, expect: Expect, value: impl Into<Bytes>, ttl: Duration) -> Self {
        Self::default().with(key, expect, Action::Put { value: value.into(), ttl: Some(ttl) })
    }

    /// Deletes one key.
    pub fn delete(key: impl Into<String>, expect: Expect) -> Self {
        Self::default().with(key, expect, Action::Delete)
    }

    /// What the transaction weighs in the queue and in a batch.
    pub(crate) fn bytes(&self) -> usize {
        self.ops.iter().map(Op::bytes).sum()
    }

    /// Refuses what no store could do.
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
    /// Whether a key whose last change is `actual` (absent: `None`) is as expected.
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
