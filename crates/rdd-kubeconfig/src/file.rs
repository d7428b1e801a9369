//! One kubeconfig on disk: read whole, changed in memory, replaced whole, and not touched when nothing differs.

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

/// Why a kubeconfig was not written. It is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A link leads nowhere that a file could be.
    #[error("resolve {}", path.display())]
    Resolve {
        /// The link.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// It cannot be read.
    #[error("read the kubeconfig {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// It is a folder, a pipe or a device.
    #[error("the kubeconfig {} is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// It cannot be changed with certainty.
    #[error("the kubeconfig {} was left alone, for it cannot be changed with certainty", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: Refused,
    },
    /// Its mode says that nobody may write to it.
    #[error("the kubeconfig {} is read-only (to have contexts put into it: chmod u+w)", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// Somebody else writes it, or left a lock behind.
    #[error("the lock {} is held by another program (if no kubectl is running, remove it)", path.display())]
    Locked {
        /// The lock.
        path: PathBuf,
    },
    /// No lock can be made.
    #[error("lock the kubeconfig with {} (is its folder writable?)", path.display())]
    Lock {
        /// The lock.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// It cannot be replaced.
    #[error("write the kubeconfig {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// It is written so often that there was no moment to change it.
    #[error("the kubeconfig {} is changed by others all the time", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// There is no file to write to.
    #[error("no kubeconfig to write to: none of the paths in KUBECONFIG can be one")]
    Nowhere,
    /// The task that wrote it ended without a result.
    #[error("the task that changes a kubeconfig ended early")]
    Ended,
}

/// How many times it is tried without holding the lock over all of it.
const ATTEMPTS: usize = 2;
/// Links that lead to links, at most.
const LINKS_MAX: usize = 40;

/// What a file held at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) text: String,
    /// None if there is no such file.
    meta: Option<fs::Metadata>,
    /// Whether somebody was writing it, so that this may be half of it.
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

/// Where a path leads, links followed: a target that is not there is one to be made.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, Error> {
    let fail = |source| Error::Resolve { path: path.to_owned(), source };
    let mut target = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::symlink_metadata(&target) {
            Ok(meta) if meta.is_symlink() => {
                // The user may keep the file elsewhere. A link of somebody else would have root write where they like.
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

/// Reads a file that others may be writing, and says when that was seen.
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

/// Changes a file as `plan` says of its text; `false` if nothing differed, and then nothing was touched, locks included.
///
/// The new text is made and written aside without the lock. Under the lock it is looked whether the old one is still what
/// it was made from, and then it is replaced. So kubectl, which does not wait for a lock, hardly ever meets ours.
pub(crate) fn modify(
    path: &Path,
    patience: &Patience,
    plan: impl Fn(&str) -> Result<Vec<Change>, Refused>,
) -> Result<bool, Error> {
    modify_on(&SystemDisk, path, patience, plan)
}

/// What decides whether a replaced file survives a loss of power. Tests record the order in which it is called.
trait Disk {
    /// Makes the content of a file durable.
    fn sync_file(&self, file: &File) -> io::Result<()>;
    /// Gives a file the name of another one, whose place it takes.
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
        // After so many attempts in vain others have to wait.
        let mut held = if attempt < ATTEMPTS { None } else { Some(acquire(path, &target, patience)?) };
        let seen = read_at(path, &target);
        let is_doubtful = held.is_none() && !seen.as_ref().is_ok_and(|seen| !seen.is_doubtful);
        let made = seen.and_then(|seen| {
            let text = change(path, &seen.text, &plan)?;
            Ok((text != seen.text).then_some((seen, text)))
        });
        let (seen, text) = match made {
            Ok(Some(made)) => made,
            // Half a file has nothing of ours, or makes no sense. It is worth another look.
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
            // Whether it survives a loss of power concerns no other writer.
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

/// The new text beside the old one, until it takes its place or is dropped.
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
        let mode = old.map_or(PRIVATE, |meta| meta.permissions().mode() & 0o7777);
        if mode & 0o222 == 0 || old.is_some() && rustix::fs::access(target, rustix::fs::Access::WRITE_OK).is_err() {
            return Err(Error::ReadOnly { path: path.to_owned() });
        }
        let folder = target.parent().unwrap_or(Path::new("/"));
        if !folder.exists() {
            durable::create_dir_private(folder).map_err(|error| fail(error.source))?;
        }
        // Whoever owns the folder could exchange the new file, which holds credentials.
        TrustedFolder::open(folder).map_err(fail)?;
        let staging = staging_path(target);
        let staged = Self { path: Some(staging.clone()) };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(&staging).map_err(fail)?;
        if let Some(old) = old {
            // Best effort, as for anybody who may not give files away.
            let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
        }
        file.set_permissions(Permissions::from_mode(mode)).map_err(fail)?;
        file.write_all(text.as_bytes()).map_err(fail)?;
        // Before the rename: a name that is durable before its content would be an empty file after a loss of power.
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
            // It is ours alone, and the next writer removes it if this does not.
            let _ = fs::remove_file(path);
        }
    }
}

/// A name beside a file that nobody else uses and nobody can foresee. What others left under such names is removed.
pub(crate) fn staging_path(beside: &Path) -> PathBuf {
    let folder = beside.parent().unwrap_or(Path::new("/"));
    let prefix = format!(".{}.rdd-", beside.file_name().unwrap_or_default().to_string_lossy());
    remove_leftovers(folder, &prefix);
    folder.join(format!("{prefix}{}-{:016x}.tmp", std::process::id(), owned::random()))
}

/// Removes what a writer left that was killed: it is full of secrets.
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

    /// A disk that forgets everything that was not synced, as one may at a loss of power.
    #[derive(Default)]
    struct ForgetfulDisk {
        synced: RefCell<BTreeSet<u64>>,
        steps: RefCell<Vec<&'static str>>,
        /// What would be in the file if the power were lost right after the rename.
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
