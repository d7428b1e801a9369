//! Replay: reads and verifies every row at startup and builds the index.

use std::path::Path;

use rusqlite::{Connection, Row, types::ValueRef};

use super::{Error, damaged_or, layout::TABLES};
use crate::engine::{
    index::{Index, Live, Note},
    row::{RowId, State, row_bytes, row_sum},
};

/// The columns of a row, in the order that [`decode`] expects.
pub(super) const COLUMNS: &str = "id, key, op, at, expires, sum, val";

/// A row that borrows its data from SQLite.
#[derive(Debug)]
pub(super) struct Stored<'a> {
    pub(super) id: RowId,
    pub(super) key: &'a str,
    pub(super) at: u64,
    pub(super) expires: Option<u64>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) sum: u32,
}

/// Why a row is invalid.
#[derive(Debug, thiserror::Error)]
#[error("row {id} {problem}")]
pub(super) struct BadRow {
    id: i64,
    problem: &'static str,
}

/// Verifies tables, structure, checksums and row count, and builds the index. It only reads.
///
/// # Errors
/// [`Error::Damaged`] with the first problem found.
pub(super) fn verify(connection: &Connection, path: &Path) -> Result<Index, Error> {
    let damaged = |reason: String| Error::Damaged { path: path.to_owned(), reason };
    let failed = |error| damaged_or(path, "read", error);
    check_tables(connection).map_err(failed)?.map_err(damaged)?;
    quick_check(connection, path)?;
    let state = read_state(connection).map_err(failed)?.map_err(damaged)?;
    let mut index = Index::new(state);
    let (mut rows, mut digest) = (0, 0);
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS} FROM log ORDER BY id")).map_err(failed)?;
    let mut found = statement.query([]).map_err(failed)?;
    while let Some(row) = found.next().map_err(failed)? {
        let stored = decode(row).map_err(|error| damaged(error.to_string()))?;
        rows += 1;
        digest ^= stored.sum;
        index.add(note(&stored));
    }
    if (rows, digest) != (state.rows, state.digest) {
        return Err(damaged(format!("its {rows} rows are not the {} that were written", state.rows)));
    }
    Ok(index)
}

fn note(stored: &Stored<'_>) -> Note {
    let live =
        Live { id: stored.id, expires: stored.expires, bytes: row_bytes(stored.key, stored.value), sum: stored.sum };
    Note { key: stored.key.into(), live, deletion: stored.value.is_none() }
}

/// Decodes a row and checks its checksum.
pub(super) fn decode<'a>(row: &'a Row<'_>) -> Result<Stored<'a>, BadRow> {
    let id = row.get(0).unwrap_or(-1);
    let bad = |problem| BadRow { id, problem };
    let shape = "has a column of the wrong kind";
    let key = row.get_ref(1).ok().and_then(|key| key.as_str().ok()).ok_or(bad(shape))?;
    let op: i64 = row.get(2).map_err(|_| bad(shape))?;
    let at: i64 = row.get(3).map_err(|_| bad(shape))?;
    let expires: Option<i64> = row.get(4).map_err(|_| bad(shape))?;
    let sum: u32 = row.get(5).map_err(|_| bad(shape))?;
    let value = match (op, row.get_ref(6)) {
        (1, Ok(ValueRef::Blob(value))) => Some(value),
        (0, Ok(ValueRef::Null)) => None,
        _ => return Err(bad(shape)),
    };
    let (id, at, expires) = (RowId(id), at.cast_unsigned(), expires.map(i64::cast_unsigned));
    if sum != row_sum(id, key, at, expires, value) {
        return Err(bad("does not match its checksum"));
    }
    Ok(Stored { id, key, at, expires, value, sum })
}

fn check_tables(connection: &Connection) -> rusqlite::Result<Result<(), String>> {
    let mut statement = connection.prepare("SELECT name, coalesce(sql, '') FROM sqlite_schema ORDER BY name")?;
    let found = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    let found = found.collect::<rusqlite::Result<Vec<_>>>()?;
    let same = found.iter().map(|(name, sql)| (name.as_str(), sql.as_str())).eq(TABLES);
    Ok(if same { Ok(()) } else { Err("its tables are not those of a datastore".to_owned()) })
}

/// Checks the file structure with SQLite: without it, a torn or doubly used page would be found only later.
pub(super) fn quick_check(connection: &Connection, path: &Path) -> Result<(), Error> {
    let checked = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match checked.map_err(|error| damaged_or(path, "check", error))? {
        fine if fine == "ok" => Ok(()),
        problem => Err(Error::Damaged { path: path.to_owned(), reason: problem.replace('\n', " ") }),
    }
}

fn read_state(connection: &Connection) -> rusqlite::Result<Result<State, String>> {
    let sql = "SELECT compacted, floor, time, wall, rows, digest, sum FROM state WHERE one = 1";
    let number = |row: &Row<'_>, column| row.get::<_, i64>(column).map(i64::cast_unsigned);
    connection.query_row(sql, [], |row| {
        let state = State {
            compacted: number(row, 0)?,
            floor: number(row, 1)?,
            time: number(row, 2)?,
            wall: number(row, 3)?,
            rows: number(row, 4)?,
            digest: row.get(5)?,
        };
        let matches = row.get::<_, u32>(6)? == state.sum();
        Ok(if matches { Ok(state) } else { Err("its state does not match its checksum".to_owned()) })
    })
}
