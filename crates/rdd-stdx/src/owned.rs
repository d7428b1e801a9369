//! Opens files and folders of the effective user without following links that another user could have created.
//!
//! A process that runs as root must not trust what another user put into its folders: a key, a database, a socket or a
//! link. All functions here work on descriptors: they walk a path component by component with `openat` and `O_NOFOLLOW`
//! and read owners with `fstat` from what they opened, so that nothing can be exchanged between check and use.
//!
//! The rules of trust:
//! - A link in the path of a folder must belong to the effective user or to the system (root, or the owner of `/`).
//!   `/home` may be a link to another disk, and so may a folder that the user moved there.
//! - The folder that contains a file must belong to one of these as well. `/tmp` does.
//! - The file itself, or a folder that is created, must belong to the effective user and must not be a link.

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    fmt,
    fs::{File, Metadata, Permissions},
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::{FileExt, MetadataExt, PermissionsExt},
        },
    },
    path::{Component, Path, PathBuf},
    time::{Duration, Instant},
};

pub use rustix::fs::OFlags;
use rustix::{
    fs::{AtFlags, FileType, FlockOperation, Mode, Stat},
    io::Errno,
    process::geteuid,
};

/// The maximum number of links in a path, as in the kernel.
const LINKS_MAX: usize = 40;
/// How many random names are tried if the names exist already.
const STAGING_ATTEMPTS: usize = 16;
/// The timeout for another process that removes the files of interrupted writes.
const STAGING_LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval for retrying a lock that is held.
const STAGING_LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// Flags to open a folder for lookups only, without reading it.
#[cfg(target_os = "linux")]
const SEARCH: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const SEARCH: OFlags = OFlags::RDONLY;

/// A user with number and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The user ID.
    pub uid: u32,
    /// The name in `/etc/passwd`, if there is one.
    pub name: Option<String>,
}

impl Account {
    /// Looks up the user with this ID.
    pub fn from_uid(uid: u32) -> Self {
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        Self { uid, name: find_name(&passwd, uid) }
    }

    /// The name, or else the ID, for a command line.
    fn argument(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.uid.to_string())
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} (uid {})", self.uid),
            None => write!(f, "uid {}", self.uid),
        }
    }
}

fn find_name(passwd: &str, uid: u32) -> Option<String> {
    let uid = uid.to_string();
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        // The name goes into messages and command lines.
        let is_printable = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        (fields.nth(1)? == uid && is_printable).then(|| name.to_owned())
    })
}

/// Why a file or folder is refused. It is the inner error of the [`io::Error`]s of this module.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Another user owns it.
    #[error("refusing to use {}: it belongs to user {owner}, and rdd runs as {runner}; {}", path.display(), fix(path, owner, runner))]
    ForeignOwner {
        /// The file, the folder or the link.
        path: PathBuf,
        /// Its owner.
        owner: Account,
        /// The effective user.
        runner: Account,
    },
    /// It is a symbolic link in a place where rdd creates only files and folders.
    #[error("refusing to use {}: it is a symbolic link; remove it, or put what it leads to in its place", path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// It is a pipe, a device or a folder in a place where rdd creates only files.
    #[error("refusing to use {}: it is not a regular file; remove it", path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
    },
}

fn fix(path: &Path, owner: &Account, runner: &Account) -> String {
    let (owner_name, runner_name) = (owner.argument(), runner.argument());
    match (owner.uid, runner.uid) {
        (_, 0) => format!("run rdd as {owner_name}, or set HOME to a folder of {runner_name}'s"),
        // A typical leftover of `sudo rdd`.
        (0, _) => format!("give it back with `sudo chown -R {runner_name} '{}'`", path.display()),
        _ => format!("remove it, or set HOME to a folder of {runner_name}'s"),
    }
}

impl From<Refusal> for io::Error {
    // Not `PermissionDenied`, which stands for a refusal by the kernel and has another remedy.
    fn from(refusal: Refusal) -> Self {
        Self::other(refusal)
    }
}

/// Whether an error or one of its causes is a [`Refusal`].
pub fn is_refusal(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(link) = next {
        // `io::Error::source` returns the source of the inner error, not the inner error itself.
        let inner = link.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if link.is::<Refusal>() || inner.is_some_and(|inner| inner.is::<Refusal>()) {
            return true;
        }
        next = link.source();
    }
    false
}

fn effective_uid() -> u32 {
    geteuid().as_raw()
}

fn refuse_owner(path: &Path, owner: u32) -> io::Error {
    let (owner, runner) = (Account::from_uid(owner), Account::from_uid(effective_uid()));
    Refusal::ForeignOwner { path: path.to_owned(), owner, runner }.into()
}

/// Checks that the effective user owns the file that was opened at `path`.
pub fn check_owner(file: &File, path: &Path) -> io::Result<()> {
    let owner = file.metadata()?.uid();
    if owner == effective_uid() { Ok(()) } else { Err(refuse_owner(path, owner)) }
}

/// Checks that a link belongs to the effective user or to the system, before it is followed. `meta` is the metadata of
/// the link.
pub fn check_link(link: &Path, meta: &Metadata) -> io::Result<()> {
    if is_trusted(meta.uid(), std::fs::metadata("/")?.uid()) { Ok(()) } else { Err(refuse_owner(link, meta.uid())) }
}

/// Whether links and folders of this user are trusted. `system` is the owner of `/`.
fn is_trusted(uid: u32, system: u32) -> bool {
    uid == effective_uid() || uid == 0 || uid == system
}

/// Checks that the folder with the state is absent or belongs to the effective user or to the system.
///
/// Its owner can exchange everything below it. The same holds for links in its path.
pub fn check_home(home: &Path) -> io::Result<()> {
    absent_is_fine(TrustedFolder::open(home).map(drop)).map(|_| ())
}

fn absent_is_fine<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// An open folder that only the effective user and the system can exchange.
#[derive(Debug)]
pub struct TrustedFolder {
    folder: OwnedFd,
    path: PathBuf,
}

impl TrustedFolder {
    /// Opens a folder that belongs to the effective user or to the system.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (folder, system) = walk(path, OnMissing::Fail)?;
        let owner = rustix::fs::fstat(&folder)?.st_uid;
        if !is_trusted(owner, system) {
            return Err(refuse_owner(path, owner));
        }
        Ok(Self { folder, path: path.to_owned() })
    }

    /// Opens a folder that belongs to the effective user. `None` if it is absent.
    pub fn open_own(path: &Path) -> io::Result<Option<Self>> {
        let Some((folder, _)) = absent_is_fine(walk(path, OnMissing::Fail))? else { return Ok(None) };
        Self::own(folder, path).map(Some)
    }

    /// Creates a folder and its missing parents with private modes, or opens the existing folder and makes it private.
    pub fn create(path: &Path) -> io::Result<Self> {
        let (folder, _) = walk(path, OnMissing::Create)?;
        let folder = Self::own(folder, path)?;
        folder.make_private()?;
        Ok(folder)
    }

    /// Opens a subfolder that belongs to the effective user and is not a link. `None` if it is absent.
    pub fn enter(&self, name: impl AsRef<OsStr>) -> io::Result<Option<Self>> {
        let name = name.as_ref();
        let path = self.path.join(name);
        match open_folder(&self.folder, name) {
            Ok(folder) => Self::own(folder, &path).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => match self.stat(name) {
                Ok(stat) if is_link(&stat) => Err(Refusal::Link { path }.into()),
                _ => Err(errno.into()),
            },
        }
    }

    fn own(folder: OwnedFd, path: &Path) -> io::Result<Self> {
        let owner = rustix::fs::fstat(&folder)?.st_uid;
        if owner != effective_uid() {
            return Err(refuse_owner(path, owner));
        }
        Ok(Self { folder, path: path.to_owned() })
    }

    fn make_private(&self) -> io::Result<()> {
        if Mode::from_raw_mode(rustix::fs::fstat(&self.folder)?.st_mode) == Mode::RWXU {
            return Ok(());
        }
        let private = Permissions::from_mode(crate::file::PRIVATE_DIR);
        match self.open_to_read() {
            Ok(folder) => folder.set_permissions(private),
            // The owner has no permission, for example under a strict umask. The mode cannot be set through a
            // descriptor for lookups, only through its name in /proc.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                std::fs::set_permissions(format!("/proc/self/fd/{}", self.folder.as_raw_fd()), private)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the folder for reading or locking, which the lookup descriptor in this value does not support.
    pub fn open_to_read(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.folder, ".", flags, Mode::empty())?))
    }

    fn stat(&self, name: &OsStr) -> io::Result<Stat> {
        Ok(rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Checks that all direct entries of this folder belong to the effective user.
    pub fn check_entries(&self) -> io::Result<()> {
        for entry in rustix::fs::Dir::read_from(self.open_to_read()?)? {
            let entry = entry?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            if name != "." && name != ".." {
                self.check(&name)?;
            }
        }
        Ok(())
    }

    /// Checks that the entry with this name is absent or belongs to the effective user. A link is not followed.
    pub fn check(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = name.as_ref();
        match absent_is_fine(self.stat(name))? {
            Some(stat) if stat.st_uid != effective_uid() => Err(refuse_owner(&self.path.join(name), stat.st_uid)),
            _ => Ok(()),
        }
    }

    /// Checks that the entry with this name is absent or a regular file of the effective user, without opening it.
    pub fn check_file(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = name.as_ref();
        self.check(name)?;
        let Some(stat) = absent_is_fine(self.stat(name))? else { return Ok(()) };
        let path = self.path.join(name);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(()),
            FileType::Symlink => Err(Refusal::Link { path }.into()),
            _ => Err(Refusal::NotRegular { path }.into()),
        }
    }

    /// Opens a regular file of the effective user. A link is not followed, and a new file is private.
    pub fn open_file(&self, name: impl AsRef<OsStr>, flags: OFlags) -> io::Result<File> {
        let name = name.as_ref();
        let path = || self.path.join(name);
        // Without NONBLOCK, opening a pipe would block until its other end is opened.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => File::from(file),
            Err(Errno::LOOP) => return Err(Refusal::Link { path: path() }.into()),
            // The errors of opening a pipe without a reader, and a folder, for writing.
            Err(Errno::NXIO | Errno::ISDIR) => return Err(Refusal::NotRegular { path: path() }.into()),
            Err(errno) => return Err(errno.into()),
        };
        check_owner(&file, &path())?;
        if !file.metadata()?.is_file() {
            return Err(Refusal::NotRegular { path: path() }.into());
        }
        Ok(file)
    }

    /// Reads a file of the effective user.
    pub fn read(&self, name: impl AsRef<OsStr>) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        self.open_file(name, OFlags::RDONLY)?.read_to_end(&mut content)?;
        Ok(content)
    }

    /// Replaces a file atomically: a reader, also after a power loss, sees the old content or the new one.
    ///
    /// The content is first written to a new file with a random name, so that an existing file or link is never written
    /// to.
    pub fn replace(&self, name: impl AsRef<OsStr>, content: &[u8], mode: u32) -> io::Result<()> {
        self.replace_with(name, mode, |file| file.write_all(content))
    }

    /// Like [`replace`](Self::replace), with a function that writes the content.
    pub fn replace_with(
        &self,
        name: impl AsRef<OsStr>,
        mode: u32,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let name = name.as_ref();
        let (staged, mut file) = self.create_staging(name)?;
        let written = (|| {
            file.set_permissions(Permissions::from_mode(mode))?;
            write(&mut file)?;
            file.sync_all()
        })();
        self.publish_staging(&staged, name, written)
    }

    /// Replaces an entry by a symbolic link, atomically.
    pub fn replace_with_link(&self, name: impl AsRef<OsStr>, target: &Path) -> io::Result<()> {
        let link = |staged: &OsStr| rustix::fs::symlinkat(target, &self.folder, staged);
        let (staged, ()) = with_staging_name(name.as_ref(), link)?;
        self.publish_staging(&staged, name.as_ref(), Ok(()))
    }

    /// Replaces an entry by a hard link to the file `from`, atomically. A link at `from` is not followed.
    pub fn replace_with_hard_link(&self, name: impl AsRef<OsStr>, from: &Path) -> io::Result<()> {
        let link = |staged: &OsStr| rustix::fs::linkat(rustix::fs::CWD, from, &self.folder, staged, AtFlags::empty());
        let (staged, ()) = with_staging_name(name.as_ref(), link)?;
        self.publish_staging(&staged, name.as_ref(), Ok(()))
    }

    /// Renames a staging file to its final name if it was written successfully, and makes that durable; else removes
    /// it.
    fn publish_staging(&self, staged: &OsStr, name: &OsStr, written: io::Result<()>) -> io::Result<()> {
        let renamed = written.and_then(|()| Ok(rustix::fs::renameat(&self.folder, staged, &self.folder, name)?));
        if let Err(error) = renamed {
            // If the removal fails too, report the first error. The staging file belongs to this call alone.
            let _ = rustix::fs::unlinkat(&self.folder, staged, AtFlags::empty());
            return Err(error);
        }
        self.sync()
    }

    /// Creates a private file with a new random name ([`staging_name`]) beside `name`.
    pub fn create_staging(&self, name: &OsStr) -> io::Result<(OsString, File)> {
        with_staging_name(name, |staged| self.create_new(staged))
    }

    /// Like [`create_staging`](Self::create_staging), for a folder.
    pub fn create_staging_folder(&self, name: &OsStr) -> io::Result<(OsString, Self)> {
        let (staged, ()) = with_staging_name(name, |staged| rustix::fs::mkdirat(&self.folder, staged, Mode::RWXU))?;
        let folder = Self::own(open_folder(&self.folder, &staged)?, &self.path.join(&staged))?;
        folder.make_private()?;
        Ok((staged, folder))
    }

    /// Creates a private file; fails if the name exists, also as a link.
    fn create_new(&self, name: &OsStr) -> rustix::io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR).map(File::from)
    }

    /// The staging files and folders of the effective user beside `name`, with one of these suffixes. The suffix is
    /// empty except for files that a library creates beside a staging file.
    pub fn staging_entries(&self, name: &OsStr, endings: &[&str]) -> io::Result<Vec<OsString>> {
        let mut found = Vec::new();
        for entry in rustix::fs::Dir::read_from(self.open_to_read()?)? {
            let entry = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
            let is_ours = || Ok::<_, io::Error>(self.stat_if_present(&entry)?.is_some_and(is_own));
            if is_staging_name(&entry, name, endings) && is_ours()? {
                found.push(entry);
            }
        }
        Ok(found)
    }

    /// Removes the staging files that interrupted writes left beside `name`
    /// ([`staging_entries`](Self::staging_entries)).
    ///
    /// The caller must ensure that no such write is in progress: by a lock of its own, or by using
    /// [`lock_staging`](Self::lock_staging) instead.
    pub fn remove_staging(&self, name: &OsStr, endings: &[&str]) -> io::Result<()> {
        for entry in self.staging_entries(name, endings)? {
            let removed = match self.stat_if_present(&entry)? {
                Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                    std::fs::remove_dir_all(self.path.join(&entry))
                }
                _ => Ok(rustix::fs::unlinkat(&self.folder, &entry, AtFlags::empty())?),
            };
            absent_is_fine(removed)?;
        }
        Ok(())
    }

    /// Locks the staging files of this folder against removal by other processes until the value is dropped. If no
    /// other write is in progress, it first removes the leftovers of interrupted writes beside `name`.
    pub fn lock_staging(&self, name: &OsStr) -> io::Result<StagingLock> {
        let folder = self.open_to_read()?;
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => self.remove_staging(name, &[""])?,
            Err(Errno::WOULDBLOCK) => {}
            Err(errno) => return Err(errno.into()),
        }
        let began = Instant::now();
        // Downgrading a lock is not atomic: another process may get the exclusive lock in between.
        loop {
            match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockShared) {
                Ok(()) => return Ok(StagingLock(folder)),
                Err(Errno::WOULDBLOCK | Errno::INTR) if began.elapsed() < STAGING_LOCK_TIMEOUT => {
                    std::thread::sleep(STAGING_LOCK_INTERVAL);
                }
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn stat_if_present(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        absent_is_fine(self.stat(name))
    }

    /// Makes renames, creations and removals in this folder durable.
    pub fn sync(&self) -> io::Result<()> {
        self.open_to_read()?.sync_all()
    }
}

impl AsFd for TrustedFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

/// Protects the staging files of a folder from removal by other processes.
#[derive(Debug)]
#[must_use = "others may remove the staging file once it is dropped"]
pub struct StagingLock(#[expect(dead_code, reason = "its descriptor is the lock")] File);

/// Creates something with a random name beside `name`, and returns the name as well.
fn with_staging_name<T>(name: &OsStr, create: impl Fn(&OsStr) -> rustix::io::Result<T>) -> io::Result<(OsString, T)> {
    for _ in 0..STAGING_ATTEMPTS {
        let staged = staging_name(name);
        match create(&staged) {
            Ok(created) => return Ok((staged, created)),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::Error::other("every name for a temporary file is taken"))
}

/// Whether `entry` is a name that [`staging_name`] makes from `name`, with one of these suffixes.
fn is_staging_name(entry: &OsStr, name: &OsStr, endings: &[&str]) -> bool {
    let rest = entry.as_bytes().strip_prefix(b".").and_then(|rest| rest.strip_prefix(name.as_bytes()));
    let Some((digits, rest)) = rest.and_then(|rest| rest.strip_prefix(b".")?.split_at_checked(RANDOM_DIGITS)) else {
        return false;
    };
    let is_random = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let ending = rest.strip_prefix(b".tmp");
    is_random && ending.is_some_and(|ending| endings.iter().any(|known| known.as_bytes() == ending))
}

/// The number of random hexadecimal digits in a staging name.
const RANDOM_DIGITS: usize = 16;

/// An unpredictable name for a temporary file beside `name`.
pub fn staging_name(name: &OsStr) -> OsString {
    let mut staged = OsString::from(".");
    staged.push(name);
    staged.push(format!(".{:016x}.tmp", random()));
    staged
}

/// A random number, from the seed of the standard library's hash maps, which comes from the system's random source.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Splits a path into its opened folder and the file name.
fn split(path: &Path) -> io::Result<(TrustedFolder, &OsStr)> {
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((TrustedFolder::open(parent)?, name))
}

/// Opens a regular file of the effective user with these flags. A new file is private.
pub fn open_file(path: &Path, flags: OFlags) -> io::Result<File> {
    let (folder, name) = split(path)?;
    folder.open_file(name, flags)
}

/// Checks that the entry at `path` is absent or belongs to the effective user. A link is not followed.
pub fn check(path: &Path) -> io::Result<()> {
    match absent_is_fine(split(path))? {
        Some((folder, name)) => folder.check(name),
        None => Ok(()),
    }
}

/// Checks that the entry at `path` is absent or a regular file of the effective user, without opening it.
pub fn check_file(path: &Path) -> io::Result<()> {
    match absent_is_fine(split(path))? {
        Some((folder, name)) => folder.check_file(name),
        None => Ok(()),
    }
}

/// Reads a file of the effective user. A link is not followed.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let (folder, name) = split(path)?;
    folder.read(name)
}

/// Like [`read`], for UTF-8 text. Other content is [`io::ErrorKind::InvalidData`], as in the standard library.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// Replaces a file; see [`TrustedFolder::replace`].
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let (folder, name) = split(path)?;
    folder.replace(name, content, mode)
}

/// Replaces a file by a copy of `from`, and removes leftovers of interrupted copies.
pub fn replace_with_copy(path: &Path, from: &Path, mode: u32) -> io::Result<()> {
    let (folder, name) = split(path)?;
    let _lock = folder.lock_staging(name)?;
    let mut source = File::open(from)?;
    folder.replace_with(name, mode, |file| io::copy(&mut source, file).map(drop))
}

/// Replaces the entry at `path` by a hard link to `from`, or by a private copy if that is on another file system.
/// Removes leftovers of interrupted writes.
pub fn replace_with_hard_link_or_copy(path: &Path, from: &Path) -> io::Result<()> {
    let (folder, name) = split(path)?;
    let _lock = folder.lock_staging(name)?;
    folder.replace_with_hard_link(name, from).or_else(|_| {
        let mut source = File::open(from)?;
        folder.replace_with(name, crate::file::PRIVATE, |file| io::copy(&mut source, file).map(drop))
    })
}

/// Replaces the entry at `path` by a symbolic link, and removes leftovers of interrupted writes.
pub fn replace_with_link(path: &Path, target: &Path) -> io::Result<()> {
    let (folder, name) = split(path)?;
    let _lock = folder.lock_staging(name)?;
    folder.replace_with_link(name, target)
}

/// Overwrites an existing file in place and keeps its blocks: the file is never truncated below the new content, so
/// that no other program can take the space.
pub fn overwrite(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let file = open_file(path, OFlags::WRONLY)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all_at(content, 0)?;
    file.set_len(content.len() as u64)?;
    file.sync_all()
}

/// The handling of an absent component of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnMissing {
    Fail,
    Create,
}

/// A walk from `/` to a folder.
struct Walk {
    here: OwnedFd,
    /// The current path, for messages.
    path: PathBuf,
    pending: VecDeque<OsString>,
    links: usize,
    /// The owner of `/`, which is not 0 in a user namespace.
    system: u32,
}

/// Opens the folder at `path` for lookups, and returns the owner of `/` as well.
fn walk(path: &Path, on_missing: OnMissing) -> io::Result<(OwnedFd, u32)> {
    let path = std::path::absolute(path)?;
    let here = open_root()?;
    let system = rustix::fs::fstat(&here)?.st_uid;
    let mut walk = Walk { here, path: PathBuf::from("/"), pending: names(&path).collect(), links: 0, system };
    while let Some(name) = walk.pending.pop_front() {
        walk.step(&name, on_missing)?;
    }
    Ok((walk.here, system))
}

impl Walk {
    fn step(&mut self, name: &OsStr, on_missing: OnMissing) -> io::Result<()> {
        match open_folder(&self.here, name) {
            Ok(folder) => self.arrive(folder, name),
            Err(Errno::NOENT) if on_missing == OnMissing::Create => self.create(name)?,
            // These are the errors for a component that is not a folder, for example a link.
            Err(errno @ (Errno::NOTDIR | Errno::LOOP | Errno::MLINK)) => self.follow(name, errno)?,
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    fn arrive(&mut self, folder: OwnedFd, name: &OsStr) {
        self.here = folder;
        self.path.push(name);
    }

    fn create(&mut self, name: &OsStr) -> io::Result<()> {
        match rustix::fs::mkdirat(&self.here, name, Mode::RWXU) {
            // Another process may have created it first.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let path = self.path.join(name);
        let folder = TrustedFolder::own(open_folder(&self.here, name)?, &path)?;
        // The mode above was subject to the umask.
        folder.make_private()?;
        self.arrive(folder.folder, name);
        Ok(())
    }

    fn follow(&mut self, name: &OsStr, errno: Errno) -> io::Result<()> {
        let before = rustix::fs::statat(&self.here, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if !is_link(&before) {
            return Err(errno.into());
        }
        if !is_trusted(before.st_uid, self.system) {
            return Err(refuse_owner(&self.path.join(name), before.st_uid));
        }
        let target = rustix::fs::readlinkat(&self.here, name, Vec::new())?;
        let after = rustix::fs::statat(&self.here, name, AtFlags::SYMLINK_NOFOLLOW)?;
        self.links += 1;
        // A link cannot change its target, so the same inode means that the target belongs to the checked link.
        if (before.st_dev, before.st_ino) != (after.st_dev, after.st_ino) || self.links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            self.here = open_root()?;
            self.path = PathBuf::from("/");
        }
        for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
            self.pending.push_front(name);
        }
        Ok(())
    }
}

/// The names to open in order. `..` stands for the parent of the folder that was reached.
fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

fn open_root() -> rustix::io::Result<OwnedFd> {
    rustix::fs::open("/", SEARCH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn open_folder(within: impl AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = SEARCH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(within, name, flags, Mode::empty())
}

fn is_own(stat: Stat) -> bool {
    stat.st_uid == effective_uid()
}

fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{chown, lchown, symlink},
    };

    use rdd_testkit::capability::require;

    use super::*;

    /// A user who is neither root nor the user of these tests. Only root can change owners.
    const STRANGER: u32 = 4_242;

    fn refusal(result: io::Result<impl fmt::Debug>) -> Refusal {
        let error = result.unwrap_err();
        assert!(is_refusal(&error), "{error}");
        error.get_ref().and_then(|inner| inner.downcast_ref::<Refusal>()).expect("it is one").clone()
    }

    fn refused_owner(result: io::Result<impl fmt::Debug>) -> PathBuf {
        match refusal(result) {
            Refusal::ForeignOwner { path, owner, .. } if owner.uid == STRANGER => path,
            other => panic!("{other:?}"),
        }
    }

    // Finding A-1
    #[test]
    fn a_refusal_names_owner_user_and_fix() {
        let account = |uid, name: &str| Account { uid, name: Some(name.to_owned()) };
        let (root, ann, bob) = (account(0, "root"), account(1000, "ann"), account(1001, "bob"));
        let stranger = Account { uid: 1002, name: None };
        for (owner, runner, fix) in [
            (
                &ann,
                &root,
                "belongs to user ann (uid 1000), and rdd runs as root (uid 0); run rdd as ann, or set HOME to a folder of root's",
            ),
            (
                &root,
                &ann,
                "belongs to user root (uid 0), and rdd runs as ann (uid 1000); give it back with `sudo chown -R ann '/h/.rd2'`",
            ),
            (
                &bob,
                &ann,
                "belongs to user bob (uid 1001), and rdd runs as ann (uid 1000); remove it, or set HOME to a folder of ann's",
            ),
            (
                &stranger,
                &root,
                "belongs to user uid 1002, and rdd runs as root (uid 0); run rdd as 1002, or set HOME to a folder of root's",
            ),
        ] {
            let (path, owner, runner) = (PathBuf::from("/h/.rd2"), owner.clone(), runner.clone());
            let text = Refusal::ForeignOwner { path, owner, runner }.to_string();
            assert_eq!(text, format!("refusing to use /h/.rd2: it {fix}"));
        }
    }

    #[test]
    fn names_come_from_the_list_of_users() {
        let passwd = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n\u{1b}[31m:x:7:7::/:\nbroken\n";
        assert_eq!(find_name(passwd, 1000).as_deref(), Some("ann"));
        assert_eq!((find_name(passwd, 1), find_name(passwd, 7)), (None, None));
    }

    // Finding A-1
    #[test]
    fn a_file_of_another_user_is_neither_read_nor_written_to() {
        if !require("root") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.key");
        fs::write(&path, "planted").unwrap();
        assert_eq!(read_to_string(&path).unwrap(), "planted");
        chown(&path, Some(STRANGER), None).unwrap();
        assert_eq!(refused_owner(read(&path)), path);
        assert_eq!(refused_owner(open_file(&path, OFlags::WRONLY | OFlags::APPEND)), path);
        assert_eq!(refused_owner(check(&path)), path);
        assert_eq!(refused_owner(check_file(&path)), path);
        assert_eq!(refused_owner(TrustedFolder::open(dir.path()).unwrap().check_entries()), path);
        let error = crate::lock::ProcessLock::acquire(&path).unwrap_err();
        assert!(is_refusal(&error), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "planted");
        // Replacing it is safe: the new file is ours.
        replace(&path, b"ours", 0o600).unwrap();
        assert_eq!(read_to_string(&path).unwrap(), "ours");
    }

    // Finding A-1
    #[test]
    fn a_folder_of_another_user_is_refused_and_stays_as_it_is() {
        if !require("root") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tls");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        chown(&path, Some(STRANGER), None).unwrap();
        assert_eq!(refused_owner(TrustedFolder::create(&path)), path);
        assert_eq!(refused_owner(TrustedFolder::open_own(&path)), path);
        assert_eq!(refused_owner(TrustedFolder::open(dir.path()).unwrap().enter("tls")), path);
        assert_eq!(refused_owner(check_home(&path)), path);
        assert_eq!(refused_owner(replace(&path.join("ca.key"), b"", 0o600)), path);
        assert_eq!(refused_owner(read(&path.join("ca.key"))), path);
        let meta = fs::metadata(&path).unwrap();
        assert_eq!((meta.mode() & 0o7777, fs::read_dir(&path).unwrap().count()), (0o755, 0));
    }

    // Finding A-1
    #[test]
    fn a_link_of_another_user_is_refused_at_every_place_of_a_path() {
        if !require("root") {
            return;
        }
        let parts = ["a", "b", "c"];
        for at in 0..parts.len() {
            let dir = tempfile::tempdir().unwrap();
            let real = dir.path().join("real");
            fs::create_dir(&real).unwrap();
            fs::create_dir_all(real.join("b/c")).unwrap();
            fs::create_dir_all(real.join("c")).unwrap();
            let folder = dir.path().join(parts[..at].join("/"));
            fs::create_dir_all(&folder).unwrap();
            let link = folder.join(parts[at]);
            // The name after the link exists in the link's target.
            symlink(&real, &link).unwrap();
            let path = dir.path().join(parts.join("/"));
            assert!(TrustedFolder::create(&path).is_ok(), "one's own link is one's own choice: {}", link.display());
            lchown(&link, Some(STRANGER), None).unwrap();
            for result in [TrustedFolder::create(&path).map(drop), read(&path.join("file")).map(drop)] {
                // The walk's path has the links resolved, as far as it came.
                assert_eq!(refused_owner(result).file_name(), link.file_name());
            }
        }
    }

    // Finding A-1
    #[test]
    fn a_link_in_the_place_of_a_file_or_of_a_folder_below_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, link) = (dir.path().join("victim"), dir.path().join("link"));
        fs::create_dir(&victim).unwrap();
        symlink(&victim, &link).unwrap();
        let folder = TrustedFolder::open(dir.path()).unwrap();
        assert_eq!(refusal(folder.enter("link")), Refusal::Link { path: link.clone() });
        fs::remove_dir(&victim).unwrap();
        assert_eq!(refusal(check_file(&link)), Refusal::Link { path: link.clone() });
        for flags in [OFlags::RDONLY, OFlags::WRONLY | OFlags::CREATE, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE]
        {
            assert_eq!(refusal(open_file(&link, flags)), Refusal::Link { path: link.clone() });
        }
        assert!(!victim.exists());
        // A replaced link is gone, and its target was not written to.
        fs::write(&victim, "old").unwrap();
        replace(&link, b"new", 0o600).unwrap();
        assert_eq!((fs::read_to_string(&victim).unwrap().as_str(), read(&link).unwrap()), ("old", b"new".to_vec()));
    }

    // Finding A-1
    #[test]
    fn a_staging_file_is_new_and_has_a_name_that_cannot_be_foreseen() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        for planted in [".ca.key.1.tmp", "existing"] {
            symlink(&victim, dir.path().join(planted)).unwrap();
            let created = TrustedFolder::open(dir.path()).unwrap().create_new(planted.as_ref());
            assert_eq!(created.unwrap_err(), Errno::EXIST);
        }
        assert!(!victim.exists(), "the link was not followed");
        let names: std::collections::BTreeSet<OsString> = (0..100).map(|_| staging_name("ca.key".as_ref())).collect();
        assert_eq!(names.len(), 100);
    }

    /// Leftovers of an interrupted write, and names that look similar. Only the first three have to be removed.
    fn plant_staging(folder: &Path, victim: &Path) -> [PathBuf; 6] {
        let names = [
            ".k3s.0123456789abcdef.tmp",
            ".k3s.fedcba9876543210.tmp",
            ".k3s.0000000000000000.tmp",
            ".k3s.0123456789ABCDEF.tmp",
            ".k3s.0123456789abcdef.tmp-wal",
            ".k3s.part",
        ];
        let paths = names.map(|name| folder.join(name));
        fs::write(&paths[0], "left").unwrap();
        fs::create_dir(&paths[1]).unwrap();
        fs::write(paths[1].join("left"), "left").unwrap();
        for path in &paths[2..] {
            symlink(victim, path).unwrap();
        }
        paths
    }

    // Finding A-1
    #[test]
    fn leftovers_of_interrupted_writes_are_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, from, target) = (dir.path().join("victim"), dir.path().join("from"), dir.path().join("v1/k3s"));
        fs::create_dir(dir.path().join("v1")).unwrap();
        fs::write(&victim, "victim").unwrap();
        fs::write(&from, "new").unwrap();
        type Write = fn(&Path, &Path) -> io::Result<()>;
        let writes: [Write; 3] =
            [|path, from| replace_with_copy(path, from, 0o700), replace_with_hard_link_or_copy, replace_with_link];
        for write in writes {
            let planted = plant_staging(target.parent().unwrap(), &victim);
            write(&target, &from).unwrap();
            assert_eq!(fs::read_to_string(&target).unwrap(), "new");
            let left = planted.each_ref().map(|path| path.symlink_metadata().is_ok());
            assert_eq!(left, [false, false, false, true, true, true]);
            assert_eq!(fs::read_to_string(&victim).unwrap(), "victim", "no link was followed");
            assert_eq!(fs::read_dir(target.parent().unwrap()).unwrap().count(), 4);
            planted[3..].iter().for_each(|path| fs::remove_file(path).unwrap());
        }
        assert_eq!(fs::read_to_string(&from).unwrap(), "new");
    }

    // Finding A-1
    #[test]
    fn a_staging_file_of_another_user_or_of_a_write_under_way_is_left_alone() {
        if !require("root") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (folder, name) = (TrustedFolder::open(dir.path()).unwrap(), OsStr::new("k3s"));
        let (theirs, _) = folder.create_staging(name).unwrap();
        chown(dir.path().join(&theirs), Some(STRANGER), None).unwrap();
        let lock = folder.lock_staging(name).unwrap();
        let (ours, _) = folder.create_staging(name).unwrap();
        let second = folder.lock_staging(name).unwrap();
        assert!(dir.path().join(&ours).exists(), "the first write is under way");
        drop((lock, second));
        let _lock = folder.lock_staging(name).unwrap();
        assert_eq!((dir.path().join(&ours).exists(), dir.path().join(&theirs).exists()), (false, true));
    }

    #[test]
    fn folders_closed_by_the_umask_and_paths_with_dots_are_walked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let created = TrustedFolder::create(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
        created.make_private().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
        symlink("../a/./b", dir.path().join("a/up")).unwrap();
        replace(&dir.path().join("a/up/../b/file"), b"x", 0o600).unwrap();
        assert_eq!(fs::read(path.join("file")).unwrap(), b"x");
        symlink("loop", dir.path().join("loop")).unwrap();
        assert!(TrustedFolder::open(&dir.path().join("loop")).is_err());
        let error = TrustedFolder::create(&path.join("file/below")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
        assert!(TrustedFolder::open_own(&dir.path().join("none")).unwrap().is_none());
    }

    #[test]
    fn a_pipe_is_refused_and_blocks_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RWXU).unwrap();
        for flags in [OFlags::RDONLY, OFlags::WRONLY] {
            assert_eq!(refusal(open_file(&pipe, flags)), Refusal::NotRegular { path: pipe.clone() });
        }
    }
}
