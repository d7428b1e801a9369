//! Replaces a file that other programs also write, without losing their concurrent writes.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, Metadata, Permissions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rdd_stdx::{
    file,
    owned::{self, OFlags, TrustedFolder},
};
use rustix::{
    fs::{AtFlags, FlockOperation, RenameFlags, flock, linkat, renameat, renameat_with, unlinkat},
    io::Errno,
};

/// How long to wait for another of our instances to release the folder's lock.
const LOCK_TAKES: Duration = Duration::from_secs(5);
/// The interval between attempts to lock.
const LOCK_TURN: Duration = Duration::from_millis(10);
/// How many times to exchange two files until the last writer's content is in place.
const SETTLES: usize = 10;

/// Why a file was not replaced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another of our instances holds the folder's lock.
    #[error("another instance has had {} locked for too long", .0.display())]
    Locked(PathBuf),
    /// A system call failed.
    #[error("{action} {}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The folder could not be created or synced.
    #[error(transparent)]
    File(#[from] file::Error),
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { action, path: path.to_owned(), source }
}

/// The content and metadata of a file as it was read.
#[derive(Debug)]
pub(super) struct Original {
    pub(super) content: Vec<u8>,
    pub(super) meta: Metadata,
}

impl Original {
    /// Reads a regular file that the effective user owns.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        Self::read_from(owned::open_file(path, OFlags::RDONLY)?)
    }

    fn read_from(mut file: File) -> io::Result<Self> {
        let meta = file.metadata()?;
        let mut content = Vec::new();
        io::Read::read_to_end(&mut file, &mut content)?;
        Ok(Self { content, meta })
    }

    fn is_in(&self, folder: &Locked, name: &OsStr) -> bool {
        folder.folder.read(name).is_ok_and(|found| found == self.content)
    }
}

/// The folder of a file, locked against our other instances until this is dropped.
///
/// The lock is on the folder itself, so that no lock file is left in the user's folder.
#[derive(Debug)]
pub(super) struct Locked {
    folder: TrustedFolder,
    path: PathBuf,
    #[expect(dead_code, reason = "its descriptor is the lock")]
    lock: File,
}

impl Locked {
    /// Locks the folder of `path`, waiting up to a timeout, and removes what our interrupted writes left.
    ///
    /// # Errors
    /// When another user owns the folder, and when the lock is not free in time.
    pub(super) fn folder_of(path: &Path) -> Result<Self, Error> {
        let parent = parent(path);
        let folder = TrustedFolder::open(parent).map_err(failed("use", parent))?;
        let began = Instant::now();
        let lock = folder.open_to_read().map_err(failed("open", parent))?;
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK | Errno::INTR) if began.elapsed() < LOCK_TAKES => std::thread::sleep(LOCK_TURN),
                Err(Errno::WOULDBLOCK) => return Err(Error::Locked(parent.to_owned())),
                Err(errno) => return Err(failed("lock", parent)(errno.into())),
            }
        }
        let locked = Self { folder, path: parent.to_owned(), lock };
        // Only the lock holder has staging files. A leftover that cannot be removed does no harm.
        let _ = locked.folder.remove_staging(name(path), &[""]);
        Ok(locked)
    }

    fn path(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    fn remove(&self, name: &OsStr) -> Result<(), Error> {
        unlinkat(&self.folder, name, AtFlags::empty()).map_err(|errno| failed("remove", &self.path(name))(errno.into()))
    }

    /// Creates a hard link; returns false if the name exists.
    fn link(&self, from: &OsStr, to: &OsStr) -> Result<bool, Error> {
        match linkat(&self.folder, from, &self.folder, to, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(failed("create", &self.path(to))(errno.into())),
        }
    }
}

/// Replaces `original` by `text`; returns false if the file has changed since, and then the newer content stays.
///
/// An atomic rename exchanges the two files, so that the old file can be compared afterwards: a check before a plain rename would
/// race with other writers.
pub(super) fn exchange(path: &Path, original: &Original, text: &[u8]) -> Result<bool, Error> {
    let (folder, name) = (Locked::folder_of(path)?, name(path));
    if !original.is_in(&folder, name) {
        return Ok(false);
    }
    let staged = stage(&folder, name, text, Some(&original.meta))?;
    let outcome = swap_in(&folder, name, &staged, original, text);
    // The staging file is ours alone; failing to remove it does not change the outcome.
    let _ = folder.remove(&staged);
    file::sync_dir(parent(path))?;
    outcome
}

fn swap_in(folder: &Locked, name: &OsStr, staged: &OsStr, original: &Original, text: &[u8]) -> Result<bool, Error> {
    let path = folder.path(name);
    let swap = || renameat_with(&folder.folder, staged, &folder.folder, name, RenameFlags::EXCHANGE);
    match swap() {
        Ok(()) => {}
        // Another program removed the file just now.
        Err(Errno::NOENT) => return Ok(false),
        // The file system cannot exchange files: check right before the rename, which leaves only a short race.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            if !original.is_in(folder, name) {
                return Ok(false);
            }
            let renamed = renameat(&folder.folder, staged, &folder.folder, name);
            return renamed.map(|()| true).map_err(|errno| failed("replace", &path)(errno.into()));
        }
        Err(errno) => return Err(failed("replace", &path)(errno.into())),
    }
    if original.is_in(folder, staged) {
        return Ok(true);
    }
    // The file changed after we read it: exchange again to put it back, and repeat for writes that happen meanwhile.
    let staged_path = folder.path(staged);
    let read = || fs::read(&staged_path).map_err(failed("read", &staged_path));
    let (mut put, mut held) = (text.to_vec(), read()?);
    for _ in 0..SETTLES {
        match swap() {
            Ok(()) => {}
            Err(Errno::NOENT) => break,
            Err(errno) => return Err(failed("put back", &path)(errno.into())),
        }
        let out = read()?;
        if out == put {
            break;
        }
        (put, held) = (held, out);
    }
    Ok(false)
}

/// Creates the file; returns false if it exists by now.
pub(super) fn create(path: &Path, text: &[u8]) -> Result<bool, Error> {
    if !parent(path).exists() {
        file::create_dir_private(parent(path))?;
    }
    let folder = Locked::folder_of(path)?;
    let staged = stage(&folder, name(path), text, None)?;
    let linked = folder.link(&staged, name(path));
    // The staging file is ours alone, as in an exchange.
    let _ = folder.remove(&staged);
    if matches!(linked, Ok(true)) {
        file::sync_dir(parent(path))?;
    }
    linked
}

/// Removes the file; returns false if it has changed since it was read, and then it stays.
pub(super) fn remove(path: &Path, original: &Original) -> Result<bool, Error> {
    let (folder, name) = (Locked::folder_of(path)?, name(path));
    // Rename first, so that the file that is compared is the file that is removed.
    let staged = owned::staging_name(name);
    match renameat(&folder.folder, name, &folder.folder, &staged) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(false),
        Err(errno) => return Err(failed("remove", path)(errno.into())),
    }
    let is_original = original.is_in(&folder, &staged);
    if !is_original {
        // Put it back, unless a newer file has the name by now.
        let _ = folder.link(&staged, name);
    }
    folder.remove(&staged)?;
    file::sync_dir(parent(path))?;
    Ok(is_original)
}

/// Creates a staging file with this content, and with the mode and owner of the file that it replaces.
fn stage(folder: &Locked, name: &OsStr, text: &[u8], like: Option<&Metadata>) -> Result<OsString, Error> {
    let (staged, mut file) =
        folder.folder.create_staging(name).map_err(failed("create a file beside", &folder.path(name)))?;
    let mode = like.map_or(file::PRIVATE, |meta| meta.permissions().mode() & 0o7777);
    let mut write = || -> io::Result<()> {
        if let Some(meta) = like {
            let own = file.metadata()?;
            if (own.uid(), own.gid()) != (meta.uid(), meta.gid()) {
                std::os::unix::fs::fchown(&file, Some(meta.uid()), Some(meta.gid()))?;
            }
        }
        file.set_permissions(Permissions::from_mode(mode))?;
        file.write_all(text)?;
        file.sync_all()
    };
    write().map_err(|source| {
        let _ = folder.remove(&staged);
        failed("write", &folder.path(&staged))(source)
    })?;
    Ok(staged)
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn name(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}
