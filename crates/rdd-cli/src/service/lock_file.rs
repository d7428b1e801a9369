//! Lock files of an instance, looked at before they are opened: a pipe in the place of one would never open.

use std::{fs, io, path::Path};

use rdd_stdx::{
    lock::{self, Error, Holder, ProcessLock},
    process::Process,
};

/// As [`ProcessLock::acquire`], for regular files only.
pub fn acquire(path: &Path) -> Result<ProcessLock, Error> {
    refuse_irregular(path)?;
    ProcessLock::acquire(path)
}

/// As [`lock::holder`], for regular files only.
pub fn holder(path: &Path) -> Result<Holder, Error> {
    refuse_irregular(path)?;
    lock::holder(path)
}

/// As [`lock::open_holder`], for regular files only.
pub fn open_holder(path: &Path) -> Result<Option<Process>, Error> {
    refuse_irregular(path)?;
    lock::open_holder(path)
}

/// A lock on a file that was moved or removed meanwhile excludes nobody.
pub fn is_held_in_place(path: &Path) -> Result<bool, Error> {
    Ok(holder(path)? == Holder::Process(Some(std::process::id())))
}

fn refuse_irregular(path: &Path) -> Result<(), Error> {
    // What cannot be looked at is told by the attempt to open it.
    match fs::metadata(path) {
        Ok(meta) if !meta.is_file() => {
            let source = io::Error::other("it is not a regular file; remove it");
            Err(Error::Io { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{User, make_pipe};

    #[test]
    fn a_pipe_in_the_place_of_a_lock_is_named_and_nobody_waits_for_its_other_end() {
        let user = User::new();
        assert_eq!(user.run("svc create").code, 0);
        let paths = user.instance().paths;
        make_pipe(&paths.lock_file);
        for line in ["svc status", "svc stop", "svc start", "svc delete"] {
            let ran = user.run(line);
            let expected = format!("lock {}: it is not a regular file; remove it", paths.lock_file.display());
            assert_eq!((ran.code, ran.messages()), (1, vec![expected]), "{line}");
        }
        std::fs::remove_file(&paths.lock_file).unwrap();
        std::fs::remove_file(&paths.command_lock_file).unwrap();
        make_pipe(&paths.command_lock_file);
        let ran = user.run("svc delete");
        assert_eq!(ran.code, 1);
        assert!(ran.messages()[0].ends_with("command.lock: it is not a regular file; remove it"), "{}", ran.stderr);
    }
}
