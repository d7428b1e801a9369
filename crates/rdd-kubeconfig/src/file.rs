//! Reads and atomically replaces a kubeconfig on disk; a file that would not change is not touched.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rdd_stdx::{
    file::{self as durable, PRIVATE},
    owned::{self, OFlags, TrustedFolder},
    process::Process,
};

use crate::{
    edit::{BYTES_MAX, Change, Refused, edit},
    lock::{self, Lock, Patience},
};

/// Why a kubeconfig was not written. The file is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A symbolic link cannot be resolved.
    #[error("resolve {}", path.display())]
    Resolve {
        /// The link.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The file cannot be read.
    #[error("read the kubeconfig {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The path is a folder, a pipe or a device.
    #[error("the kubeconfig {} is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The text cannot be edited safely, for example because it is malformed.
    #[error("the kubeconfig {} was left alone, for it cannot be changed with certainty", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The line and the reason.
        #[source]
        source: Refused,
    },
    /// The file is not writable.
    #[error("the kubeconfig {} is read-only (to have contexts put into it: chmod u+w)", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// Another program holds the lock, or left it behind.
    #[error("the lock {} is held by another program (if no kubectl is running, remove it)", path.display())]
    Locked {
        /// The lock.
        path: PathBuf,
    },
    /// The lock file cannot be created or removed.
    #[error("lock the kubeconfig with {} (is its folder writable?)", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The file cannot be replaced.
    #[error("write the kubeconfig {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Other programs change the file so often that every attempt was outdated.
    #[error("the kubeconfig {} is changed by others all the time", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// There is no path to write to.
    #[error("no kubeconfig to write to: none of the paths in KUBECONFIG can be one")]
    Nowhere,
    /// The task that writes the file panicked or was aborted.
    #[error("the task that changes a kubeconfig ended early")]
    Ended,
}

/// How many attempts work without holding the lock; later ones hold it for the whole attempt.
const ATTEMPTS: usize = 2;
/// The maximum length of a chain of symbolic links.
const LINKS_MAX: usize = 40;

/// The content of a file at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) text: String,
    /// `None` if the file does not exist.
    meta: Option<fs::Metadata>,
    /// Whether another program was writing the file, so that the text may be incomplete.
    is_doubtful: bool,
}

impl Snapshot {
    pub(crate) fn exists(&self) -> bool {
        self.meta.is_some()
    }

    pub(crate) fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }
}

/// Resolves symbolic links. A target that does not exist is a file to create.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, Error> {
    let fail = |source| Error::Resolve { path: path.to_owned(), source };
    let mut target = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::symlink_metadata(&target) {
            Ok(meta) if meta.is_symlink() => {
                // Users may keep the file elsewhere. A link that another user owns could make root write to a file of
                // their choice.
                owned::check_link(&target, &meta).map_err(fail)?;
                let next = fs::read_link(&target).map_err(fail)?;
                target = target.parent().unwrap_or(Path::new("/")).join(next);
            }
            Ok(_) => return Ok(target),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(target),
            Err(error) => return Err(fail(error)),
        }
    }
    Err(fail(io::Error::other("too many links")))
}

/// Reads a file, and detects whether other programs may be writing it.
pub(crate) fn read(path: &Path) -> Result<Snapshot, Error> {
    let target = resolve(path)?;
    read_at(path, &target)
}

fn read_at(path: &Path, target: &Path) -> Result<Snapshot, Error> {
    let was_held = lock::is_held([path, target]);
    let fail = |source| Error::Read { path: path.to_owned(), source };
    let before = match fs::metadata(target) {
        Ok(meta) if !meta.is_file() => return Err(Error::NotAFile { path: path.to_owned() }),
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Snapshot { text: String::new(), meta: None, is_doubtful: was_held });
        }
        Err(error) => return Err(fail(error)),
    };
    let mut bytes = Vec::new();
    let limit = BYTES_MAX as u64 + 1;
    let file = owned::open_file(target, OFlags::RDONLY).map_err(fail)?;
    file.take(limit).read_to_end(&mut bytes).map_err(fail)?;
    let after = fs::metadata(target).map_err(fail)?;
    let moment = |meta: &fs::Metadata| (meta.ino(), meta.size(), meta.ctime(), meta.ctime_nsec());
    let is_doubtful = was_held || moment(&before) != moment(&after) || lock::is_held([path, target]);
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        Error::Refused { path: path.to_owned(), source: Refused { line, why: "it is not UTF-8".to_owned() } }
    })?;
    Ok(Snapshot { text, meta: Some(after), is_doubtful })
}

/// Changes a file as `plan` computes it from the text. Returns `false` if the text would not change; then nothing is
/// touched, not even the lock.
///
/// # Flow
/// The new text is computed and written to a staging file without the lock. Under the lock, the function checks that
/// the file still has the old text, and renames the staging file over it. The lock is held briefly, because kubectl
/// fails immediately when it finds a lock.
///
/// # Guarantees
/// Readers see the old or the new text, never a part. A crash or a loss of power leaves one of the two.
///
/// # Errors
/// See [`Error`]; the file is unchanged, except that a failed sync of the folder is reported after the rename.
pub(crate) fn modify(
    path: &Path,
    patience: &Patience,
    plan: impl Fn(&str) -> Result<Vec<Change>, Refused>,
) -> Result<bool, Error> {
    modify_on(&SystemDisk, path, patience, plan)
}

/// The file operations that decide whether a replaced file survives a loss of power. Tests record their order.
trait Disk {
    /// Makes the content of a file durable.
    fn sync_file(&self, file: &File) -> io::Result<()>;
    /// Renames a file over another one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

struct SystemDisk;

impl Disk for SystemDisk {
    fn sync_file(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        durable::sync_dir(folder).map_err(|error| error.source)
    }
}

fn modify_on(
    disk: &impl Disk,
    path: &Path,
    patience: &Patience,
    plan: impl Fn(&str) -> Result<Vec<Change>, Refused>,
) -> Result<bool, Error> {
    let target = resolve(path)?;
    let deadline = Instant::now() + patience.wait;
    let mut attempt = 0;
    loop {
        // After these attempts, hold the lock from the start so that other programs have to wait.
        let mut held = if attempt < ATTEMPTS { None } else { Some(acquire(path, &target, patience)?) };
        let seen = read_at(path, &target);
        let is_doubtful = held.is_none() && !seen.as_ref().is_ok_and(|seen| !seen.is_doubtful);
        let made = seen.and_then(|seen| {
            let text = change(path, &seen.text, &plan)?;
            Ok((text != seen.text).then_some((seen, text)))
        });
        let (seen, text) = match made {
            Ok(Some(made)) => made,
            // An incomplete file may lack our entries or be malformed, so read it again.
            _ if is_doubtful && Instant::now() < deadline => {
                lock::clear([path, &target]);
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            Ok(None) => return Ok(false),
            Err(error) => return Err(error),
        };
        let staged = Staged::write(disk, path, &target, &text, seen.meta.as_ref())?;
        if held.is_none() {
            held = Some(acquire(path, &target, patience)?);
        }
        if read_at(path, &target).is_ok_and(|now| now.text == seen.text && now.exists() == seen.exists()) {
            staged.commit(disk, path, &target)?;
            drop(held);
            // The sync does not concern other writers, so it happens after releasing the lock.
            let synced = disk.sync_folder(target.parent().unwrap_or(Path::new("/")));
            return synced.map(|()| true).map_err(|source| Error::Write { path: path.to_owned(), source });
        }
        attempt += 1;
        if attempt > 10 * ATTEMPTS {
            return Err(Error::Busy { path: path.to_owned() });
        }
    }
}

fn acquire(path: &Path, target: &Path, patience: &Patience) -> Result<Lock, Error> {
    Lock::acquire([path, target], patience)
}

fn change(path: &Path, text: &str, plan: impl Fn(&str) -> Result<Vec<Change>, Refused>) -> Result<String, Error> {
    let all = || plan(text)?.iter().try_fold(text.to_owned(), |text, change| edit(&text, change));
    all().map_err(|source| Error::Refused { path: path.to_owned(), source })
}

/// The new text in a staging file, which is removed on drop unless it was committed.
#[derive(Debug)]
struct Staged {
    path: Option<PathBuf>,
}

impl Staged {
    fn write(
        disk: &impl Disk,
        path: &Path,
        target: &Path,
        text: &str,
        old: Option<&fs::Metadata>,
    ) -> Result<Self, Error> {
        let fail = |source| Error::Write { path: path.to_owned(), source };
        // A new file is private, since it contains credentials; an existing one keeps its mode.
        let mode = old.map_or(PRIVATE, |meta| meta.permissions().mode() & 0o7777);
        if mode & 0o222 == 0 || old.is_some() && rustix::fs::access(target, rustix::fs::Access::WRITE_OK).is_err() {
            return Err(Error::ReadOnly { path: path.to_owned() });
        }
        let folder = target.parent().unwrap_or(Path::new("/"));
        if !folder.exists() {
            durable::create_dir_private(folder).map_err(|error| fail(error.source))?;
        }
        // The owner of the folder could replace the staging file, which contains credentials.
        TrustedFolder::open(folder).map_err(fail)?;
        let staging = staging_path(target);
        let staged = Self { path: Some(staging.clone()) };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(&staging).map_err(fail)?;
        if let Some(old) = old {
            // Best effort: only root may change the owner of a file.
            let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
        }
        file.set_permissions(Permissions::from_mode(mode)).map_err(fail)?;
        file.write_all(text.as_bytes()).map_err(fail)?;
        // Sync before the rename. If the name became durable before the content, a loss of power could leave an empty
        // file.
        disk.sync_file(&file).map_err(fail)?;
        Ok(staged)
    }

    fn commit(mut self, disk: &impl Disk, path: &Path, target: &Path) -> Result<(), Error> {
        let Some(staging) = self.path.take() else { return Ok(()) };
        let renamed = disk.rename(&staging, target);
        if renamed.is_err() {
            self.path = Some(staging);
        }
        renamed.map_err(|source| Error::Write { path: path.to_owned(), source })
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            // The file is private; if this fails, the next writer removes it.
            let _ = fs::remove_file(path);
        }
    }
}

/// An unpredictable name beside a file for a staging file of this process. Removes the staging files of dead processes.
pub(crate) fn staging_path(beside: &Path) -> PathBuf {
    let folder = beside.parent().unwrap_or(Path::new("/"));
    let prefix = format!(".{}.rdd-", beside.file_name().unwrap_or_default().to_string_lossy());
    remove_leftovers(folder, &prefix);
    folder.join(format!("{prefix}{}-{:016x}.tmp", std::process::id(), owned::random()))
}

/// Removes the staging files of killed processes, since they contain credentials.
fn remove_leftovers(folder: &Path, prefix: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(prefix)?.strip_suffix(".tmp")) else {
            continue;
        };
        let pid = rest.split('-').next().and_then(|pid| pid.parse().ok());
        if pid.is_some_and(|pid| matches!(Process::open(pid), Ok(None))) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::BTreeSet};

    use rdd_stdx::clock::SystemClock;

    use super::*;

    /// A disk that loses everything that was not synced, as at a loss of power.
    #[derive(Default)]
    struct ForgetfulDisk {
        synced: RefCell<BTreeSet<u64>>,
        steps: RefCell<Vec<&'static str>>,
        /// The content of the file if the power failed right after the rename.
        left: RefCell<Option<String>>,
    }

    impl Disk for ForgetfulDisk {
        fn sync_file(&self, file: &File) -> io::Result<()> {
            self.steps.borrow_mut().push("sync file");
            self.synced.borrow_mut().insert(file.metadata()?.ino());
            SystemDisk.sync_file(file)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.steps.borrow_mut().push("rename");
            let is_durable = self.synced.borrow().contains(&fs::metadata(from)?.ino());
            self.left.replace(Some(if is_durable { fs::read_to_string(from)? } else { String::new() }));
            SystemDisk.rename(from, to)
        }

        fn sync_folder(&self, folder: &Path) -> io::Result<()> {
            self.steps.borrow_mut().push("sync folder");
            SystemDisk.sync_folder(folder)
        }
    }

    // Finding A-11
    #[test]
    fn a_loss_of_power_after_the_rename_leaves_the_whole_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        fs::write(&path, "current-context: old\n").unwrap();
        let disk = ForgetfulDisk::default();
        let patience = Patience { clock: SystemClock::shared(), wait: Duration::from_secs(5) };
        let plan = |_: &str| Ok(vec![Change::SetCurrent("new".to_owned())]);
        assert!(modify_on(&disk, &path, &patience, plan).unwrap());
        assert_eq!(disk.left.borrow().as_deref(), Some("current-context: new\n"));
        assert_eq!(*disk.steps.borrow(), ["sync file", "rename", "sync folder"]);
    }
}
