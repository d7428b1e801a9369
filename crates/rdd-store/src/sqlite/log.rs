//! The log in SQLite: writes, reads and maintenance.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use rusqlite::{Connection, ErrorCode, Statement, params};

use super::{copy, layout, place, replay};
use crate::{
    Error, Revision,
    engine::row::{Between, Failure, Log, Row, RowId, State, Write},
    error::Cause,
};

const STATE: &str =
    "REPLACE INTO state(one, compacted, floor, time, wall, rows, digest, sum) VALUES(1, ?, ?, ?, ?, ?, ?, ?)";

/// The size from which maintenance truncates the write-ahead log.
const LOG_BYTES_MAX: u64 = 16 << 20;
/// Maintenance releases free pages if there are more than this and more than a quarter of the file.
const FREE_PAGES_MIN: i64 = 256;
/// How many pages one step of maintenance releases.
const FREE_PAGES_STEP: u32 = 64;

/// The writer's connection with its prepared statements.
pub(super) struct SqliteLog<'c> {
    pub(super) connection: &'c Connection,
    wal: PathBuf,
    /// Whether pages were released since the last checkpoint; only a checkpoint truncates the main file.
    shrunk: bool,
    begin: Statement<'c>,
    commit: Statement<'c>,
    insert: Statement<'c>,
    remove: Statement<'c>,
    state: Statement<'c>,
    read: Statement<'c>,
}

impl<'c> SqliteLog<'c> {
    pub(super) fn new(connection: &'c Connection, wal: PathBuf) -> rusqlite::Result<Self> {
        let columns = replay::COLUMNS;
        Ok(Self {
            connection,
            wal,
            shrunk: false,
            begin: connection.prepare("BEGIN IMMEDIATE")?,
            commit: connection.prepare("COMMIT")?,
            insert: connection.prepare(&format!("INSERT INTO log({columns}) VALUES(?, ?, ?, ?, ?, ?, ?)"))?,
            remove: connection.prepare("DELETE FROM log WHERE id = ?")?,
            state: connection.prepare(STATE)?,
            read: connection.prepare(&format!("SELECT {columns} FROM log WHERE id > ? AND id <= ? ORDER BY id"))?,
        })
    }

    fn try_write(&mut self, write: &Write<'_>) -> rusqlite::Result<()> {
        self.begin.execute([])?;
        for row in write.rows {
            let value = row.value.as_deref();
            self.insert.execute(params![
                row.id.0,
                &*row.key,
                i64::from(value.is_some()),
                row.at.cast_signed(),
                row.expires.map(u64::cast_signed),
                row.sum(),
                value,
            ])?;
        }
        for id in write.remove {
            self.remove.execute([id.0])?;
        }
        put_state(&mut self.state, &write.state)?;
        self.commit.execute([])?;
        Ok(())
    }

    /// Classifies a failed write. SQLite reports a full disk before it commits; after any other error the content of the disk is
    /// unknown.
    fn failure(&self, error: rusqlite::Error) -> Failure {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => {
                Failure::Full { folder: place::folder(&self.wal).to_owned(), cause: Arc::new(error) }
            }
            _ => Failure::Broken(Arc::new(error)),
        }
    }

    fn try_tidy(&mut self) -> rusqlite::Result<bool> {
        let count = |name| self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let (free, all) = (count("freelist_count")?, count("page_count")?);
        if free <= FREE_PAGES_MIN || free <= all / 4 {
            if self.shrunk || place::size(&self.wal) > LOG_BYTES_MAX {
                self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
                self.shrunk = false;
            }
            return Ok(false);
        }
        // The pragma releases one page per row.
        let mut statement = self.connection.prepare(&format!("PRAGMA incremental_vacuum({FREE_PAGES_STEP})"))?;
        let mut freed = statement.query([])?;
        while freed.next()?.is_some() {}
        self.shrunk = true;
        Ok(true)
    }
}

impl Log for SqliteLog<'_> {
    fn write(&mut self, write: &Write<'_>) -> Result<(), Failure> {
        let Err(error) = self.try_write(write) else { return Ok(()) };
        // After some errors SQLite has rolled back already.
        if !self.connection.is_autocommit()
            && let Err(rollback) = self.connection.execute_batch("ROLLBACK")
        {
            return Err(Failure::Broken(Arc::new(rollback)));
        }
        Err(self.failure(error))
    }

    fn read(&mut self, after: RowId, upto: RowId, visit: &mut dyn FnMut(Row) -> ControlFlow<()>) -> Result<(), Cause> {
        let failed = |error: rusqlite::Error| Arc::new(error) as Cause;
        let mut rows = self.read.query([after.0, upto.0]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let stored = replay::decode(row).map_err(|error| Arc::new(error) as Cause)?;
            let row = Row {
                id: stored.id,
                key: stored.key.into(),
                at: stored.at,
                expires: stored.expires,
                value: stored.value.map(Bytes::copy_from_slice),
            };
            if visit(row).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn tidy(&mut self) -> Result<bool, Failure> {
        self.try_tidy().map_err(|error| self.failure(error))
    }

    fn copy(&mut self, target: &Path, between: &mut Between<'_, Self>) -> Result<Revision, Error> {
        let connection = self.connection;
        let copied = copy::copy_serving(connection, target, &mut |wait| between(self, wait));
        copied.map_err(|problem| match problem {
            copy::Problem::Stopped => Error::Closed,
            copy::Problem::Failed(error) => Error::Backup { target: target.to_owned(), source: Arc::new(error) },
        })
    }

    fn seal(&mut self) {
        // If this fails too, closing checkpoints as usual and gets the same error from SQLite.
        let _ = layout::keep_log_on_close(self.connection, true);
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").map_err(|error| self.failure(error))
    }
}

/// Writes the state outside of the writer, for a new or a restored datastore.
pub(super) fn insert_state(connection: &Connection, state: &State) -> rusqlite::Result<()> {
    put_state(&mut connection.prepare(STATE)?, state)
}

fn put_state(statement: &mut Statement<'_>, state: &State) -> rusqlite::Result<()> {
    statement.execute(params![
        state.compacted.cast_signed(),
        state.floor.cast_signed(),
        state.time.cast_signed(),
        state.wall.cast_signed(),
        state.rows.cast_signed(),
        state.digest,
        state.sum(),
    ])?;
    Ok(())
}
