//! Restores a backup over a datastore, resets a datastore, and inspects one that is not open.

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use rdd_stdx::file;

use super::{
    Checking, Error, Options, acquire,
    header::{self, Found},
    io_error, layout, log,
    place::{self, Purpose},
    replay, sqlite_error,
};
use crate::{
    Revision,
    engine::{index::Index, row::State},
};

/// The revision from which a replaced store continues: beyond every revision that a client may have seen of the old store, so
/// that its watch gets [`Error::Compacted`](crate::Error::Compacted) and starts over instead of continuing in another history.
///
/// The old store may be damaged or missing, and the same backup may be restored twice, so the revisions in the files are not
/// enough. The wall-clock time in microseconds is: no store commits a million transactions per second over its lifetime. The
/// revisions in the files count too, for the case that the clock was set back.
fn floor_beyond(heads: [u64; 2], options: &Options) -> u64 {
    let microseconds = u64::try_from(options.clock.wall().as_micros()).unwrap_or(u64::MAX).min(REVISION_MAX);
    heads.into_iter().fold(microseconds, |floor, head| floor.max(head + 1))
}

/// The limit for a wrong clock: half of what fits into a row id.
const REVISION_MAX: u64 = 1 << 55;

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The newest revision of the restored datastore.
    pub revision: Revision,
    /// Keys that have a value.
    pub live_keys: u64,
    /// The new path of the datastore that was replaced; its write-ahead log, if it had one, is beside it.
    pub set_aside: Option<PathBuf>,
}

/// The content of a datastore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// Its format.
    pub format: u32,
    /// Its newest revision.
    pub revision: Revision,
    /// Its compaction horizon.
    pub compacted: Revision,
    /// Keys that have a value.
    pub live_keys: u64,
    /// Size of its files.
    pub file_bytes: u64,
}

/// The points in a restore at which tests simulate a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Prepared,
    MainSetAside,
    LogSetAside,
    Done,
}

/// Verifies a datastore that is not open and describes it. The files stay exactly as they are.
///
/// # Errors
/// [`Error::InUse`] if a process has it open, and the errors of [`open`](super::open).
pub fn inspect(path: &Path, options: &Options) -> Result<Inspection, Error> {
    if let Found::Nothing = header::recognise(path)? {
        return Err(io_error("open", path)(std::io::ErrorKind::NotFound.into()));
    }
    let _lock = acquire(path)?;
    let (format, index) = examine(path, options)?;
    Ok(Inspection {
        format,
        revision: index.head(),
        compacted: index.compacted(),
        live_keys: index.live.len() as u64,
        file_bytes: place::size(path) + place::size(&place::beside(path, "-wal")),
    })
}

/// Replaces the datastore at `path`, which must not be open, with the backup.
///
/// # Flow
/// Verify a copy of the backup; set the old datastore aside as `<path>.before-restore-<time>`; rename the copy to `path`. The
/// backup stays unchanged.
///
/// # Guarantees
/// - Revisions jump ahead and there is no history, so every client starts over.
/// - A crash at any point leaves the old datastore, the new one, or a state that [`open`](super::open) refuses with the advice to
///   restore again.
pub fn restore(backup: &Path, path: &Path, options: &Options) -> Result<Restored, Error> {
    restore_until(backup, path, options, &mut |_| ControlFlow::Continue(()))
}

fn restore_until(
    backup: &Path,
    path: &Path,
    options: &Options,
    reached: &mut dyn FnMut(Moment) -> ControlFlow<()>,
) -> Result<Restored, Error> {
    if let Found::Nothing = header::recognise(backup)? {
        return Err(io_error("open", backup)(std::io::ErrorKind::NotFound.into()));
    }
    place::prepare_folder(path, options.allow_network)?;
    place::check_owner(path)?;
    let _lock = acquire(path)?;
    let present = examine(path, options).map_or(0, |(_, index)| index.head);
    let staged = place::stage(path, Purpose::Replace)?;
    let (revision, live_keys) = prepare(backup, &staged, present, options)?;
    let set_aside = set_aside_name(path, options);
    let mut restored = Restored { revision, live_keys, set_aside: None };
    let (main, wal) = (path.exists(), place::beside(path, "-wal"));
    if reached(Moment::Prepared).is_break() {
        return Ok(restored);
    }
    if main {
        fs::rename(path, &set_aside).map_err(io_error("set aside", path))?;
        restored.set_aside = Some(set_aside.clone());
        // Sync before the log is moved: after a crash, a main file without its log would open and lack the log's transactions.
        file::sync_dir(place::folder(path))?;
    }
    if reached(Moment::MainSetAside).is_break() {
        return Ok(restored);
    }
    if wal.exists() {
        let owner = if main { set_aside } else { orphaned(path).unwrap_or(set_aside) };
        fs::rename(&wal, place::beside(&owner, "-wal")).map_err(io_error("set aside", &wal))?;
    }
    file::remove_if_present(&place::beside(path, "-shm"))?;
    file::sync_dir(place::folder(path))?;
    if reached(Moment::LogSetAside).is_break() {
        return Ok(restored);
    }
    fs::rename(&staged, path).map_err(io_error("put in place", path))?;
    file::sync_dir(place::folder(path))?;
    let _ = reached(Moment::Done);
    Ok(restored)
}

/// Copies the backup and its log to the staging path, verifies the copy and makes its revisions jump ahead.
fn prepare(backup: &Path, staged: &Path, present: u64, options: &Options) -> Result<(Revision, u64), Error> {
    for suffix in ["", "-wal"] {
        let (from, to) = (place::beside(backup, suffix), place::beside(staged, suffix));
        if from.exists() {
            place::create_new_private(&to).map_err(io_error("create", &to))?;
            let mut source = fs::File::open(&from).map_err(io_error("read", &from))?;
            let mut target = fs::OpenOptions::new().write(true).open(&to).map_err(io_error("write", &to))?;
            std::io::copy(&mut source, &mut target).map_err(io_error("copy to", &to))?;
        }
    }
    let leapt = leap(staged, present, options).map_err(|error| about(error, backup));
    if leapt.is_err() {
        for suffix in ["", "-wal"] {
            file::remove_if_present(&place::beside(staged, suffix))?;
        }
    }
    leapt
}

fn leap(staged: &Path, present: u64, options: &Options) -> Result<(Revision, u64), Error> {
    header::recognise(staged)?;
    let checking = Checking::begin(staged, options)?;
    layout::check_version(staged, layout::version(&checking.connection, staged)?, layout::STEPS)?;
    layout::upgrade(&checking.connection, staged, layout::STEPS)?;
    let index = replay::verify(&checking.connection, staged)?;
    let connection = checking.accept()?;
    let floor = floor_beyond([index.head, present], options);
    let failed = || sqlite_error("prepare", staged);
    log::insert_state(&connection, &State { floor, compacted: floor, ..index.state }).map_err(failed())?;
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").map_err(failed())?;
    connection.close().map_err(|(_, error)| failed()(error))?;
    place::sync(staged)?;
    file::remove_if_present(&place::beside(staged, "-wal"))?;
    Ok((Revision(floor), index.live.len() as u64))
}

/// Replaces the datastore at `path`, which must not be open, with an empty one. Returns the new revision.
///
/// Revisions jump ahead, as after a restore. The old files are removed, whatever wrote them and whatever their state. A crash at
/// any point leaves the old datastore, the new one, or a state that [`open`](super::open) refuses with the advice to reset again.
pub fn reset(path: &Path, options: &Options) -> Result<Revision, Error> {
    place::prepare_folder(path, options.allow_network)?;
    let _lock = acquire(path)?;
    let present = examine(path, options).map_or(0, |(_, index)| index.head);
    let staged = place::stage(path, Purpose::Replace)?;
    layout::create_staged(&staged, layout::STEPS)?;
    let (revision, _) = leap(&staged, present, options)?;
    for left in [path.to_owned(), place::beside(path, "-wal"), place::beside(path, "-shm")] {
        file::remove_if_present(&left)?;
        // Sync after each removal: after a crash, a main file without its log would open and lack the log's transactions.
        file::sync_dir(place::folder(path))?;
    }
    fs::rename(&staged, path).map_err(io_error("put in place", path))?;
    file::sync_dir(place::folder(path))?;
    Ok(revision)
}

/// Makes errors about the copy name the backup.
fn about(error: Error, backup: &Path) -> Error {
    match error {
        Error::Damaged { reason, .. } => Error::Damaged { path: backup.to_owned(), reason },
        Error::Newer { found, known, .. } => Error::Newer { path: backup.to_owned(), found, known },
        other => other,
    }
}

/// Verifies a datastore without changing its files; returns its format and index.
fn examine(path: &Path, options: &Options) -> Result<(u32, Index), Error> {
    header::recognise(path)?;
    let checking = Checking::begin(path, options)?;
    let version = layout::version(&checking.connection, path)?;
    layout::check_version(path, version, layout::STEPS)?;
    Ok((version, replay::verify(&checking.connection, path)?))
}

/// The main file that an interrupted restore set aside without its log.
fn orphaned(path: &Path) -> Option<PathBuf> {
    let prefix = place::beside(path, ".before-restore-").file_name()?.to_string_lossy().into_owned();
    let names = fs::read_dir(place::folder(path)).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let newest = names.filter(|name| name.starts_with(&prefix) && !name.ends_with("-wal")).max()?;
    let newest = place::folder(path).join(newest);
    (!place::beside(&newest, "-wal").exists()).then_some(newest)
}

/// An unused file name with the time in it.
fn set_aside_name(path: &Path, options: &Options) -> PathBuf {
    let name = place::beside(path, &format!(".before-restore-{}", utc(options.clock.wall().as_secs())));
    let numbered = (2..).map(|number| place::beside(&name, &format!(".{number}")));
    std::iter::once(name.clone()).chain(numbered).find(|name| !name.exists()).unwrap_or(name)
}

/// Formats a time as in `20260314T150926Z`.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Counted from 1 March of year 0, so that leap days come last; that is 719468 days before 1970.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", second / 3_600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Expect, Store, Txn, sqlite::open};

    fn filled(path: &Path, key: &str) {
        let store = open(path, Options::default()).unwrap();
        store.commit(Txn::put(key, Expect::Any, "value")).wait().unwrap();
    }

    /// Like [`filled`], with a log beside the main file, as after a crash.
    fn crashed(path: &Path, key: &str) {
        let dir = tempfile::tempdir().unwrap();
        let living = dir.path().join("state.db");
        let store = open(&living, Options::default()).unwrap();
        store.commit(Txn::put(key, Expect::Any, "value")).wait().unwrap();
        for suffix in ["", "-wal"] {
            fs::copy(place::beside(&living, suffix), place::beside(path, suffix)).unwrap();
        }
    }

    fn keys(path: &Path) -> Vec<String> {
        let store = open(path, Options::default()).unwrap();
        let mut load = store.load().wait().unwrap();
        let mut events = store.events(load.revision()).wait().unwrap();
        let mut keys: Vec<_> = load.next_blocking().unwrap().iter().map(|entry| entry.key.to_string()).collect();
        drop(load);
        let head = store.progress().wait().unwrap();
        while let Ok(batch) = events.next_blocking() {
            keys.extend(batch.events.iter().map(|event| event.key.to_string()));
            if batch.revision >= head && batch.events.is_empty() {
                break;
            }
        }
        keys
    }

    #[test]
    fn utc_knows_leap_days() {
        assert_eq!(utc(0), "19700101T000000Z");
        assert_eq!(utc(951_782_400), "20000229T000000Z");
        assert_eq!(utc(1_773_500_966), "20260314T150926Z");
    }

    fn put(path: &Path, key: &str) -> Revision {
        open(path, Options::default()).unwrap().commit(Txn::put(key, Expect::Any, "value")).wait().unwrap()
    }

    #[test]
    fn a_revision_is_not_used_twice_when_the_same_backup_is_restored_over_damage_or_after_a_reset() {
        let dir = tempfile::tempdir().unwrap();
        let (path, backup) = (dir.path().join("state.db"), dir.path().join("backup.db"));
        filled(&backup, "key");
        let mut newest = Revision(0);
        let mut check = |what: &str, revision: Revision| {
            assert!(revision > newest, "{what}: {revision} after {newest}");
            newest = put(&path, what);
        };
        check("restored", restore(&backup, &path, &Options::default()).unwrap().revision);
        fs::write(&path, "damage").unwrap();
        check("restored over damage", restore(&backup, &path, &Options::default()).unwrap().revision);
        check("reset", reset(&path, &Options::default()).unwrap());
        fs::write(&path, "damage").unwrap();
        check("reset over damage", reset(&path, &Options::default()).unwrap());
        fs::remove_file(&path).unwrap();
        check("restored over nothing", restore(&backup, &path, &Options::default()).unwrap().revision);
        assert!(newest.0 < REVISION_MAX);
    }

    #[test]
    fn a_reset_store_is_empty_and_serves() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        crashed(&path, "old");
        let revision = reset(&path, &Options::default()).unwrap();
        assert_eq!(keys(&path), [] as [&str; 0]);
        assert_eq!(put(&path, "new"), Revision(revision.0 + 1));
        assert_eq!(keys(&path), ["new"]);
    }

    // Finding A-1
    #[test]
    fn what_is_planted_beside_a_datastore_is_not_followed_and_leftovers_of_attempts_are_removed() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let (path, backup, victim) =
            (dir.path().join("state.db"), dir.path().join("backup"), dir.path().join("victim"));
        fs::write(&victim, "victim").unwrap();
        let planted = [".new", ".restoring"].map(|ending| place::beside(&path, ending));
        planted.iter().for_each(|link| symlink(&victim, link).unwrap());
        let leave = |name: &str| {
            let left = ["", "-wal", "-journal"].map(|ending| dir.path().join(format!(".state.db.{name}.tmp{ending}")));
            left.iter().for_each(|link| symlink(&victim, link).unwrap());
            left
        };
        let left = leave("new.0123456789abcdef");
        filled(&path, "first");
        assert!(left.iter().all(|left| left.symlink_metadata().is_err()), "removed before a datastore is made");
        filled(&backup, "second");
        for replace in ["restore", "reset"] {
            let left = leave("restoring.0123456789abcdef");
            match replace {
                "restore" => drop(restore(&backup, &path, &Options::default()).unwrap()),
                _ => drop(reset(&path, &Options::default()).unwrap()),
            }
            assert!(left.iter().all(|left| left.symlink_metadata().is_err()), "{replace}");
        }
        put(&path, "third");
        assert_eq!(keys(&path), ["third"]);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "victim");
        assert!(planted.iter().all(|link| fs::read_link(link).unwrap() == victim));
    }

    #[test]
    fn a_crash_at_any_moment_leaves_the_old_the_new_or_the_advice_to_restore_again() {
        for last in [Moment::Prepared, Moment::MainSetAside, Moment::LogSetAside, Moment::Done] {
            let dir = tempfile::tempdir().unwrap();
            let (path, backup) = (dir.path().join("state.db"), dir.path().join("backup.db"));
            crashed(&path, "old");
            filled(&backup, "new");
            let stop = &mut |moment| if moment == last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            restore_until(&backup, &path, &Options::default(), stop).unwrap();
            match last {
                Moment::Prepared => assert_eq!(keys(&path), ["old"]),
                Moment::Done => assert_eq!(keys(&path), ["new"]),
                Moment::MainSetAside | Moment::LogSetAside => {
                    let error = open(&path, Options::default()).unwrap_err();
                    assert!(matches!(error, Error::Interrupted { .. }), "{last:?}: {error}");
                }
            }
            let restored = restore(&backup, &path, &Options::default()).unwrap();
            assert!(restored.revision.0 > 1_000_000_000);
            assert_eq!(keys(&path), ["new"], "{last:?}");
            if last == Moment::MainSetAside {
                let names =
                    fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
                let aside: Vec<_> = names.filter(|name| name.contains("before-restore")).collect();
                assert_eq!(aside.len(), 2, "the log went where its main file is: {aside:?}");
            }
        }
    }
}
