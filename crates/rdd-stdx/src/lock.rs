//! A lock that one process holds and whose holder the kernel names.
//!
//! A PID in a file can be stale, and a stale PID may belong to a stranger by now. A record lock (`fcntl`) is released by
//! the kernel when its holder dies, however it dies, and `F_GETLK` tells the holder's PID. So "is it running?" and "whom
//! do I signal?" have one answer, and it is never out of date.

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

/// Held until dropped, or until the process ends.
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
    /// Somebody has it.
    #[error("{} is held by {}", path.display(), describe(*holder))]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The holder's PID; `None` if it lives where we cannot see it (another PID namespace, another machine).
        holder: Option<u32>,
    },
    /// The lock file could not be opened or locked.
    #[error("lock {}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
}

/// Who holds a lock now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// Nobody; the file may not even exist.
    Nobody,
    /// This process or another one; its PID where we can see it.
    Process(Option<u32>),
}

/// Device and inode: the same file under any name.
type Identity = (u64, u64);

/// Record locks do not exclude a process from itself, and closing *any* descriptor of a locked file drops the lock. So
/// the files this process holds are remembered here and refused before they are opened a second time. This is a fact
/// about the process, which is why it may be a static.
static HELD: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());

impl ProcessLock {
    /// Takes the lock, or says who has it. Never waits. The file is created if missing and is never removed.
    pub fn acquire(path: &Path) -> Result<Self, Error> {
        let fail = |source| Error::Io { path: path.to_owned(), source };
        let mut held = held_here();
        if identity_of(path).is_ok_and(|identity| held.contains(&identity)) {
            return Err(Error::Held { path: path.to_owned(), holder: Some(std::process::id()) });
        }
        let file = open_regular(path, OFlags::CREATE).map_err(fail)?;
        // Under a hostile umask nobody else could open it to ask who holds it.
        file.set_permissions(Permissions::from_mode(0o600)).map_err(fail)?;
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::ACCESS) => {
                let holder = match holder_of(&file).map_err(fail)? {
                    Holder::Process(pid) => pid,
                    Holder::Nobody => None, // it let go a moment ago; the caller may try again
                };
                return Err(Error::Held { path: path.to_owned(), holder });
            }
            Err(errno) => return Err(fail(errno.into())),
        }
        let meta = file.metadata().map_err(fail)?;
        let identity = (meta.dev(), meta.ino());
        held.insert(identity);
        Ok(Self { path: path.to_owned(), identity, _file: file })
    }

    /// Whether the locked file is still where it was. A lock on one that was moved or removed meanwhile excludes nobody.
    pub fn is_in_place(&self) -> Result<bool, Error> {
        match identity_of(&self.path) {
            Ok(identity) => Ok(identity == self.identity),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(Error::Io { path: self.path.clone(), source }),
        }
    }

    /// The file that is locked.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ProcessLock {
    fn drop(&mut self) {
        held_here().remove(&self.identity);
    }
}

/// Asks the kernel who holds the lock at `path`, without taking it.
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

/// Takes hold of the process that holds the lock at `path`, so that it can be signalled without ever reaching another.
///
/// `None` if nobody holds it, or if its holder is not visible from here.
pub fn open_holder(path: &Path) -> Result<Option<Process>, Error> {
    let fail = |source| Error::Io { path: path.to_owned(), source };
    let Holder::Process(Some(pid)) = holder(path)? else { return Ok(None) };
    let Some(process) = Process::open(pid).map_err(fail)? else { return Ok(None) };
    // Asked again with the process in hand: if the lock is still held under this PID, the handle is the holder's.
    Ok((holder(path)? == Holder::Process(Some(pid))).then_some(process))
}

/// A lock is a file of its own: a pipe would hang whoever opens it, a link could lead anywhere, and a file of another
/// user
/// would let them say who runs.
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
