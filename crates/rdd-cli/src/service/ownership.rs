//! Whether the files of an instance belong to the effective user, asked before anything of it is read or created.

use std::{io, path::Path};

use rdd_instance::{Environment, Paths};
use rdd_stdx::owned::{self, TrustedFolder};

/// Refuses an instance of which another user owns the home folder, a folder, a key, a database, a kubeconfig or a
/// socket.
///
/// Under `sudo -E` root has the HOME of the user who called it. Whatever that user put there would count as root's:
/// with a
/// certificate authority of theirs they could sign themselves a certificate of `system:masters`.
pub fn check(paths: &Paths, environment: &Environment) -> io::Result<()> {
    if let Some(home) = &environment.home {
        refusal_only(owned::check_home(Path::new(home)))?;
    }
    check_state_folder(paths)?;
    check_short_folder(paths)?;
    // A folder that the user chose for logs may hold files of others.
    for log in [&paths.stderr_log, &paths.stdout_log] {
        refusal_only(owned::check(log))?;
    }
    Ok(())
}

fn check_state_folder(paths: &Paths) -> io::Result<()> {
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

/// Opens a folder of an instance by its name, so that no link in its place is followed.
fn enter(within: &TrustedFolder, folder: &Path) -> io::Result<Option<TrustedFolder>> {
    let name = folder.file_name().unwrap_or_default();
    Ok(refusal_only(within.enter(name))?.flatten())
}

/// Leaves every other failure to the command that needs the file: it says more about it.
fn refusal_only<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if !owned::is_refusal(&error) => Ok(None),
        other => other.map(Some),
    }
}
