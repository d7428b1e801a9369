//! File operations that are atomic and durable, with private modes under any umask.

use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use crate::owned::{self, TrustedFolder};

/// The mode of private files: only the owner may read and write.
pub const PRIVATE: u32 = 0o600;
/// The mode of private folders.
pub const PRIVATE_DIR: u32 = 0o700;

/// A failed file operation and its path.
#[derive(Debug, thiserror::Error)]
#[error("{action} {}", path.display())]
pub struct Error {
    /// The failed action, as a verb: `write`, `create folder`.
    pub action: &'static str,
    /// The path.
    pub path: PathBuf,
    /// The error of the operating system.
    #[source]
    pub source: io::Error,
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error { action, path: path.to_owned(), source }
}

/// Replaces the file at `path` atomically: a reader, also after a power loss, sees the old content or the new one.
///
/// The mode is set explicitly, so the umask neither opens the file to others nor closes it to its owner. The folder
/// must belong to
/// the effective user or to the system; see [`owned`].
pub fn write_atomic(path: &Path, content: &[u8], mode: u32) -> Result<(), Error> {
    owned::replace(path, content, mode).map_err(failed("write", path))
}

/// Replaces a file like [`write_atomic`]. If the disk is full, it overwrites an existing file in place, which works as
/// long as the new content does not need more blocks than the old one.
///
/// Use it only for files that every start writes again: a reader during the overwrite, or after a power loss during it,
/// sees parts of both contents.
pub fn rewrite(path: &Path, content: &[u8], mode: u32) -> Result<(), Error> {
    let Err(error) = owned::replace(path, content, mode) else { return Ok(()) };
    if !is_out_of_space(&error) {
        return Err(failed("write", path)(error));
    }
    // Report the first error: the user has to know that the disk is full.
    owned::overwrite(path, content, mode).map_err(|_| failed("write", path)(error))
}

fn is_out_of_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Creates a folder and its missing parents with private modes, and makes an existing folder private.
///
/// # Errors
/// Also if the folder belongs to another user.
pub fn create_dir_private(path: &Path) -> Result<(), Error> {
    TrustedFolder::create(path).map(drop).map_err(failed("create folder", path))
}

/// Opens a file for appending, and creates it private if it is missing. Refuses a file of another user.
pub fn open_append_private(path: &Path) -> Result<File, Error> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
    let file = owned::open_file(path, flags).map_err(failed("open", path))?;
    // Also for an existing file, whose mode may be laxer.
    file.set_permissions(Permissions::from_mode(PRIVATE)).map_err(failed("make private", path))?;
    Ok(file)
}

/// Makes renames, creations and removals in `folder` durable.
pub fn sync_dir(folder: &Path) -> Result<(), Error> {
    File::open(folder).and_then(|dir| dir.sync_all()).map_err(failed("sync folder", folder))
}

/// Removes a file. An absent file is not an error.
pub fn remove_if_present(path: &Path) -> Result<(), Error> {
    absent_is_fine(fs::remove_file(path)).map_err(failed("remove", path))
}

/// Removes a folder recursively. An absent folder is not an error. Symbolic links are removed, not followed.
pub fn remove_dir_if_present(path: &Path) -> Result<(), Error> {
    absent_is_fine(fs::remove_dir_all(path)).map_err(failed("remove folder", path))
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_written_file_replaces_the_old_one_and_has_the_asked_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        write_atomic(&path, b"new", PRIVATE).unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("new", PRIVATE));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no staging file is left behind");
    }

    // Finding A-8: the daemon writes its PID and its kubeconfig like this on a full disk.
    #[test]
    fn a_file_that_is_overwritten_in_place_is_the_same_file_with_the_new_content() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        for (old, new) in [("old and longer", "new"), ("old", "new and longer"), ("", "x")] {
            fs::write(&path, old).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
            let before = fs::metadata(&path).unwrap().ino();
            owned::overwrite(&path, new.as_bytes(), PRIVATE).unwrap();
            assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), (new, PRIVATE));
            assert_eq!(fs::metadata(&path).unwrap().ino(), before);
        }
        assert!(owned::overwrite(&dir.path().join("absent"), b"x", PRIVATE).is_err(), "it makes no file");
        rewrite(&path, b"whole", PRIVATE).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
    }

    #[test]
    fn a_failed_write_names_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("missing/config.yaml");
        let error = write_atomic(&path, b"new", PRIVATE).unwrap_err();
        assert_eq!(error.to_string(), format!("write {}", path.display()));
    }

    #[test]
    fn missing_parents_are_made_private_and_existing_ones_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let path = dir.path().join("a/b");
        create_dir_private(&path).unwrap();
        create_dir_private(&path).unwrap();
        assert_eq!([mode(dir.path()), mode(&dir.path().join("a")), mode(&path)], [0o755, 0o700, 0o700]);
    }

    #[test]
    fn a_laxer_folder_is_tightened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tls");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        create_dir_private(&path).unwrap();
        assert_eq!(mode(&path), PRIVATE_DIR);
    }

    #[test]
    fn removing_what_is_absent_succeeds() {
        let dir = tempfile::tempdir().unwrap();
        remove_if_present(&dir.path().join("none")).unwrap();
        remove_dir_if_present(&dir.path().join("none")).unwrap();
    }
}
