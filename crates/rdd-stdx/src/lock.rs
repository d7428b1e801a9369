//! A lock file for one process, whose holder the kernel identifies.
//!
//! A PID in a file can be stale, and can then belong to an unrelated process. The kernel releases a record lock
//! (`fcntl`) when its holder ends in any way, and `F_GETLK` returns the holder's PID. So the questions whether a
//! process runs and which process to signal have the same answer, which is always current.

use std::{
    collections::BTreeSet,
    fs::{File, Permissions},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard},
};

use rustix::{
    fs::{FlockOperation, OFlags, fcntl_lock},
    io::Errno,
    process::{Flock, FlockType, fcntl_getlk},
};

use crate::{owned, process::Process};

/// A held lock. It is released on drop and at the end of the process.
#[derive(Debug)]
pub struct ProcessLock {
    path: PathBuf,
    identity: Identity,
    _file: File,
}

/// Why a lock was not acquired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process, or this one, holds it.
    #[error("{} is held by {}", path.display(), describe(*holder))]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The holder's PID; `None` if it is not visible from here (another PID namespace, another host).
        holder: Option<u32>,
    },
    /// The lock file could not be opened or locked.
    #[error("lock {}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

/// The holder of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// The lock is free; the file may not exist.
    Nobody,
    /// A process holds it, possibly this one, with its PID if it is visible.
    Process(Option<u32>),
}

/// Device and inode, which identify a file under any name.
type Identity = (u64, u64);

/// The lock files that this process holds. A record lock does not exclude its own process, and closing any descriptor
/// of a locked file releases the lock, so files in this set are not opened again. Record locks belong to the process,
/// so this is a static.
static HELD: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());

impl ProcessLock {
    /// Acquires the lock without waiting. The file is created if it is missing, and never removed.
    ///
    /// # Errors
    /// [`Error::Held`] if the lock is taken, with its holder.
    pub fn acquire(path: &Path) -> Result<Self, Error> {
        let fail = |source| Error::Io { path: path.to_owned(), source };
        let mut held = held_here();
        if identity_of(path).is_ok_and(|identity| held.contains(&identity)) {
            return Err(Error::Held { path: path.to_owned(), holder: Some(std::process::id()) });
        }
        let file = open_regular(path, OFlags::CREATE).map_err(fail)?;
        // The umask may have removed permissions that other processes of the user need to query the holder.
        file.set_permissions(Permissions::from_mode(0o600)).map_err(fail)?;
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::ACCESS) => {
                let holder = match holder_of(&file).map_err(fail)? {
                    Holder::Process(pid) => pid,
                    Holder::Nobody => None, // released in the meantime; the caller may try again
                };
                return Err(Error::Held { path: path.to_owned(), holder });
            }
            Err(errno) => return Err(fail(errno.into())),
        }
        // Remember the file by inode, so that a second acquire under another name fails too.
        let meta = file.metadata().map_err(fail)?;
        let identity = (meta.dev(), meta.ino());
        held.insert(identity);
        Ok(Self { path: path.to_owned(), identity, _file: file })
    }

    /// Whether the locked file is still at its path. If it was moved or removed, the lock excludes no other process.
    pub fn is_in_place(&self) -> Result<bool, Error> {
        match identity_of(&self.path) {
            Ok(identity) => Ok(identity == self.identity),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(Error::Io { path: self.path.clone(), source }),
        }
    }

    /// The path of the lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ProcessLock {
    fn drop(&mut self) {
        held_here().remove(&self.identity);
    }
}

/// Queries the holder of the lock at `path` without acquiring it.
pub fn holder(path: &Path) -> Result<Holder, Error> {
    let fail = |source| Error::Io { path: path.to_owned(), source };
    let identity = match identity_of(path) {
        Ok(identity) => identity,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Holder::Nobody),
        Err(error) => return Err(fail(error)),
    };
    let held = held_here();
    if held.contains(&identity) {
        return Ok(Holder::Process(Some(std::process::id())));
    }
    let file = open_regular(path, OFlags::empty()).map_err(fail)?;
    holder_of(&file).map_err(fail)
}

/// Opens the process that holds the lock at `path`, so that signals can never reach another process.
///
/// `None` if the lock is free or its holder is not visible from here.
pub fn open_holder(path: &Path) -> Result<Option<Process>, Error> {
    let fail = |source| Error::Io { path: path.to_owned(), source };
    let Holder::Process(Some(pid)) = holder(path)? else { return Ok(None) };
    let Some(process) = Process::open(pid).map_err(fail)? else { return Ok(None) };
    // Query again: if this PID still holds the lock, the opened process is the holder.
    Ok((holder(path)? == Holder::Process(Some(pid))).then_some(process))
}

/// Opens a lock file, which must be a regular file of this user: opening a pipe could block, a link could lead
/// anywhere, and another user could fake the holder with a file of theirs.
fn open_regular(path: &Path, flags: OFlags) -> io::Result<File> {
    owned::open_file(path, OFlags::WRONLY | flags)
}

fn held_here() -> MutexGuard<'static, BTreeSet<Identity>> {
    HELD.lock().expect("nothing panics while holding this")
}

fn identity_of(path: &Path) -> io::Result<Identity> {
    std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

fn holder_of(file: &File) -> io::Result<Holder> {
    let found = fcntl_getlk(file, &Flock::from(FlockType::WriteLock))?;
    Ok(match found {
        None => Holder::Nobody,
        Some(lock) => Holder::Process(lock.pid.map(|pid| pid.as_raw_nonzero().get().unsigned_abs())),
    })
}

fn describe(holder: Option<u32>) -> String {
    match holder {
        Some(pid) if pid == std::process::id() => "this process".to_owned(),
        Some(pid) => format!("process {pid}"),
        None => "a process that is not visible from here".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_regular_file_is_refused_and_hangs_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let (pipe, link) = (dir.path().join("pipe"), dir.path().join("link"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &link).unwrap();
        for path in [&pipe, &link] {
            assert!(matches!(ProcessLock::acquire(path), Err(Error::Io { .. })), "{}", path.display());
        }
        assert!(matches!(holder(&pipe), Err(Error::Io { .. })));
        assert!(!dir.path().join("elsewhere").exists());
    }

    #[test]
    fn a_second_taker_in_the_same_process_is_refused_and_the_lock_survives_the_attempt() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert_eq!(holder(&path).unwrap(), Holder::Nobody);
        let lock = ProcessLock::acquire(&path).unwrap();
        for _ in 0..2 {
            let error = ProcessLock::acquire(&path).unwrap_err();
            assert_eq!(error.to_string(), format!("{} is held by this process", path.display()));
        }
        assert_eq!(holder(&path).unwrap(), Holder::Process(Some(std::process::id())));
        drop(lock);
        assert_eq!(holder(&path).unwrap(), Holder::Nobody);
        let lock = ProcessLock::acquire(&path).unwrap();
        assert!(lock.is_in_place().unwrap());
        std::fs::rename(&path, dir.path().join("elsewhere")).unwrap();
        assert!(!lock.is_in_place().unwrap());
        std::fs::write(&path, "another").unwrap();
        assert!(!lock.is_in_place().unwrap());
    }
}
