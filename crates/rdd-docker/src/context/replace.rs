//! A file of somebody else's replaced by a newer one, without losing what they write at the same time.

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

/// How long another instance of ours may hold the lock of a folder.
const LOCK_TAKES: Duration = Duration::from_secs(5);
/// How often it is tried for.
const LOCK_TURN: Duration = Duration::from_millis(10);
/// How often two files are put back into their order before the last writer has it.
const SETTLES: usize = 10;

/// Why a file was not replaced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another instance of ours holds on to the folder.
    #[error("another instance has had {} locked for too long", .0.display())]
    Locked(PathBuf),
    /// The operating system refused.
    #[error("{action} {}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What it said.
        #[source]
        source: io::Error,
    },
    /// The folder could not be brought into order.
    #[error(transparent)]
    File(#[from] file::Error),
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { action, path: path.to_owned(), source }
}

/// A file as it was read.
#[derive(Debug)]
pub(super) struct Original {
    pub(super) content: Vec<u8>,
    pub(super) meta: Metadata,
}

impl Original {
    /// Reads a regular file of the effective user.
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

/// The folder of a file, locked against our other instances for as long as this lives.
///
/// The folder itself is what is locked, so that nothing of ours is left in a place of the user's.
#[derive(Debug)]
pub(super) struct Locked {
    folder: TrustedFolder,
    path: PathBuf,
    #[expect(dead_code, reason = "its descriptor is the lock")]
    lock: File,
}

impl Locked {
    /// Waits for the lock, up to a bound, and removes what writes of ours left that were interrupted. A folder of another
    /// user is refused.
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
        // Only the holder of the lock has such files. What cannot be removed is in nobody's way.
        let _ = locked.folder.remove_staging(name(path), &[""]);
        Ok(locked)
    }

    fn path(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    fn remove(&self, name: &OsStr) -> Result<(), Error> {
        unlinkat(&self.folder, name, AtFlags::empty()).map_err(|errno| failed("remove", &self.path(name))(errno.into()))
    }

    /// Gives a file a second name; whether that name was free.
    fn link(&self, from: &OsStr, to: &OsStr) -> Result<bool, Error> {
        match linkat(&self.folder, from, &self.folder, to, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(failed("create", &self.path(to))(errno.into())),
        }
    }
}

/// Puts `text` in the place of `original`; `false` if something else is there by now, which then stays.
///
/// The two change places in one step, so that what was there is in our hands and can be compared: a check before a rename would leave
/// a moment in between.
pub(super) fn exchange(path: &Path, original: &Original, text: &[u8]) -> Result<bool, Error> {
    let (folder, name) = (Locked::folder_of(path)?, name(path));
    if !original.is_in(&folder, name) {
        return Ok(false);
    }
    let staged = stage(&folder, name, text, Some(&original.meta))?;
    let outcome = swap_in(&folder, name, &staged, original, text);
    // Ours alone; if it cannot be removed, the outcome is still what it is.
    let _ = folder.remove(&staged);
    file::sync_dir(parent(path))?;
    outcome
}

fn swap_in(folder: &Locked, name: &OsStr, staged: &OsStr, original: &Original, text: &[u8]) -> Result<bool, Error> {
    let path = folder.path(name);
    let swap = || renameat_with(&folder.folder, staged, &folder.folder, name, RenameFlags::EXCHANGE);
    match swap() {
        Ok(()) => {}
        // Somebody removed it just now.
        Err(Errno::NOENT) => return Ok(false),
        // A file system that cannot: the moment between check and rename is as short as it gets.
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
    // What came out is newer than what we looked at: it goes back, and so does whatever is written while that happens.
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

/// Makes the file; `false` if there is one by now.
pub(super) fn create(path: &Path, text: &[u8]) -> Result<bool, Error> {
    if !parent(path).exists() {
        file::create_dir_private(parent(path))?;
    }
    let folder = Locked::folder_of(path)?;
    let staged = stage(&folder, name(path), text, None)?;
    let linked = folder.link(&staged, name(path));
    // As after an exchange.
    let _ = folder.remove(&staged);
    if matches!(linked, Ok(true)) {
        file::sync_dir(parent(path))?;
    }
    linked
}

/// Removes the file; `false` if it is another one by now.
pub(super) fn remove(path: &Path, original: &Original) -> Result<bool, Error> {
    let (folder, name) = (Locked::folder_of(path)?, name(path));
    // Renamed away first, so that what is removed is what was compared.
    let staged = owned::staging_name(name);
    match renameat(&folder.folder, name, &folder.folder, &staged) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(false),
        Err(errno) => return Err(failed("remove", path)(errno.into())),
    }
    let is_original = original.is_in(&folder, &staged);
    if !is_original {
        // Unless a newer one is there already, which then has it.
        let _ = folder.link(&staged, name);
    }
    folder.remove(&staged)?;
    file::sync_dir(parent(path))?;
    Ok(is_original)
}

/// A file beside the other one with this content, and with the mode and owner of the one that it is to replace.
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
