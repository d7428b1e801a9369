//! The location, name and binary of a sandbox.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use rdd_stdx::process::background;
use tempfile::TempDir;

/// The UID of the unprivileged user `nobody`.
pub(super) const NOBODY: u32 = 65_534;
/// The variable with the folder of a test run; the runner (`cargo xtask test`) sets it and checks it for leaks.
const RUN_ROOT: &str = "RDD_TEST_ROOT";

/// The folder for homes: the runner's, or a new one with a short path, since Unix sockets are below it.
pub(super) fn run_root() -> io::Result<(Option<TempDir>, PathBuf)> {
    if let Some(folder) = std::env::var_os(RUN_ROOT).filter(|value| !value.is_empty()) {
        return Ok((None, folder.into()));
    }
    let root = tempfile::Builder::new().prefix("rdd-").rand_bytes(6).tempdir_in("/tmp")?;
    // Another user's home may be inside: that user must be able to traverse the folder, but not to list it.
    fs::set_permissions(root.path(), Permissions::from_mode(0o711))?;
    let path = root.path().to_owned();
    Ok((Some(root), path))
}

/// A valid instance name that no other running test on this machine has: PID and counter.
pub(super) fn next_instance() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("t{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The binary that `RDD_BIN` names, or the `rdd` that was built with the current test.
pub(super) fn rdd_binary() -> PathBuf {
    if let Some(binary) = std::env::var_os("RDD_BIN").filter(|value| !value.is_empty()) {
        return binary.into();
    }
    let executable = std::env::current_exe().expect("a running program has a path");
    // target/<profile>/deps/<test>
    let profile = executable.ancestors().nth(2).expect("tests lie in target/<profile>/deps");
    profile.join("rdd")
}

/// Makes nobody the owner of the home and copies the binary into it, since nobody may have no access to the repository.
pub(super) fn install_for_nobody(home: &Path, binary: &Path) -> io::Result<PathBuf> {
    let copy = copy_program(binary, &home.join("rdd"))?;
    for path in [home, &copy] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY))?;
    }
    Ok(copy)
}

/// Copies a program so that it can be executed at once.
///
/// Another process writes the copy: a child that another thread starts at that moment would inherit our file descriptor, and the kernel
/// does not execute a file that is open for writing (ETXTBSY).
pub(crate) fn copy_program(from: &Path, to: &Path) -> io::Result<PathBuf> {
    let mut command = background("install", Path::new("/"));
    let status = command.args(["-m", "755"]).arg(from).arg(to).status()?;
    if !status.success() {
        return Err(io::Error::other(format!("install {}: {status}", to.display())));
    }
    Ok(to.to_owned())
}
