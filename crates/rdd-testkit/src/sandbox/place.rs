//! Where a sandbox lies, what it is called and which binary it runs.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use rdd_stdx::process::background;
use tempfile::TempDir;

/// The unprivileged user of every Unix.
pub(super) const NOBODY: u32 = 65_534;
/// The folder that a test run owns; the runner (`cargo xtask test`) sets it and looks for leaks in it.
const RUN_ROOT: &str = "RDD_TEST_ROOT";

/// Where homes go: the runner's folder, or one of our own, short because sockets lie below it.
pub(super) fn run_root() -> io::Result<(Option<TempDir>, PathBuf)> {
    if let Some(folder) = std::env::var_os(RUN_ROOT).filter(|value| !value.is_empty()) {
        return Ok((None, folder.into()));
    }
    let root = tempfile::Builder::new().prefix("rdd-").rand_bytes(6).tempdir_in("/tmp")?;
    // Another user's home may lie in it: that one must be able to pass, though not to look around.
    fs::set_permissions(root.path(), Permissions::from_mode(0o711))?;
    let path = root.path().to_owned();
    Ok((Some(root), path))
}

/// A valid instance name that no other live test on this machine has: by process, then by count.
pub(super) fn next_instance() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("t{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// `RDD_BIN`, or the `rdd` that was built beside the test that asks.
pub(super) fn rdd_binary() -> PathBuf {
    if let Some(binary) = std::env::var_os("RDD_BIN").filter(|value| !value.is_empty()) {
        return binary.into();
    }
    let executable = std::env::current_exe().expect("a running program has a path");
    // target/<profile>/deps/<test>
    let profile = executable.ancestors().nth(2).expect("tests lie in target/<profile>/deps");
    profile.join("rdd")
}

/// Gives the home to nobody, with a copy of the binary in it: the repository may lie where nobody may not look.
pub(super) fn install_for_nobody(home: &Path, binary: &Path) -> io::Result<PathBuf> {
    let copy = copy_program(binary, &home.join("rdd"))?;
    for path in [home, &copy] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY))?;
    }
    Ok(copy)
}

/// Copies a program so that it can be run at once.
///
/// Another process writes the copy. Did we, then a child that another thread is just starting would hold it open for
/// writing for a moment, and the kernel runs no file that is open for writing.
pub(crate) fn copy_program(from: &Path, to: &Path) -> io::Result<PathBuf> {
    let mut command = background("install", Path::new("/"));
    let status = command.args(["-m", "755"]).arg(from).arg(to).status()?;
    if !status.success() {
        return Err(io::Error::other(format!("install {}: {status}", to.display())));
    }
    Ok(to.to_owned())
}
