//! Files that are whole or absent, and private under any umask.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

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
/// The mode is set explicitly, so a hostile umask neither opens the file nor locks its owner out.
pub fn write_atomic(path: &Path, content: &[u8], mode: u32) -> Result<(), Error> {
    let staged = staging_name(path);
    if let Err(source) = write_and_rename(&staged, path, content, mode) {
        // The staging file is ours alone; if removing it fails too, the first failure is still the one to tell.
        let _ = fs::remove_file(&staged);
        return Err(failed("write", path)(source));
    }
    sync_dir(parent(path))
}

fn write_and_rename(staged: &Path, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(staged)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(staged, path)
}

/// Makes `path` and its missing parents, each for the owner alone; tightens `path` if it was there and laxer.
pub fn create_dir_private(path: &Path) -> Result<(), Error> {
    if let Some(parent) = path.parent()
        && !parent.as_os_str().is_empty()
        && !parent.exists()
    {
        create_dir_private(parent)?;
    }
    match fs::create_dir(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        Err(error) => return Err(failed("create folder", path)(error)),
    }
    let mode = fs::metadata(path).map_err(failed("inspect", path))?.permissions().mode() & 0o7777;
    if mode == PRIVATE_DIR {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(PRIVATE_DIR)).map_err(failed("make private", path))
}

/// Opens `path` for appending, created private if missing.
pub fn open_append_private(path: &Path) -> Result<File, Error> {
    let file = OpenOptions::new().append(true).create(true).mode(PRIVATE).open(path).map_err(failed("open", path))?;
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

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Beside the target, so that the rename stays on one file system; with our PID, so that two writers do not share it.
fn staging_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    parent(path).join(format!(".{name}.{}.tmp", std::process::id()))
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
