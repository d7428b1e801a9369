//! Checks that an instance's files belong to the effective user, before any of them is read or created.

use std::{io, path::Path};

use rdd_instance::{Environment, Paths};
use rdd_stdx::owned::{self, TrustedFolder};

/// Fails if another user owns the home folder or a folder, key, database, kubeconfig or socket of the instance.
///
/// Under `sudo -E`, root has the HOME of the calling user. Root would trust that user's files: with their own certificate authority they
/// could issue a certificate of `system:masters`. Errors other than wrong ownership are left to the command that needs the file.
pub fn check(paths: &Paths, environment: &Environment) -> io::Result<()> {
    if let Some(home) = &environment.home {
        refusal_only(owned::check_home(Path::new(home)))?;
    }
    check_state_folder(paths)?;
    check_short_folder(paths)?;
    // A log folder that the user chose may contain files of other users, so only our two files are checked.
    for log in [&paths.stderr_log, &paths.stdout_log] {
        refusal_only(owned::check(log))?;
    }
    Ok(())
}

fn check_state_folder(paths: &Paths) -> io::Result<()> {
    // An instance without a state folder has nothing to check.
    let Some(state) = refusal_only(TrustedFolder::open_own(&paths.dir))?.flatten() else { return Ok(()) };
    refusal_only(state.check_entries())?;
    for folder in [Some(paths.tls_dir.as_path()), paths.datastore.parent()].into_iter().flatten() {
        if let Some(folder) = enter(&state, folder)? {
            refusal_only(folder.check_entries())?;
        }
    }
    for folder in [&paths.cache_dir, &paths.k3s_releases] {
        enter(&state, folder)?;
    }
    Ok(())
}

fn check_short_folder(paths: &Paths) -> io::Result<()> {
    let Some(short) = refusal_only(TrustedFolder::open_own(&paths.short_dir))?.flatten() else { return Ok(()) };
    refusal_only(short.check_entries())?;
    for folder in [paths.bin_dir.as_path(), paths.lima_home.as_path()] {
        enter(&short, folder)?;
    }
    if let Some(sockets) = enter(&short, Path::new("controllers"))? {
        refusal_only(sockets.check_entries())?;
    }
    Ok(())
}

/// Opens a folder by its name relative to its parent, so that no symbolic link is followed.
fn enter(within: &TrustedFolder, folder: &Path) -> io::Result<Option<TrustedFolder>> {
    let name = folder.file_name().unwrap_or_default();
    Ok(refusal_only(within.enter(name))?.flatten())
}

/// Ignores every error except wrong ownership: the command that needs the file reports it with more context.
fn refusal_only<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if !owned::is_refusal(&error) => Ok(None),
        other => other.map(Some),
    }
}
