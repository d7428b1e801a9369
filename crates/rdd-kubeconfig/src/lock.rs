//! The lock that kubectl takes on a kubeconfig, and one of ours around it.
//!
//! kubectl makes `<file>.lock`, and gives up at once when it is there: so it is held as briefly as can be. Nothing removes
//! it when its maker is killed, and then no kubectl can write any more. One that is old and does not go away is removed. One
//! of ours has a word in it and is locked in the kernel's way too, by which it is known at once that its maker is gone.

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

/// By which clock, and for how long at most, locks are waited for.
#[derive(Debug, Clone)]
pub(crate) struct Patience {
    pub(crate) clock: SharedClock,
    pub(crate) wait: Duration,
}

/// What is older, and was there all the while, was left by somebody who was killed.
const STALE: Duration = Duration::from_secs(30);
/// Pauses between looks begin with this and grow to that.
const PAUSE: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(5);

/// Held until dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Each is removed, and then its handle closed.
    made: Vec<(PathBuf, File)>,
    /// Excludes other instances of ours, and goes with the process. Where the file system knows none there is none.
    _folder: Option<File>,
}

/// What kubectl calls the lock of a file: by the name it was given, links not followed.
fn name_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// Whether somebody writes the file, as far as its lock says.
pub(crate) fn is_held(paths: [&Path; 2]) -> bool {
    paths.iter().any(|path| fs::symlink_metadata(name_of(path)).is_ok())
}

impl Lock {
    /// Takes the lock of a file under the name that the user has for it and under that of the file itself.
    pub(crate) fn acquire(paths: [&Path; 2], patience: &Patience) -> Result<Self, Error> {
        let deadline = Instant::now() + patience.wait;
        let folder = lock_folder(paths[1], deadline)?;
        let mut lock = Self { made: Vec::new(), _folder: folder };
        // In one order for all, as kubectl sorts the files of its list.
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

/// What is in a lock of ours.
const OURS: &[u8] = b"rdd\n";

fn make(name: &Path, deadline: Instant, patience: &Patience) -> Result<File, Error> {
    let failed = |source| Error::Lock { path: name.to_owned(), source };
    let (draft, file) = draft(name).map_err(failed)?;
    let made = link(&draft, name, deadline, patience);
    // Either it has its real name by now, or it is of no use.
    fs::remove_file(&draft).map_err(failed)?;
    made.map(|()| file)
}

/// A lock of ours under another name: it has to have its word, and to be locked, when it appears.
fn draft(name: &Path) -> io::Result<(PathBuf, File)> {
    let draft = crate::file::staging_path(name);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(&draft)?;
    // Where the kernel locks nothing it has no word in it, and is never taken for one that was left.
    let drafted = if file.try_lock().is_ok() { file.write_all(OURS) } else { Ok(()) };
    if let Err(error) = drafted {
        let _ = fs::remove_file(&draft);
        return Err(error);
    }
    Ok((draft, file))
}

/// Gives a draft the name of the lock, which only one can have.
fn link(draft: &Path, name: &Path, deadline: Instant, patience: &Patience) -> Result<(), Error> {
    let failed = |source| Error::Lock { path: name.to_owned(), source };
    let mut first_seen = None;
    let mut pause = PAUSE;
    loop {
        // Where a file cannot have two names it is made as kubectl makes it.
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

/// Removes locks of ours whose makers are gone.
pub(crate) fn clear(paths: [&Path; 2]) {
    for name in paths.map(name_of) {
        clear_abandoned(&name);
    }
}

/// Removes a lock of ours whose maker is gone; `true` if there was one.
fn clear_abandoned(name: &Path) -> bool {
    // A pipe would keep whoever opens it.
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let Ok(mut file) = OpenOptions::new().read(true).custom_flags(flags).open(name) else { return false };
    let mut word = Vec::new();
    let is_ours = (&mut file).take(16).read_to_end(&mut word).is_ok() && word == OURS;
    if !is_ours || file.try_lock().is_err() {
        return false;
    }
    // Whoever would put another one in its place has to lock this one first, so it stays what it is from here on.
    let is_in_place = file.metadata().is_ok_and(|meta| identity(name) == Some((meta.dev(), meta.ino(), meta.mtime())));
    is_in_place && fs::remove_file(name).is_ok()
}

/// Which file it is, and when it was made, in seconds.
type Identity = (u64, u64, i64);

fn identity(name: &Path) -> Option<Identity> {
    fs::symlink_metadata(name).ok().map(|meta| (meta.dev(), meta.ino(), meta.mtime()))
}

fn is_stale(seen: &Identity, clock: &SharedClock) -> bool {
    let made = Duration::from_secs(u64::try_from(seen.2).unwrap_or_default());
    clock.wall().checked_sub(made).is_some_and(|age| age > STALE)
}

/// Moved aside first and looked at again: if it is another one by now, somebody made it meanwhile, and it is put back.
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
        // If there is a newer one already, that one is the lock now.
        let _ = fs::hard_link(&aside, name);
    }
    fs::remove_file(&aside).map_err(failed)?;
    if is_it {
        tracing::warn!(path = %name.display(), "Removed the lock of a kubeconfig that was left behind");
    }
    Ok(())
}
