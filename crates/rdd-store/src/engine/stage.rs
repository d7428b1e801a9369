//! Staging: transactions are checked against the state that they will find, before anything is written.

use std::{collections::HashMap, sync::Arc};

use super::{
    index::{Index, Live, Note},
    row::{Row, RowId},
    time::millis,
};
use crate::{Action, Batch, Error, Event, OPS_MAX, Op, Revision, Txn};

/// The content of the next disk transaction: the staged transactions as an overlay over the committed index.
#[derive(Debug)]
pub(crate) struct Staging<'a> {
    index: &'a Index,
    now: u64,
    over: HashMap<Arc<str>, Option<Live>>,
    staged: Staged,
}

/// The result of staging: what to write, and what to publish afterwards.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    pub(crate) rows: Vec<Row>,
    pub(crate) notes: Vec<Note>,
    pub(crate) batches: Vec<Arc<Batch>>,
    pub(crate) expired: u64,
    pub(crate) conflicts: u64,
    pub(crate) head: u64,
}

impl<'a> Staging<'a> {
    pub(crate) fn new(index: &'a Index, now: u64) -> Self {
        let staged = Staged { head: index.head, ..Staged::default() };
        Self { index, now, over: HashMap::new(), staged }
    }

    /// Stages the deletion of keys whose time to live has passed, at most `at_most` of them.
    pub(crate) fn expire(&mut self, at_most: usize) {
        let due = self.index.expiries.iter().take_while(|(expires, _)| *expires <= self.now).take(at_most);
        let keys: Vec<_> = due.map(|(_, key)| Arc::clone(key)).collect();
        // A row id has room for this many operations per revision.
        for keys in keys.chunks(OPS_MAX) {
            let revision = Revision(self.staged.head + 1);
            let events = keys.iter().enumerate().map(|(place, key)| self.apply(revision, place, Arc::clone(key), None));
            let events = events.collect();
            self.publish(revision, events);
            self.staged.expired += keys.len() as u64;
        }
    }

    /// Stages a transaction. Returns its revision, or its conflict; either is valid only if the disk transaction succeeds.
    pub(crate) fn add(&mut self, txn: Txn) -> Result<Revision, Error> {
        if let Some(conflict) = self.conflict(&txn) {
            self.staged.conflicts += 1;
            return Err(conflict);
        }
        let revision = Revision(self.staged.head + 1);
        let mut events = Vec::with_capacity(txn.ops.len());
        for Op { key, action, .. } in txn.ops {
            let known = self.known_key(&key);
            // Places are dense: a deletion without effect takes none.
            let place = events.len();
            match action {
                Action::Put { value, ttl } => {
                    let expires = ttl.map(|ttl| self.now.saturating_add(millis(ttl)));
                    events.push(self.apply(
                        revision,
                        place,
                        known.unwrap_or_else(|| key.into()),
                        Some((value, expires)),
                    ));
                }
                Action::Delete => {
                    if let Some(key) = known.filter(|key| self.current(key).is_some()) {
                        events.push(self.apply(revision, place, key, None));
                    }
                }
            }
        }
        if !events.is_empty() {
            self.publish(revision, events);
        }
        Ok(Revision(self.staged.head))
    }

    pub(crate) fn finish(self) -> Staged {
        self.staged
    }

    fn conflict(&self, txn: &Txn) -> Option<Error> {
        txn.ops.iter().enumerate().find_map(|(number, op)| {
            let actual = self.current(&op.key).map(|live| live.id.revision());
            let conflict = || Error::Conflict { op: number, key: op.key.clone(), expected: op.expect, actual };
            (!op.expect.holds(actual)).then(conflict)
        })
    }

    fn current(&self, key: &str) -> Option<Live> {
        self.over.get(key).copied().unwrap_or_else(|| self.index.live.get(key).copied())
    }

    /// The shared allocation of a key, so that each key is in memory once.
    fn known_key(&self, key: &str) -> Option<Arc<str>> {
        let kept = self.index.live.get_key_value(key).map(|(key, _)| key);
        kept.or_else(|| self.over.get_key_value(key).map(|(key, _)| key)).cloned()
    }

    fn apply(
        &mut self,
        revision: Revision,
        place: usize,
        key: Arc<str>,
        put: Option<(bytes::Bytes, Option<u64>)>,
    ) -> Event {
        let id = RowId::new(revision, place);
        let (value, expires) = put.map_or((None, None), |(value, expires)| (Some(value), expires));
        let row = Row { id, key: Arc::clone(&key), at: self.now, expires, value };
        let live = Live { id, expires, bytes: row.bytes(), sum: row.sum() };
        let deletion = row.value.is_none();
        self.over.insert(Arc::clone(&key), (!deletion).then_some(live));
        let event = Event { key: Arc::clone(&key), change: row.change() };
        self.staged.notes.push(Note { key, live, deletion });
        self.staged.rows.push(row);
        event
    }

    fn publish(&mut self, revision: Revision, events: Vec<Event>) {
        self.staged.head = revision.0;
        self.staged.batches.push(Arc::new(Batch { revision, events }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Expect, engine::row::State};

    #[test]
    fn a_transaction_meets_what_was_staged_before_it() {
        let index = Index::new(State::default());
        let mut staging = Staging::new(&index, 0);
        assert_eq!(staging.add(Txn::put("a", Expect::Absent, "1")).unwrap(), Revision(1));
        let error = staging.add(Txn::put("b", Expect::Any, "1").with("a", Expect::Absent, Action::Delete)).unwrap_err();
        assert!(matches!(error, Error::Conflict { op: 1, actual: Some(Revision(1)), .. }), "{error:?}");
        assert_eq!(
            staging.add(Txn::delete("b", Expect::Any)).unwrap(),
            Revision(1),
            "nothing of the conflict was staged"
        );
        assert_eq!(staging.add(Txn::delete("a", Expect::Revision(Revision(1)))).unwrap(), Revision(2));
        assert_eq!(staging.add(Txn::default()).unwrap(), Revision(2));
        let staged = staging.finish();
        assert_eq!((staged.rows.len(), staged.batches.len(), staged.conflicts), (2, 2, 1));
        assert!(index.live.is_empty(), "the index knows nothing of it yet");
    }

    #[test]
    fn places_are_dense_when_a_deletion_changes_nothing() {
        let index = Index::new(State::default());
        let mut staging = Staging::new(&index, 0);
        let txn = Txn::delete("gone", Expect::Any).with("a", Expect::Any, Action::Put { value: "1".into(), ttl: None });
        staging.add(txn).unwrap();
        assert_eq!(staging.finish().rows[0].id, RowId::new(Revision(1), 0));
    }
}
