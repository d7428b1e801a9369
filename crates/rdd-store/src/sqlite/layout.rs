//! The format of a datastore: tables, connection settings, and the upgrades between formats.

use std::{fs, path::Path};

use rdd_stdx::file;
use rusqlite::{Connection, config::DbConfig};

use super::{
    Error, copy, damaged_or,
    header::APPLICATION_ID,
    io_error,
    place::{self, Purpose},
    sqlite_error,
};

/// Upgrades a datastore from one format to the next, inside a transaction.
pub(super) type Step = fn(&Connection) -> rusqlite::Result<()>;

/// The upgrades: step n upgrades format n to format n + 1.
pub(super) const STEPS: &[Step] = &[create_tables];

/// The tables with their SQL definitions, exactly as SQLite stores them. [`replay`](super::replay) refuses a file whose
/// definitions differ.
pub(super) const TABLES: [(&str, &str); 2] = [
    (
        "log",
        "CREATE TABLE log(id INTEGER PRIMARY KEY, key TEXT NOT NULL, op INTEGER NOT NULL, at INTEGER NOT NULL, \
         expires INTEGER, sum INTEGER NOT NULL, val BLOB)",
    ),
    (
        "state",
        "CREATE TABLE state(one INTEGER PRIMARY KEY, compacted INTEGER NOT NULL, floor INTEGER NOT NULL, \
         time INTEGER NOT NULL, wall INTEGER NOT NULL, rows INTEGER NOT NULL, digest INTEGER NOT NULL, \
         sum INTEGER NOT NULL)",
    ),
];

fn create_tables(connection: &Connection) -> rusqlite::Result<()> {
    for (_, sql) in TABLES {
        connection.execute_batch(sql)?;
    }
    super::log::insert_state(connection, &crate::engine::row::State::default())
}

/// Configures a connection. No setting writes to the file.
pub(super) fn configure(connection: &Connection, synchronous_off: bool) -> rusqlite::Result<()> {
    connection.execute_batch(
        "PRAGMA locking_mode = EXCLUSIVE;
         PRAGMA page_size = 4096;
         PRAGMA fullfsync = ON;
         PRAGMA checkpoint_fullfsync = ON;
         PRAGMA cache_size = -512;
         PRAGMA mmap_size = 0;
         PRAGMA temp_store = MEMORY;
         PRAGMA journal_size_limit = 16777216;
         PRAGMA wal_autocheckpoint = 1000;
         PRAGMA trusted_schema = OFF;",
    )?;
    connection.execute_batch(if synchronous_off { "PRAGMA synchronous = OFF" } else { "PRAGMA synchronous = FULL" })
}

/// Sets whether closing the connection keeps the write-ahead log and leaves the main file unchanged.
pub(super) fn keep_log_on_close(connection: &Connection, keep: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep).map(|_| ())
}

/// Creates a datastore. It is completed under a staging name first, so an incomplete file never has the real name.
pub(super) fn create(path: &Path, steps: &[Step]) -> Result<(), Error> {
    let staged = place::stage(path, Purpose::Create)?;
    create_staged(&staged, steps)?;
    fs::rename(&staged, path).map_err(io_error("create", path))?;
    Ok(file::sync_dir(place::folder(path))?)
}

/// Creates a datastore at a path that does not exist.
pub(super) fn create_staged(staged: &Path, steps: &[Step]) -> Result<(), Error> {
    place::create_new_private(staged).map_err(io_error("create", staged))?;
    let connection = Connection::open(staged).map_err(sqlite_error("create", staged))?;
    // Without syncing each write: the complete file is synced once at the end.
    let made = configure(&connection, true).and_then(|()| build(&connection, steps));
    made.map_err(sqlite_error("create", staged))?;
    connection.close().map_err(|(_, error)| sqlite_error("create", staged)(error))?;
    place::sync(staged)
}

fn build(connection: &Connection, steps: &[Step]) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; BEGIN IMMEDIATE")?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    run_steps(connection, 0, steps)?;
    connection.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)")
}

/// Like [`create`], but without a staging name: for a VFS without real files.
pub(super) fn create_in_place(connection: &Connection, path: &Path) -> Result<(), Error> {
    if version(connection, path)? == 0 {
        build(connection, STEPS).map_err(sqlite_error("create", path))?;
    }
    Ok(())
}

/// The format as the connection reads it, including what only the log holds.
pub(super) fn version(connection: &Connection, path: &Path) -> Result<u32, Error> {
    let read = connection.pragma_query_value(None, "user_version", |row| row.get(0));
    read.map_err(|error| damaged_or(path, "read", error))
}

pub(super) fn check_version(path: &Path, found: u32, steps: &[Step]) -> Result<(), Error> {
    let known = steps.len() as u32;
    match found {
        0 => Err(Error::Damaged { path: path.to_owned(), reason: "its format is missing".to_owned() }),
        _ if found > known => Err(Error::Newer { path: path.to_owned(), found, known }),
        _ => Ok(()),
    }
}

/// Upgrades an older datastore, after copying it to `<path>.v<format>-backup`. If a step fails, the datastore stays unchanged.
pub(super) fn upgrade(connection: &Connection, path: &Path, steps: &[Step]) -> Result<(), Error> {
    let from = version(connection, path)?;
    if from as usize >= steps.len() {
        return Ok(());
    }
    super::replay::quick_check(connection, path)?;
    copy::copy_whole(connection, &place::beside(path, &format!(".v{from}-backup")))?;
    let upgraded = connection
        .execute_batch("BEGIN IMMEDIATE")
        .and_then(|()| run_steps(connection, from, steps))
        .and_then(|()| connection.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)"));
    upgraded.map_err(|source| {
        // The connection is dropped next, which rolls back as well.
        let _ = connection.execute_batch("ROLLBACK");
        Error::Upgrade { path: path.to_owned(), from, source }
    })
}

fn run_steps(connection: &Connection, from: u32, steps: &[Step]) -> rusqlite::Result<()> {
    for step in &steps[from as usize..] {
        step(connection)?;
    }
    connection.pragma_update(None, "user_version", steps.len() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Revision,
        sqlite::{Options, header, open_locked, replay},
    };

    const TWO_STEPS: &[Step] = &[create_tables, |connection| connection.execute_batch("UPDATE state SET one = one")];
    const BROKEN_STEP: &[Step] =
        &[create_tables, |connection| connection.execute_batch("DROP TABLE log; SELECT no_such_function()")];

    fn upgrade_with(path: &Path, steps: &[Step]) -> Result<Revision, Error> {
        open_locked(path, &Options::default(), steps).map(|(_, index)| index.head())
    }

    #[test]
    fn an_older_datastore_is_backed_up_and_upgraded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        create(&path, STEPS).unwrap();
        assert_eq!(upgrade_with(&path, TWO_STEPS).unwrap(), Revision(0));
        assert_eq!(header::recognise(&path).unwrap(), header::Found::Ours { version: 2 });
        let backup = place::beside(&path, ".v1-backup");
        assert_eq!(header::recognise(&backup).unwrap(), header::Found::Ours { version: 1 });
        replay::verify(&header::open_immutable(&backup).unwrap(), &backup).unwrap();
        let error = upgrade_with(&path, STEPS).unwrap_err().to_string();
        assert!(error.contains("has format 2, newer than format 1"), "{error}");
    }

    #[test]
    fn a_step_that_fails_leaves_the_datastore_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        create(&path, STEPS).unwrap();
        let before = fs::read(&path).unwrap();
        assert!(matches!(upgrade_with(&path, BROKEN_STEP), Err(Error::Upgrade { from: 1, .. })));
        assert_eq!(fs::read(&path).unwrap(), before);
        assert_eq!(upgrade_with(&path, STEPS).unwrap(), Revision(0));
    }
}
