//! A row of the log, the state beside it, and their checksums.

use std::{
    error::Error as StdError,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;

use crate::{Change, Error, Revision, error::Cause, queue::Wait};

/// The number of a row: its revision, and its place within the revision's transaction in the low bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RowId(pub(crate) i64);

const PLACE_BITS: u32 = 7;

impl RowId {
    /// Where the row of an operation goes.
    pub(crate) fn new(revision: Revision, place: usize) -> Self {
        debug_assert!(place < 1 << PLACE_BITS);
        Self(((revision.0 << PLACE_BITS) | place as u64).cast_signed())
    }

    /// The last place that belongs to a revision or an earlier one.
    pub(crate) fn end_of(revision: Revision) -> Self {
        Self::new(revision, (1 << PLACE_BITS) - 1)
    }

    pub(crate) fn revision(self) -> Revision {
        Revision(self.0.cast_unsigned() >> PLACE_BITS)
    }
}

/// A change of one key, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: RowId,
    pub(crate) key: Arc<str>,
    /// When it was written, in milliseconds of the store's time.
    pub(crate) at: u64,
    /// When its time to live has passed, likewise.
    pub(crate) expires: Option<u64>,
    /// `None` is a deletion.
    pub(crate) value: Option<Bytes>,
}

impl Row {
    pub(crate) fn sum(&self) -> u32 {
        row_sum(self.id, &self.key, self.at, self.expires, self.value.as_deref())
    }

    /// What it takes, roughly.
    pub(crate) fn bytes(&self) -> u32 {
        row_bytes(&self.key, self.value.as_deref())
    }

    pub(crate) fn change(&self) -> Change {
        self.value.as_ref().map_or(Change::Delete, |value| Change::Put(value.clone()))
    }
}

/// The checksum of everything in a row.
pub(crate) fn row_sum(id: RowId, key: &str, at: u64, expires: Option<u64>, value: Option<&[u8]>) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&id.0.to_le_bytes());
    hasher.update(&at.to_le_bytes());
    hasher.update(&expires.map_or(u64::MAX, |expires| expires).to_le_bytes());
    // The length keeps the key and the value apart; a deletion differs from an empty value.
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(&[u8::from(value.is_some())]);
    hasher.update(key.as_bytes());
    hasher.update(value.unwrap_or_default());
    hasher.finalize()
}

pub(crate) fn row_bytes(key: &str, value: Option<&[u8]>) -> u32 {
    u32::try_from(key.len() + value.map_or(0, <[u8]>::len) + 32).unwrap_or(u32::MAX)
}

/// What is kept beside the rows and changes with them, in the same disk transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct State {
    /// The compaction horizon.
    pub(crate) compacted: u64,
    /// The newest revision is never below this.
    pub(crate) floor: u64,
    /// The store's time when this was written, in milliseconds.
    pub(crate) time: u64,
    /// The wall clock's, likewise.
    pub(crate) wall: u64,
    /// How many rows there are.
    pub(crate) rows: u64,
    /// The exclusive or of their checksums: a row that was lost, or that came back, is found when they are read.
    pub(crate) digest: u32,
}

impl State {
    pub(crate) fn sum(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        for number in [self.compacted, self.floor, self.time, self.wall, self.rows, self.digest.into()] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.finalize()
    }
}

/// One disk transaction.
#[derive(Debug)]
pub(crate) struct Write<'a> {
    pub(crate) rows: &'a [Row],
    pub(crate) remove: &'a [RowId],
    pub(crate) state: State,
}

/// Where rows are kept.
pub(crate) trait Log {
    /// Writes all of it durably, or nothing.
    fn write(&mut self, write: &Write<'_>) -> Result<(), Failure>;

    /// Visits the rows after one id up to and including another, in order, until told to stop.
    fn read(&mut self, after: RowId, upto: RowId, visit: &mut dyn FnMut(Row) -> ControlFlow<()>) -> Result<(), Cause>;

    /// Upkeep when nothing else is to do; whether there is more of it.
    fn tidy(&mut self) -> Result<bool, Failure>;

    /// Copies everything to `target`, serving others between the steps, and gives the newest revision of the copy.
    fn copy(&mut self, target: &Path, between: &mut Between<'_, Self>) -> Result<Revision, Error>
    where
        Self: Sized;

    /// Nothing may be written any more, not even on the way out.
    fn seal(&mut self);

    /// Leaves the files as small and as complete as can be.
    fn finish(&mut self) -> Result<(), Failure>;
}

/// Serves whoever asked meanwhile, after waiting so long for it; told to stop, the caller gives up with [`Error::Closed`].
pub(crate) type Between<'a, L> = dyn FnMut(&mut L, Wait) -> ControlFlow<()> + 'a;

/// Why nothing was written.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no space. Nothing has changed, and it may be tried again.
    Full {
        /// Where the log is.
        folder: PathBuf,
        /// What the database said.
        cause: Cause,
    },
    /// Something else. What is on the disk is unknown.
    Broken(Cause),
}

impl Failure {
    pub(crate) fn cause(&self) -> &(dyn StdError + 'static) {
        match self {
            Self::Full { cause, .. } | Self::Broken(cause) => &**cause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_order_by_revision_and_then_by_place() {
        let id = RowId::new(Revision(3), 127);
        assert_eq!(id.revision(), Revision(3));
        assert_eq!(RowId::end_of(Revision(3)), id);
        assert!(id < RowId::new(Revision(4), 0));
    }

    #[test]
    fn every_part_of_a_row_is_in_its_checksum() {
        let row = Row { id: RowId(9), key: "k".into(), at: 1, expires: None, value: Some(Bytes::new()) };
        let others = [
            Row { id: RowId(8), ..row.clone() },
            Row { key: "l".into(), ..row.clone() },
            Row { at: 2, ..row.clone() },
            Row { expires: Some(0), ..row.clone() },
            Row { value: None, ..row.clone() },
            Row { value: Some(Bytes::from_static(b"v")), ..row.clone() },
            Row { key: "".into(), value: Some(Bytes::from_static(b"k")), ..row.clone() },
        ];
        for other in others {
            assert_ne!(row.sum(), other.sum(), "{other:?}");
        }
    }
}
