//! Copies a datastore while it is in use.

use std::{
    fs, io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::Duration,
};

use rdd_stdx::owned;
use rusqlite::{
    Connection,
    backup::{Backup, StepResult},
};

use super::{Error, header, io_error, place, replay, sqlite_error};
use crate::{Revision, queue::Wait};

/// Pages per step: 256 KiB, which takes a fraction of a millisecond.
const STEP_PAGES: i32 = 64;
/// How long each wait for a request is while the copy is being verified.
const PATIENCE: Duration = Duration::from_millis(2);

/// Why the copy failed.
#[derive(Debug)]
pub(super) enum Problem {
    /// The caller stopped it.
    Stopped,
    /// An error.
    Failed(Error),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// A temporary file, removed on drop.
struct Staged(PathBuf);

impl Drop for Staged {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Copies `source` to a new file and returns the newest revision of the copy, calling `between` between the steps. Commits
/// through `source` during the copy go into it too, so it never restarts.
pub(super) fn copy_serving(
    source: &Connection,
    target: &Path,
    between: &mut dyn FnMut(Wait) -> ControlFlow<()>,
) -> Result<Revision, Problem> {
    refuse_existing(target)?;
    let staged = stage(target)?;
    let mut copy = open_copy(&staged.0)?;
    let backup = Backup::new(source, &mut copy).map_err(sqlite_error("begin copying to", target))?;
    while backup.step(STEP_PAGES).map_err(sqlite_error("copy to", target))? != StepResult::Done {
        if between(Wait::No).is_break() {
            return Err(Problem::Stopped);
        }
    }
    drop(backup);
    copy.close().map_err(|(_, error)| sqlite_error("close", target)(error))?;
    let (revision, stopped) = std::thread::scope(|scope| {
        let verifier = scope.spawn(|| verify(&staged.0));
        let mut stopped = false;
        while !verifier.is_finished() && !stopped {
            stopped = between(Wait::AtMost(PATIENCE)).is_break();
        }
        (verifier.join(), stopped)
    });
    if stopped {
        return Err(Problem::Stopped);
    }
    let revision = revision.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    publish(&staged, target)?;
    Ok(revision)
}

/// Copies everything in one step and replaces an earlier copy.
pub(super) fn copy_whole(source: &Connection, target: &Path) -> Result<(), Error> {
    let staged = stage(target)?;
    let mut copy = open_copy(&staged.0)?;
    let backup = Backup::new(source, &mut copy).map_err(sqlite_error("begin copying to", target))?;
    let step = backup.step(-1).map_err(sqlite_error("copy to", target))?;
    debug_assert_eq!(step, StepResult::Done);
    drop(backup);
    copy.close().map_err(|(_, error)| sqlite_error("close", target)(error))?;
    place::sync(&staged.0)?;
    fs::rename(&staged.0, target).map_err(io_error("create", target))?;
    place::sync_name(target)
}

fn refuse_existing(target: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(target) {
        Ok(_) => Err(io_error("create", target)(io::ErrorKind::AlreadyExists.into())),
        Err(_) => Ok(()),
    }
}

fn stage(target: &Path) -> Result<Staged, Error> {
    // A random name: the target's folder may be writable to others, who could plant a link at a predictable one.
    let staged = place::beside(target, &format!(".{:016x}.partial", owned::random()));
    place::create_new_private(&staged).map_err(io_error("create", &staged))?;
    Ok(Staged(staged))
}

/// Opens the copy without a journal: it has no readers until it is synced and renamed.
fn open_copy(path: &Path) -> Result<Connection, Error> {
    let copy = Connection::open(path).map_err(sqlite_error("create", path))?;
    copy.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF").map_err(sqlite_error("create", path))?;
    Ok(copy)
}

/// Syncs the copy to disk and verifies it.
fn verify(path: &Path) -> Result<Revision, Error> {
    place::sync(path)?;
    header::recognise(path)?;
    let copy = header::open_immutable(path).map_err(sqlite_error("read back", path))?;
    Ok(replay::verify(&copy, path)?.head())
}

/// Links the copy to its final name; fails if the name exists by now.
fn publish(staged: &Staged, target: &Path) -> Result<(), Error> {
    match fs::hard_link(&staged.0, target) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(io_error("create", target)(error)),
        // Some file systems do not support hard links.
        Err(_) => fs::rename(&staged.0, target).map_err(io_error("create", target))?,
    }
    place::sync_name(target)
}

#[cfg(test)]
mod tests {
    use super::{super::place::sync_journal, *};

    fn database(folder: &Path) -> Connection {
        let source = Connection::open(folder.join("source.db")).unwrap();
        source.execute_batch("CREATE TABLE t (v BLOB); INSERT INTO t VALUES (randomblob(100000))").unwrap();
        source
    }

    /// Asserts that the copy's content was synced before its folder, and that the folder then had the copy's name.
    fn assert_durable(folder: &Path, target: &Path) {
        let records = sync_journal::of_folder(folder);
        let size = fs::metadata(target).unwrap().len();
        let content = records.iter().position(|record| record.path != folder && record.bytes == size);
        let name = target.file_name().unwrap().to_string_lossy().into_owned();
        let named = records.iter().position(|record| record.path == folder && record.names.contains(&name));
        assert!(content.is_some() && named.is_some() && content < named, "of {size} bytes: {records:?}");
    }

    // Finding A-11
    #[test]
    fn a_backup_is_acknowledged_after_its_content_and_its_name_are_synced() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("state.db"), folder.path().join("backup.db"));
        let store = crate::sqlite::open(&path, crate::sqlite::Options::default()).unwrap();
        crate::Store::commit(&store, crate::Txn::put("key", crate::Expect::Any, vec![1; 50_000])).wait().unwrap();
        crate::Store::backup(&store, &target).wait().unwrap();
        assert_durable(folder.path(), &target);
    }

    // Finding A-11
    #[test]
    fn a_copy_made_at_once_is_synced_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("copy.db");
        copy_whole(&database(folder.path()), &target).unwrap();
        assert_durable(folder.path(), &target);
    }
}
