//! The files of a datastore: their names, private modes, syncing, and detection of network file systems.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions, Permissions},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rdd_stdx::{
    file,
    owned::{self, TrustedFolder},
};

use super::{Error, io_error};

/// The path of a companion file: the datastore's name with a suffix.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// The suffix of the staging name of a datastore that is to replace another one; a random part follows.
const RESTORING: &str = ".restoring";
/// Like [`RESTORING`], for a new datastore.
const NEW: &str = ".new";
/// The suffixes of the files of a SQLite database; the empty one is the main file.
const ENDINGS: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// Why a datastore is staged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To create a datastore where there is none.
    Create,
    /// To replace a datastore, which is set aside or removed first.
    Replace,
}

impl Purpose {
    /// The staging name without its random part.
    fn base(self, path: &Path) -> PathBuf {
        beside(
            path,
            match self {
                Self::Create => NEW,
                Self::Replace => RESTORING,
            },
        )
    }
}

/// Returns a random staging path beside the datastore, and removes what interrupted attempts with the same purpose left. The
/// caller holds the datastore's lock, so no other attempt is in progress.
pub(super) fn stage(path: &Path, purpose: Purpose) -> Result<PathBuf, Error> {
    let base = purpose.base(path);
    let name = base.file_name().unwrap_or_default();
    let swept = TrustedFolder::open(folder(path)).and_then(|folder| folder.remove_staging(name, &ENDINGS));
    swept.map_err(io_error("remove what was left of", &base))?;
    Ok(folder(path).join(owned::staging_name(name)))
}

/// The staged datastore that an interrupted restore or reset left, if there is one.
fn interrupted(path: &Path) -> Result<Option<PathBuf>, Error> {
    let base = Purpose::Replace.base(path);
    let name = base.file_name().unwrap_or_default();
    let found = TrustedFolder::open(folder(path)).and_then(|folder| folder.staging_entries(name, &[""]));
    let found = found.map_err(io_error("look for what was left of", &base))?;
    Ok(found.into_iter().next().map(|name| folder(path).join(name)))
}

/// The folder that contains a file.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

pub(super) fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

/// Creates the private folder of the datastore.
///
/// # Errors
/// [`Error::Network`] if it is on a network file system, unless `allow_network`.
pub(super) fn prepare_folder(path: &Path, allow_network: bool) -> Result<(), Error> {
    let folder = folder(path);
    file::create_dir_private(folder)?;
    match network(folder).map_err(io_error("inspect the file system of", folder))? {
        Some(kind) if !allow_network => Err(Error::Network { path: path.to_owned(), kind }),
        _ => Ok(()),
    }
}

/// Refuses a datastore if another user owns one of its files or if one is a symbolic link. It does not open the files: closing a
/// file would release a POSIX lock that this process holds on it.
pub(super) fn check_owner(path: &Path) -> Result<(), Error> {
    for suffix in ENDINGS {
        let file = beside(path, suffix);
        owned::check_file(&file).map_err(io_error("open", &file))?;
    }
    Ok(())
}

/// Refuses to create a datastore where only the main file is missing: that is an interrupted restore or reset.
pub(super) fn check_not_interrupted(path: &Path) -> Result<(), Error> {
    let wal = beside(path, "-wal");
    let left = if wal.exists() { Some(wal) } else { interrupted(path)? };
    let Some(left) = left else { return Ok(()) };
    let left = left.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Err(Error::Interrupted { path: path.to_owned(), left })
}

/// Creates the empty private lock file unless the path exists. It does not open an existing file: closing it would release a lock
/// that this process holds on it.
pub(super) fn create_private(path: &Path) -> Result<(), Error> {
    match create_new_private(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created.map_err(io_error("create", path)),
    }
}

/// Creates an empty private file at a path that does not exist, not even as a link.
pub(super) fn create_new_private(path: &Path) -> io::Result<()> {
    let created = OpenOptions::new().write(true).create_new(true).mode(file::PRIVATE).open(path)?;
    // The umask may have removed bits from the mode given to `open`.
    created.set_permissions(Permissions::from_mode(file::PRIVATE))
}

/// Makes existing files private.
pub(super) fn make_private(path: &Path) -> Result<(), Error> {
    for path in [path.to_owned(), beside(path, "-wal")] {
        match fs::metadata(&path) {
            Ok(meta) if meta.permissions().mode() & 0o7777 != file::PRIVATE => {
                fs::set_permissions(&path, Permissions::from_mode(file::PRIVATE))
                    .map_err(io_error("make private", &path))?;
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io_error("inspect", &path)(error)),
        }
    }
    Ok(())
}

/// Syncs the content of a file to disk.
pub(super) fn sync(path: &Path) -> Result<(), Error> {
    let synced = fs::File::open(path).and_then(|file| file.sync_all()).map_err(io_error("sync", path));
    #[cfg(test)]
    sync_journal::record(path, synced.is_ok());
    synced
}

/// Syncs the folder of a file, which makes the file's name durable.
pub(super) fn sync_name(path: &Path) -> Result<(), Error> {
    let synced = file::sync_dir(folder(path));
    #[cfg(test)]
    sync_journal::record(folder(path), synced.is_ok());
    Ok(synced?)
}

/// Records each sync and what it covered, because a test cannot observe fsync from outside.
#[cfg(test)]
pub(super) mod sync_journal {
    use std::{
        fs,
        path::{Path, PathBuf},
        sync::Mutex,
    };

    static RECORDS: Mutex<Vec<SyncRecord>> = Mutex::new(Vec::new());

    /// One successful fsync.
    #[derive(Debug, Clone)]
    pub(in crate::sqlite) struct SyncRecord {
        pub(in crate::sqlite) path: PathBuf,
        /// For a file: its size when it was synced.
        pub(in crate::sqlite) bytes: u64,
        /// For a folder: the names in it when it was synced.
        pub(in crate::sqlite) names: Vec<String>,
    }

    pub(super) fn record(path: &Path, was_synced: bool) {
        if !was_synced {
            return;
        }
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        let record = SyncRecord { path: path.to_owned(), bytes: super::size(path), names };
        RECORDS.lock().unwrap().push(record);
    }

    /// The records of `folder` and of the files in it, oldest first. Tests run in parallel, each in its own folder.
    pub(in crate::sqlite) fn of_folder(folder: &Path) -> Vec<SyncRecord> {
        let records = RECORDS.lock().unwrap();
        records.iter().filter(|record| record.path.starts_with(folder)).cloned().collect()
    }
}

#[cfg(target_os = "linux")]
fn network(folder: &Path) -> io::Result<Option<String>> {
    // The width and sign of the field differ between architectures; the magic numbers have 32 bits.
    #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "only the low 32 bits mean anything")]
    let magic = rustix::fs::statfs(folder)?.f_type as u32;
    Ok(network_kind(magic).map(str::to_owned))
}

#[cfg(not(target_os = "linux"))]
fn network(_folder: &Path) -> io::Result<Option<String>> {
    Ok(None)
}

/// The name of the network file system with this magic number (statfs(2) and the kernel's `magic.h`).
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "other systems have no magic numbers"))]
fn network_kind(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x0000_6969 => "NFS",
        0x0000_517b => "SMB",
        0xfe53_4d42 => "SMB2",
        0xff53_4d42 => "CIFS",
        0x0102_1997 => "9p",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x0000_564c => "NCP",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        0x786f_4256 => "VirtualBox shared folder",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_magic_and_local_ones_are_not() {
        for (magic, kind) in [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0x0102_1997, "9p"), (0x00c3_6400, "Ceph")] {
            assert_eq!(network_kind(magic), Some(kind));
        }
        // ext4, xfs, btrfs, tmpfs, zfs, overlayfs, FUSE (which may be either).
        for magic in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x2fc1_2fc1, 0x794c_7630, 0x6573_5546] {
            assert_eq!(network_kind(magic), None, "{magic:x}");
        }
    }
}
