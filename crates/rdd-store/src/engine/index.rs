//! The index in memory: the row of each key, the dead rows, and the expiry times.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use super::row::{RowId, State};
use crate::Revision;

/// The newest row of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) id: RowId,
    pub(crate) expires: Option<u64>,
    pub(crate) bytes: u32,
    pub(crate) sum: u32,
}

/// A row that the revision `killer` replaced or deleted. The row of a deletion is dead from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dead {
    pub(crate) killer: u64,
    pub(crate) id: RowId,
    pub(crate) bytes: u32,
    pub(crate) sum: u32,
}

/// The index over all rows of the log.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) live: HashMap<Arc<str>, Live>,
    /// Dead rows that history still keeps, in the order in which they died.
    pub(crate) dead: VecDeque<Dead>,
    pub(crate) dead_bytes: u64,
    /// Dead rows before the horizon that have not been removed yet, with their checksums. They are removed in the order of their
    /// ids, which is their order in the file: that empties whole pages at a time. It also removes a deletion after every row that
    /// it deleted, so that a replay never brings a key back.
    garbage: BTreeMap<RowId, u32>,
    pub(crate) expiries: BTreeSet<(u64, Arc<str>)>,
    pub(crate) head: u64,
    pub(crate) state: State,
}

/// The part of a row that the index needs.
#[derive(Debug, Clone)]
pub(crate) struct Note {
    pub(crate) key: Arc<str>,
    pub(crate) live: Live,
    pub(crate) deletion: bool,
}

impl Index {
    /// The index of a log without rows.
    pub(crate) fn new(state: State) -> Self {
        Self { head: state.floor.max(state.compacted), state, ..Self::default() }
    }

    pub(crate) fn head(&self) -> Revision {
        Revision(self.head)
    }

    pub(crate) fn compacted(&self) -> Revision {
        Revision(self.state.compacted)
    }

    /// Adds the next row in order. Commits and replays both use it, so the index after a restart is the same.
    pub(crate) fn add(&mut self, note: Note) {
        let killer = note.live.id.revision().0;
        self.head = self.head.max(killer);
        let Note { key, live, deletion } = note;
        let before = if deletion { self.live.remove(&key) } else { self.live.insert(Arc::clone(&key), live) };
        if let Some(before) = before {
            if let Some(expires) = before.expires {
                self.expiries.remove(&(expires, Arc::clone(&key)));
            }
            self.bury(killer, before);
        }
        // A deletion has no value to keep: only history needs its row.
        if deletion {
            self.bury(killer, live);
        } else if let Some(expires) = live.expires {
            self.expiries.insert((expires, key));
        }
    }

    fn bury(&mut self, killer: u64, row: Live) {
        self.dead_bytes += u64::from(row.bytes);
        self.dead.push_back(Dead { killer, id: row.id, bytes: row.bytes, sum: row.sum });
    }

    /// The rows to remove next, with their checksums.
    pub(crate) fn removable(&self, at_most: usize) -> impl Iterator<Item = (RowId, u32)> {
        self.garbage.iter().take(at_most).map(|(id, sum)| (*id, *sum))
    }

    /// Records that the first `count` of [`removable`](Self::removable) were removed.
    pub(crate) fn removed(&mut self, count: usize) {
        for _ in 0..count {
            self.garbage.pop_first();
        }
    }

    /// Moves dead rows that the horizon has passed to the garbage.
    pub(crate) fn settle(&mut self) {
        while let Some(row) = self.dead.front()
            && row.killer <= self.state.compacted
        {
            self.dead_bytes -= u64::from(row.bytes);
            self.garbage.insert(row.id, row.sum);
            self.dead.pop_front();
        }
    }

    /// Rows that were dead at the horizon and have not been removed yet.
    pub(crate) fn dead_at_horizon(&self) -> HashSet<RowId> {
        self.garbage.keys().copied().collect()
    }

    /// How many rows are waiting to be removed.
    pub(crate) fn backlog(&self) -> usize {
        self.garbage.len()
    }

    /// The number of rows that are not the newest of their key.
    pub(crate) fn dead_rows(&self) -> u64 {
        (self.dead.len() + self.garbage.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(revision: u64, key: &str, expires: Option<u64>) -> Note {
        let id = RowId::new(Revision(revision), 0);
        Note { key: key.into(), live: Live { id, expires, bytes: 10, sum: 0 }, deletion: false }
    }

    fn deletion(revision: u64, key: &str) -> Note {
        Note { deletion: true, ..note(revision, key, None) }
    }

    fn removable(index: &mut Index, compacted: u64) -> Vec<u64> {
        index.state.compacted = compacted;
        index.settle();
        index.removable(99).map(|(id, _)| id.revision().0).collect()
    }

    #[test]
    fn a_deletion_goes_after_the_row_it_deleted() {
        let mut index = Index::new(State::default());
        for note in [note(1, "a", None), note(2, "b", None), note(3, "a", None), deletion(4, "a"), note(5, "b", None)] {
            index.add(note);
        }
        assert_eq!(removable(&mut index, 2), [] as [u64; 0]);
        assert_eq!((index.dead_bytes, index.dead_rows()), (40, 4));
        assert_eq!(removable(&mut index, 3), [1]);
        assert_eq!(removable(&mut index, 4), [1, 3, 4]);
        assert_eq!(removable(&mut index, 5), [1, 2, 3, 4], "by place, not by time of death");
        index.removed(3);
        assert_eq!(removable(&mut index, 5), [4]);
        assert_eq!((index.dead_bytes, index.dead_rows(), index.live.len(), index.head), (0, 1, 1, 5));
    }

    #[test]
    fn only_the_newest_row_of_a_key_expires() {
        let mut index = Index::new(State::default());
        index.add(note(1, "a", Some(100)));
        index.add(note(2, "b", Some(50)));
        index.add(note(3, "a", None));
        index.add(deletion(4, "b"));
        assert!(index.expiries.is_empty());
    }
}
