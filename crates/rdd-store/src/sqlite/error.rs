//! The errors of opening, inspecting and restoring a datastore.

use std::path::{Path, PathBuf};

use rdd_stdx::{file, lock};

/// Why a datastore was not opened, inspected or restored. In every case its files are unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process has it open.
    #[error("datastore {} is in use by {}", path.display(), holder.map_or_else(|| "a process that is not visible from here".to_owned(), |pid| format!("process {pid}")))]
    InUse {
        /// The datastore.
        path: PathBuf,
        /// The id of that process, if it is visible.
        holder: Option<u32>,
    },
    /// The linked SQLite has known corruption bugs.
    #[error("SQLite {version} can corrupt a datastore; 3.51.3 or newer is needed")]
    OldSqlite {
        /// The linked version.
        version: String,
    },
    /// The datastore is on a network file system.
    #[error("datastore {} is on a network file system ({kind}), where neither locks nor syncs can be relied on; move it to a local disk", path.display())]
    Network {
        /// The datastore.
        path: PathBuf,
        /// The type of the file system.
        kind: String,
    },
    /// The datastore is damaged.
    #[error("datastore {} is damaged: {reason}; it was left as it is. Restore a backup with `rdd svc restore`, or start afresh with `rdd svc reset`", path.display())]
    Damaged {
        /// The datastore.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A newer version of rdd wrote it.
    #[error("datastore {} has format {found}, newer than format {known} of this version; update rdd, or restore a backup made by this version with `rdd svc restore`", path.display())]
    Newer {
        /// The datastore.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format that this version knows.
        known: u32,
    },
    /// The Go version of rdd wrote it, with kine.
    #[error("datastore {} was written by the Go version of rdd and cannot be read by this one; it was left as it is. Move the file away, or start afresh with `rdd svc reset`; to keep its objects, export them with that version and apply them here", path.display())]
    Kine {
        /// The datastore.
        path: PathBuf,
    },
    /// The file is another database.
    #[error("{} is not an rdd datastore: {reason}; it was left as it is. Move the file away, or restore a backup with `rdd svc restore`", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What the file is.
        reason: String,
    },
    /// A restore or reset was interrupted.
    #[error("a restore or reset of datastore {} was interrupted ({left} is left over); run `rdd svc restore` or `rdd svc reset` again", path.display())]
    Interrupted {
        /// The datastore.
        path: PathBuf,
        /// The name of the leftover file.
        left: String,
    },
    /// The upgrade of an older format failed.
    #[error("upgrade datastore {} from format {from}; it was left as it is", path.display())]
    Upgrade {
        /// The datastore.
        path: PathBuf,
        /// Its format.
        from: u32,
        /// The cause.
        #[source]
        source: rusqlite::Error,
    },
    /// SQLite failed.
    #[error("{action} {}", path.display())]
    Sqlite {
        /// What the program tried to do.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: rusqlite::Error,
    },
    /// An operation of the file system failed.
    #[error("{action} {}", path.display())]
    Io {
        /// What the program tried to do.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A file helper failed.
    #[error(transparent)]
    File(#[from] file::Error),
    /// The lock could not be checked.
    #[error(transparent)]
    Lock(lock::Error),
}

pub(super) fn sqlite_error(action: &'static str, path: &Path) -> impl FnOnce(rusqlite::Error) -> Error {
    move |source| Error::Sqlite { action, path: path.to_owned(), source }
}

pub(super) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Io { action, path: path.to_owned(), source }
}

/// Classifies an SQLite error during verification: it means damage, unless it is about the machine (permissions, memory, I/O).
pub(super) fn damaged_or(path: &Path, action: &'static str, error: rusqlite::Error) -> Error {
    use rusqlite::ErrorCode as Code;
    let short_read = matches!(&error, rusqlite::Error::SqliteFailure(failure, _)
        if failure.extended_code == libsqlite3_sys::SQLITE_IOERR_SHORT_READ);
    let machine = matches!(
        error.sqlite_error_code(),
        Some(
            Code::CannotOpen
                | Code::PermissionDenied
                | Code::ReadOnly
                | Code::SystemIoFailure
                | Code::OutOfMemory
                | Code::DiskFull
                | Code::DatabaseBusy
                | Code::DatabaseLocked
        )
    );
    if machine && !short_read {
        return sqlite_error(action, path)(error);
    }
    Error::Damaged { path: path.to_owned(), reason: rdd_stdx::chain::Chain(&error).to_string() }
}
