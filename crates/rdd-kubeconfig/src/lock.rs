//! The lock file that kubectl uses for a kubeconfig, with an additional kernel lock.
//!
//! kubectl creates `<file>.lock` and fails immediately when the file exists, so the lock is held as briefly as
//! possible. If its creator is killed, the file stays and blocks every kubectl. Therefore an old lock file that does
//! not change is removed. Our lock files also contain a marker and hold a kernel lock, which shows immediately whether
//! their creator is gone.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rdd_stdx::{clock::SharedClock, file::PRIVATE};
use rustix::fs::OFlags;

use crate::file::Error;

/// How long to wait for locks, and the clock for the age of lock files.
#[derive(Debug, Clone)]
pub(crate) struct Patience {
    pub(crate) clock: SharedClock,
    pub(crate) wait: Duration,
}

/// A lock file that is older than this and did not change while we waited was left by a killed program.
const STALE: Duration = Duration::from_secs(30);
/// The first pause between attempts; the pauses double up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(5);

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    /// The lock files with their handles. On drop a file is removed before its handle is closed.
    made: Vec<(PathBuf, File)>,
    /// A kernel lock on the folder, which excludes other daemons and ends with the process. `None` if the file system
    /// has no locks.
    _folder: Option<File>,
}

/// The lock file of a path. kubectl names it after the path as given, without resolving links.
fn name_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// Whether a lock file exists for one of these paths.
pub(crate) fn is_held(paths: [&Path; 2]) -> bool {
    paths.iter().any(|path| fs::symlink_metadata(name_of(path)).is_ok())
}

impl Lock {
    /// Locks a file under the path that the user has for it and under its resolved path.
    ///
    /// # Errors
    /// [`Error::Locked`] when another program holds a lock beyond the timeout, [`Error::Lock`] when a lock file cannot
    /// be created.
    pub(crate) fn acquire(paths: [&Path; 2], patience: &Patience) -> Result<Self, Error> {
        let deadline = Instant::now() + patience.wait;
        let folder = lock_folder(paths[1], deadline)?;
        let mut lock = Self { made: Vec::new(), _folder: folder };
        // All writers use the same order, so that they cannot deadlock; kubectl sorts its files too.
        for name in paths.map(name_of).into_iter().collect::<BTreeSet<_>>() {
            let file = make(&name, deadline, patience)?;
            lock.made.push((name, file));
        }
        Ok(lock)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        for (name, _) in &self.made {
            if let Err(error) = fs::remove_file(name) {
                tracing::warn!(path = %name.display(), %error, "The lock of a kubeconfig could not be removed");
            }
        }
    }
}

fn lock_folder(target: &Path, deadline: Instant) -> Result<Option<File>, Error> {
    let folder = target.parent().unwrap_or(Path::new("/"));
    let Ok(file) = File::open(folder) else { return Ok(None) };
    let mut pause = PAUSE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => sleep(&mut pause),
            Err(TryLockError::WouldBlock) => return Err(Error::Locked { path: folder.to_owned() }),
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
}

fn sleep(pause: &mut Duration) {
    std::thread::sleep(*pause);
    *pause = (*pause * 2).min(PAUSE_MAX);
}

/// The content of our lock files.
const OURS: &[u8] = b"rdd\n";

fn make(name: &Path, deadline: Instant, patience: &Patience) -> Result<File, Error> {
    let failed = |source| Error::Lock { path: name.to_owned(), source };
    let (draft, file) = draft(name).map_err(failed)?;
    let made = link(&draft, name, deadline, patience);
    // The draft either has its real name now or is not needed any more.
    fs::remove_file(&draft).map_err(failed)?;
    made.map(|()| file)
}

/// Creates a lock file under a temporary name. It must have its marker and its kernel lock before it appears as the
/// lock.
fn draft(name: &Path) -> io::Result<(PathBuf, File)> {
    let draft = crate::file::staging_path(name);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(&draft)?;
    // Without kernel locks the file gets no marker, so that no process mistakes it for an abandoned lock.
    let drafted = if file.try_lock().is_ok() { file.write_all(OURS) } else { Ok(()) };
    if let Err(error) = drafted {
        let _ = fs::remove_file(&draft);
        return Err(error);
    }
    Ok((draft, file))
}

/// Links a draft to the name of the lock, which only one process can do.
fn link(draft: &Path, name: &Path, deadline: Instant, patience: &Patience) -> Result<(), Error> {
    let failed = |source| Error::Lock { path: name.to_owned(), source };
    let mut first_seen = None;
    let mut pause = PAUSE;
    loop {
        // On file systems without hard links the lock file is created like kubectl's.
        let linked = match fs::hard_link(draft, name) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                OpenOptions::new().write(true).create_new(true).mode(0o000).open(name).map(drop)
            }
            other => other,
        };
        match linked {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(failed(source)),
        }
        if clear_abandoned(name) {
            continue;
        }
        let seen = identity(name);
        let since = match first_seen {
            Some((identity, since)) if Some(identity) == seen => since,
            _ => Instant::now(),
        };
        first_seen = seen.map(|identity| (identity, since));
        if Instant::now() < deadline {
            sleep(&mut pause);
        } else if seen.is_some_and(|seen| since + patience.wait / 2 < deadline && is_stale(&seen, &patience.clock)) {
            remove_stale(name, seen)?;
        } else {
            return Err(Error::Locked { path: name.to_owned() });
        }
    }
}

/// Removes our lock files whose creators are gone.
pub(crate) fn clear(paths: [&Path; 2]) {
    for name in paths.map(name_of) {
        clear_abandoned(&name);
    }
}

/// Removes one of our lock files if its creator is gone. Returns whether it removed one.
fn clear_abandoned(name: &Path) -> bool {
    // Opening a pipe would block without this flag.
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let Ok(mut file) = OpenOptions::new().read(true).custom_flags(flags).open(name) else { return false };
    let mut word = Vec::new();
    let is_ours = (&mut file).take(16).read_to_end(&mut word).is_ok() && word == OURS;
    if !is_ours || file.try_lock().is_err() {
        return false;
    }
    // A process that replaces this lock file must get its kernel lock first, so the name cannot change from here on.
    let is_in_place = file.metadata().is_ok_and(|meta| identity(name) == Some((meta.dev(), meta.ino(), meta.mtime())));
    is_in_place && fs::remove_file(name).is_ok()
}

/// Device, inode and modification time in seconds: identifies a lock file.
type Identity = (u64, u64, i64);

fn identity(name: &Path) -> Option<Identity> {
    fs::symlink_metadata(name).ok().map(|meta| (meta.dev(), meta.ino(), meta.mtime()))
}

fn is_stale(seen: &Identity, clock: &SharedClock) -> bool {
    let made = Duration::from_secs(u64::try_from(seen.2).unwrap_or_default());
    clock.wall().checked_sub(made).is_some_and(|age| age > STALE)
}

/// Moves a stale lock file aside and checks it again. If it is another file by now, a program has just created it, and
/// it is put back.
fn remove_stale(name: &Path, seen: Option<Identity>) -> Result<(), Error> {
    let failed = |source| Error::Lock { path: name.to_owned(), source };
    let mut aside = name.as_os_str().to_owned();
    aside.push(format!(".{}", std::process::id()));
    let aside = PathBuf::from(aside);
    match fs::rename(name, &aside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result.map_err(failed)?,
    }
    let is_it = identity(&aside) == seen;
    if !is_it {
        // If a newer lock file exists already, that one is valid.
        let _ = fs::hard_link(&aside, name);
    }
    fs::remove_file(&aside).map_err(failed)?;
    if is_it {
        tracing::warn!(path = %name.display(), "Removed the lock of a kubeconfig that was left behind");
    }
    Ok(())
}
