//! The persistent store: an append-only log in one SQLite file, with its index in memory.

mod copy;
mod error;
mod header;
mod layout;
mod log;
mod place;
mod replay;
mod restore;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rdd_stdx::{
    clock::{SharedClock, SystemClock},
    lock::{self, ProcessLock},
};
use rusqlite::{Connection, OpenFlags};

pub use self::error::Error;
use self::error::{damaged_or, io_error, sqlite_error};
pub use self::restore::{Inspection, Restored, inspect, reset, restore};
use self::{header::Found, log::SqliteLog};
use crate::{
    Limits,
    engine::{Core, Handle, Shared, delegate_store, index::Index},
};

/// Older versions can corrupt the write-ahead log (sqlite.org/wal.html).
const OLDEST_SQLITE: i32 = 3_051_003;

/// Options for opening a datastore.
#[derive(Clone)]
pub struct Options {
    /// The clock; tests use a manual one.
    pub clock: SharedClock,
    /// The limits of the store.
    pub limits: Limits,
    /// Allow a network file system, where locks and fsync may be unreliable.
    pub allow_network: bool,
    /// Options for the store's own tests.
    #[doc(hidden)]
    pub testing: Testing,
}

/// Options for the store's own tests.
#[doc(hidden)]
#[derive(Debug, Clone, Default)]
pub struct Testing {
    /// The SQLite VFS to use. With one, there is no lock and no folder, and a new file is created in place.
    pub vfs: Option<String>,
    /// Never sync to disk: acknowledged transactions may be lost.
    pub synchronous_off: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: SystemClock::shared(),
            limits: Limits::default(),
            allow_network: false,
            testing: Testing::default(),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("limits", &self.limits).field("allow_network", &self.allow_network).finish()
    }
}

/// A store in a SQLite file. [`open`] creates it.
#[derive(Debug)]
pub struct SqliteStore(Handle);

/// Opens the datastore at `path`, or creates one if there is none.
///
/// # Guarantees
/// - The folder is private (0700) and so are the files (0600), whatever the umask.
/// - A lock file beside the datastore excludes other processes for as long as the store is open.
/// - Every row is read and verified before the store serves requests.
///
/// # Errors
/// A datastore that is damaged, newer, in use or not ours is refused, and its files stay exactly as they are. See [`Error`] for
/// the remedies.
pub fn open(path: &Path, options: Options) -> Result<SqliteStore, Error> {
    check_sqlite(rusqlite::version_number(), rusqlite::version())?;
    if options.testing.vfs.is_some() {
        let connection = connect(path, &options, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        layout::create_in_place(&connection, path)?;
        let index = replay::verify(&connection, path)?;
        layout::keep_log_on_close(&connection, false).map_err(sqlite_error("open", path))?;
        return start(path, options, connection, index, None);
    }
    place::prepare_folder(path, options.allow_network)?;
    place::check_owner(path)?;
    let lock = acquire(path)?;
    let (connection, index) = open_locked(path, &options, layout::STEPS)?;
    start(path, options, connection, index, Some(lock))
}

/// Opens and verifies the datastore; the caller holds the lock.
fn open_locked(path: &Path, options: &Options, steps: &[layout::Step]) -> Result<(Connection, Index), Error> {
    let version = match header::recognise(path)? {
        Found::Nothing => {
            place::check_not_interrupted(path)?;
            layout::create(path, steps)?;
            steps.len() as u32
        }
        Found::Ours { version } => version,
    };
    layout::check_version(path, version, steps)?;
    let checking = Checking::begin(path, options)?;
    // Again through SQLite: the write-ahead log may hold a newer format than the main file.
    layout::check_version(path, layout::version(&checking.connection, path)?, steps)?;
    layout::upgrade(&checking.connection, path, steps)?;
    let index = replay::verify(&checking.connection, path)?;
    let connection = checking.accept()?;
    place::make_private(path)?;
    Ok((connection, index))
}

/// A connection that has only read so far. Dropped, it leaves the files as they were.
struct Checking {
    connection: Connection,
    trace: Option<Trace>,
}

/// The path of an empty write-ahead log that SQLite creates even if nothing is written.
struct Trace(PathBuf);

impl Checking {
    fn begin(path: &Path, options: &Options) -> Result<Self, Error> {
        let wal = place::beside(path, "-wal");
        let trace = (!wal.exists()).then_some(Trace(wal));
        let connection = connect(path, options, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        Ok(Self { connection, trace })
    }

    /// Accepts the datastore: from now on the connection may write, and closing it checkpoints the log.
    fn accept(mut self) -> Result<Connection, Error> {
        if let Some(trace) = self.trace.take() {
            std::mem::forget(trace);
        }
        let path = self.connection.path().map(PathBuf::from).unwrap_or_default();
        layout::keep_log_on_close(&self.connection, false).map_err(sqlite_error("open", &path))?;
        Ok(self.connection)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // Fields drop in declaration order: the connection is already closed.
        if std::fs::metadata(&self.0).is_ok_and(|meta| meta.len() == 0) {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

/// Opens a connection that does not checkpoint the write-ahead log when it is closed.
fn connect(path: &Path, options: &Options, flags: OpenFlags) -> Result<Connection, Error> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = match &options.testing.vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs.as_str()),
        None => Connection::open_with_flags(path, flags),
    };
    let connection = opened.map_err(sqlite_error("open", path))?;
    // First: if the next line finds damage, closing the connection must not copy the log into the main file.
    layout::keep_log_on_close(&connection, true).map_err(sqlite_error("open", path))?;
    layout::configure(&connection, options.testing.synchronous_off).map_err(|error| damaged_or(path, "open", error))?;
    Ok(connection)
}

fn start(
    path: &Path,
    options: Options,
    connection: Connection,
    index: Index,
    lock: Option<ProcessLock>,
) -> Result<SqliteStore, Error> {
    let shared = Shared::new(&options.limits, &index);
    let core = Core::new(options.limits, options.clock, index, Arc::clone(&shared));
    let (main, wal) = (path.to_owned(), place::beside(path, "-wal"));
    let sizes = {
        let (main, wal) = (main.clone(), wal.clone());
        move || place::size(&main) + place::size(&wal)
    };
    let started = Handle::start(shared, sizes, move || {
        let lock = lock;
        let waiting = match SqliteLog::new(&connection, wal) {
            Ok(mut log) => core.run(&mut log),
            Err(error) => {
                tracing::error!(path = %main.display(), error = %rdd_stdx::chain::Chain(&error), "the store cannot start");
                Vec::new()
            }
        };
        if let Err((_, error)) = connection.close() {
            tracing::warn!(path = %main.display(), error = %rdd_stdx::chain::Chain(&error), "closing the store failed");
        }
        // After the connection is closed: until then, no other process may open the files.
        drop(lock);
        waiting
    });
    started.map(SqliteStore).map_err(|source| Error::Io {
        action: "start the writer of",
        path: path.to_owned(),
        source,
    })
}

fn acquire(path: &Path) -> Result<ProcessLock, Error> {
    let lock = place::beside(path, ".lock");
    place::create_private(&lock)?;
    ProcessLock::acquire(&lock).map_err(|error| match error {
        lock::Error::Held { holder, .. } => Error::InUse { path: path.to_owned(), holder },
        other => Error::Lock(other),
    })
}

fn check_sqlite(number: i32, version: &str) -> Result<(), Error> {
    if number < OLDEST_SQLITE { Err(Error::OldSqlite { version: version.to_owned() }) } else { Ok(()) }
}

delegate_store!(SqliteStore);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_can_corrupt_the_log_is_refused() {
        assert!(check_sqlite(3_051_003, "3.51.3").is_ok());
        assert!(check_sqlite(3_051_002, "3.51.2").unwrap_err().to_string().contains("3.51.2"));
        check_sqlite(rusqlite::version_number(), rusqlite::version()).unwrap();
    }
}
