//! A file of somebody else's replaced by a newer one, without losing what they write at the same time.

use std::{
    fs::{self, File, Metadata, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rdd_stdx::file;
use rustix::{
    fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with},
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
    /// Reads a regular file.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let meta = file.metadata()?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        Ok(Self { content, meta })
    }

    fn is_at(&self, path: &Path) -> bool {
        Self::read(path).is_ok_and(|found| found.content == self.content)
    }
}

/// The folder of a file, locked against our other instances for as long as this lives.
///
/// The folder itself is what is locked, so that nothing of ours is left in a place of the user's.
#[derive(Debug)]
pub(super) struct Locked(#[expect(dead_code, reason = "its descriptor is the lock")] File);

impl Locked {
    /// Waits for the lock, up to a bound.
    pub(super) fn folder_of(path: &Path) -> Result<Self, Error> {
        let folder = parent(path);
        let began = Instant::now();
        let file = File::open(folder).map_err(failed("open", folder))?;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self(file)),
                Err(Errno::WOULDBLOCK | Errno::INTR) if began.elapsed() < LOCK_TAKES => std::thread::sleep(LOCK_TURN),
                Err(Errno::WOULDBLOCK) => return Err(Error::Locked(folder.to_owned())),
                Err(errno) => return Err(failed("lock", folder)(errno.into())),
            }
        }
    }
}

/// Puts `text` in the place of `original`; `false` if something else is there by now, which then stays.
///
/// The two change places in one step, so that what was there is in our hands and can be compared: a check before a rename would leave
/// a moment in between.
pub(super) fn exchange(path: &Path, original: &Original, text: &[u8]) -> Result<bool, Error> {
    let _lock = Locked::folder_of(path)?;
    if !original.is_at(path) {
        return Ok(false);
    }
    let staged = stage(path, text, Some(&original.meta))?;
    let outcome = swap_in(path, &staged, original, text);
    // Ours alone; if it cannot be removed, the outcome is still what it is.
    let _ = fs::remove_file(&staged);
    file::sync_dir(parent(path))?;
    outcome
}

fn swap_in(path: &Path, staged: &Path, original: &Original, text: &[u8]) -> Result<bool, Error> {
    let swap = || renameat_with(CWD, staged, CWD, path, RenameFlags::EXCHANGE);
    match swap() {
        Ok(()) => {}
        // Somebody removed it just now.
        Err(Errno::NOENT) => return Ok(false),
        // A file system that cannot: the moment between check and rename is as short as it gets.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            if !original.is_at(path) {
                return Ok(false);
            }
            fs::rename(staged, path).map_err(failed("replace", path))?;
            return Ok(true);
        }
        Err(errno) => return Err(failed("replace", path)(errno.into())),
    }
    if original.is_at(staged) {
        return Ok(true);
    }
    // What came out is newer than what we looked at: it goes back, and so does whatever is written while that happens.
    let read = || fs::read(staged).map_err(failed("read", staged));
    let (mut put, mut held) = (text.to_vec(), read()?);
    for _ in 0..SETTLES {
        match swap() {
            Ok(()) => {}
            Err(Errno::NOENT) => break,
            Err(errno) => return Err(failed("put back", path)(errno.into())),
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
    let _lock = Locked::folder_of(path)?;
    let staged = stage(path, text, None)?;
    let linked = fs::hard_link(&staged, path);
    let _ = fs::remove_file(&staged);
    match linked {
        Ok(()) => {
            file::sync_dir(parent(path))?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(failed("create", path)(error)),
    }
}

/// Removes the file; `false` if it is another one by now.
pub(super) fn remove(path: &Path, original: &Original) -> Result<bool, Error> {
    let _lock = Locked::folder_of(path)?;
    let staged = staging_name(path);
    match fs::rename(path, &staged) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed("remove", path)(error)),
    }
    let is_original = original.is_at(&staged);
    if !is_original {
        // Unless a newer one is there already, which then has it.
        let _ = fs::hard_link(&staged, path);
    }
    fs::remove_file(&staged).map_err(failed("remove", &staged))?;
    file::sync_dir(parent(path))?;
    Ok(is_original)
}

/// A file beside the other one with this content, and with the mode and owner of the one that it is to replace.
fn stage(path: &Path, text: &[u8], like: Option<&Metadata>) -> Result<PathBuf, Error> {
    let staged = staging_name(path);
    let mode = like.map_or(file::PRIVATE, |meta| meta.permissions().mode() & 0o7777);
    let write = || -> io::Result<()> {
        // One that a killed process left is written over: we hold the lock, so it is nobody's.
        let _ = fs::remove_file(&staged);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(file::PRIVATE).open(&staged)?;
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
        let _ = fs::remove_file(&staged);
        failed("write", &staged)(source)
    })?;
    Ok(staged)
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// One name for all of us: whoever holds the lock may use it.
fn staging_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    parent(path).join(format!(".{name}.rdd.tmp"))
}
