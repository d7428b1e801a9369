//! Files that are whole or absent, and private under any umask.

use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use crate::owned::{self, TrustedFolder};

/// Owner may read and write, nobody else anything.
pub const PRIVATE: u32 = 0o600;
/// As [`PRIVATE`], for folders.
pub const PRIVATE_DIR: u32 = 0o700;

/// A file operation that failed, with the path it failed on.
#[derive(Debug, thiserror::Error)]
#[error("{action} {}", path.display())]
pub struct Error {
    /// What was attempted, as a verb: `write`, `create folder`.
    pub action: &'static str,
    /// On which path.
    pub path: PathBuf,
    /// What the operating system said.
    #[source]
    pub source: io::Error,
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error { action, path: path.to_owned(), source }
}

/// Replaces `path` by `content` so that a reader, or a machine that loses power, sees the old file or the new one.
///
/// The mode is set explicitly, so a hostile umask neither opens the file nor locks its owner out. The folder must
/// belong to
/// the effective user or to the system; see [`owned`].
pub fn write_atomic(path: &Path, content: &[u8], mode: u32) -> Result<(), Error> {
    owned::replace(path, content, mode).map_err(failed("write", path))
}

/// Replaces `path` as [`write_atomic`] does. Where no space is left, a file that is there is overwritten in place, which needs
/// no further space as long as the content takes no more blocks than the old one.
///
/// Only for files that every start writes again: whoever reads in the middle of overwriting, or after a loss of power in the
/// middle of it, finds parts of both contents.
pub fn rewrite(path: &Path, content: &[u8], mode: u32) -> Result<(), Error> {
    let Err(error) = owned::replace(path, content, mode) else { return Ok(()) };
    if !is_out_of_space(&error) {
        return Err(failed("write", path)(error));
    }
    // Why there is no new file is what the user has to know, not that the old one was too small as well.
    owned::overwrite(path, content, mode).map_err(|_| failed("write", path)(error))
}

fn is_out_of_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Makes `path` and its missing parents, each for the owner alone; tightens `path` if it was there and laxer. One that
/// belongs to another user is refused.
pub fn create_dir_private(path: &Path) -> Result<(), Error> {
    TrustedFolder::create(path).map(drop).map_err(failed("create folder", path))
}

/// Opens `path` for appending, created private if missing. A file of another user is refused.
pub fn open_append_private(path: &Path) -> Result<File, Error> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
    let file = owned::open_file(path, flags).map_err(failed("open", path))?;
    file.set_permissions(Permissions::from_mode(PRIVATE)).map_err(failed("make private", path))?;
    Ok(file)
}

/// Makes renames, creations and removals inside `folder` durable.
pub fn sync_dir(folder: &Path) -> Result<(), Error> {
    File::open(folder).and_then(|dir| dir.sync_all()).map_err(failed("sync folder", folder))
}

/// Removes a file; that it is absent already is fine.
pub fn remove_if_present(path: &Path) -> Result<(), Error> {
    absent_is_fine(fs::remove_file(path)).map_err(failed("remove", path))
}

/// Removes a folder with everything in it; that it is absent already is fine. Links are removed, not followed.
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

    // Finding A-8: on a full disk the daemon writes its PID and its kubeconfig this way.
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
