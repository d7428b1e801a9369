//! The rows of the log, the state beside them, their checksums, and the trait of a log.

use std::{
    error::Error as StdError,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;

use crate::{Change, Error, Revision, error::Cause, queue::Wait};

/// The id of a row: its revision, with the row's place in the transaction in the low bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RowId(pub(crate) i64);

const PLACE_BITS: u32 = 7;

impl RowId {
    /// The id of the row that an operation writes.
    pub(crate) fn new(revision: Revision, place: usize) -> Self {
        debug_assert!(place < 1 << PLACE_BITS);
        Self(((revision.0 << PLACE_BITS) | place as u64).cast_signed())
    }

    /// The greatest id of a revision.
    pub(crate) fn end_of(revision: Revision) -> Self {
        Self::new(revision, (1 << PLACE_BITS) - 1)
    }

    pub(crate) fn revision(self) -> Revision {
        Revision(self.0.cast_unsigned() >> PLACE_BITS)
    }
}

/// A change of one key, as the log stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: RowId,
    pub(crate) key: Arc<str>,
    /// When the row was written, in milliseconds of store time.
    pub(crate) at: u64,
    /// When its time to live ends, in milliseconds of store time.
    pub(crate) expires: Option<u64>,
    /// The value; `None` for a deletion.
    pub(crate) value: Option<Bytes>,
}

impl Row {
    pub(crate) fn sum(&self) -> u32 {
        row_sum(self.id, &self.key, self.at, self.expires, self.value.as_deref())
    }

    /// Its approximate size.
    pub(crate) fn bytes(&self) -> u32 {
        row_bytes(&self.key, self.value.as_deref())
    }

    pub(crate) fn change(&self) -> Change {
        self.value.as_ref().map_or(Change::Delete, |value| Change::Put(value.clone()))
    }
}

/// The checksum over all fields of a row.
pub(crate) fn row_sum(id: RowId, key: &str, at: u64, expires: Option<u64>, value: Option<&[u8]>) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&id.0.to_le_bytes());
    hasher.update(&at.to_le_bytes());
    hasher.update(&expires.map_or(u64::MAX, |expires| expires).to_le_bytes());
    // The length separates the key from the value; the flag distinguishes a deletion from an empty value.
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(&[u8::from(value.is_some())]);
    hasher.update(key.as_bytes());
    hasher.update(value.unwrap_or_default());
    hasher.finalize()
}

pub(crate) fn row_bytes(key: &str, value: Option<&[u8]>) -> u32 {
    u32::try_from(key.len() + value.map_or(0, <[u8]>::len) + 32).unwrap_or(u32::MAX)
}

/// The state beside the rows, written in the same disk transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct State {
    /// The compaction horizon.
    pub(crate) compacted: u64,
    /// A lower bound of the newest revision; a restore raises it.
    pub(crate) floor: u64,
    /// The store time of the write, in milliseconds.
    pub(crate) time: u64,
    /// The wall-clock time of the write, in milliseconds.
    pub(crate) wall: u64,
    /// The number of rows.
    pub(crate) rows: u64,
    /// The exclusive or of all row checksums. With it, a replay detects a row that was lost or that reappeared.
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

/// One disk transaction: rows to insert, rows to remove, and the new state.
#[derive(Debug)]
pub(crate) struct Write<'a> {
    pub(crate) rows: &'a [Row],
    pub(crate) remove: &'a [RowId],
    pub(crate) state: State,
}

/// The storage of rows, implemented by SQLite and by a map.
pub(crate) trait Log {
    /// Executes the disk transaction durably, or changes nothing.
    fn write(&mut self, write: &Write<'_>) -> Result<(), Failure>;

    /// Visits the rows with `after < id <= upto` in order until `visit` breaks.
    fn read(&mut self, after: RowId, upto: RowId, visit: &mut dyn FnMut(Row) -> ControlFlow<()>) -> Result<(), Cause>;

    /// Does one step of maintenance; returns whether there is more to do.
    fn tidy(&mut self) -> Result<bool, Failure>;

    /// Copies everything to `target`, calling `between` between the steps. Returns the newest revision of the copy.
    fn copy(&mut self, target: &Path, between: &mut Between<'_, Self>) -> Result<Revision, Error>
    where
        Self: Sized;

    /// Prevents all further writes, including those that closing would do.
    fn seal(&mut self);

    /// Prepares the files for closing: moves the write-ahead log into the main file.
    fn finish(&mut self) -> Result<(), Failure>;
}

/// Serves the requests that arrived during a copy, after waiting for them as given. If it breaks, the copy fails with
/// [`Error::Closed`].
pub(crate) type Between<'a, L> = dyn FnMut(&mut L, Wait) -> ControlFlow<()> + 'a;

/// Why a disk transaction failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The disk is full. Nothing changed, and a retry is safe.
    Full {
        /// The folder of the log.
        folder: PathBuf,
        /// The database's error.
        cause: Cause,
    },
    /// Another failure. It is unknown what is on the disk.
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
