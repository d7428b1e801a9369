//! One command at a time changes an instance.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use rdd_stdx::{
    file,
    lock::{self, Holder, ProcessLock},
};

use super::{ControlPlane, deadline::Deadline};
use crate::report::{Failure, Outcome};

/// How often a taken lock is tried again.
const RETRY: Duration = Duration::from_millis(20);
/// After this long the user is told what is being waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Held until dropped.
#[derive(Debug)]
pub struct CommandLock {
    _lock: ProcessLock,
}

/// Waits for the right to change the instance. Makes its folder if it is missing.
pub fn hold(plane: &ControlPlane<'_>, deadline: Deadline) -> Outcome<CommandLock> {
    let path = &plane.paths().command_lock_file;
    let began = Instant::now();
    let mut told = false;
    loop {
        // Inside the loop: whoever had the lock may have removed the folder.
        file::create_dir_private(&plane.paths().dir)?;
        let holder = match ProcessLock::acquire(path) {
            Ok(lock) if is_in_place(path)? => return Ok(CommandLock { _lock: lock }),
            Ok(_) => continue,
            Err(lock::Error::Held { holder, .. }) => holder,
            Err(lock::Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        let whom = holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
        if deadline.has_passed() {
            let what = format!("timed out waiting for {whom}, which is changing {:?}", plane.name());
            return Err(Failure::deadline(what));
        }
        if !told && began.elapsed() >= PATIENCE {
            told = true;
            plane.record().info(&format!("waiting for {whom}, which is changing {:?}", plane.name()));
        }
        std::thread::sleep(deadline.left_up_to(RETRY));
    }
}

/// Takes the daemon's own lock, so that none can start while its files are being removed or replaced.
pub fn hold_daemon_lock(plane: &ControlPlane<'_>) -> Result<ProcessLock, lock::Error> {
    ProcessLock::acquire(&plane.paths().lock_file)
}

/// A lock on a file that was removed meanwhile excludes nobody.
fn is_in_place(path: &Path) -> Result<bool, lock::Error> {
    Ok(lock::holder(path)? == Holder::Process(Some(std::process::id())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::User;

    #[test]
    fn a_second_command_waits_and_says_for_whom_until_its_bound() {
        let user = User::new();
        let paths = user.instance().paths;
        file::create_dir_private(&paths.dir).unwrap();
        std::fs::write(&paths.args_file, "[]").unwrap();
        let _lock = ProcessLock::acquire(&paths.command_lock_file).unwrap();
        let ran = user.run("svc delete --timeout=1200ms");
        assert_eq!(ran.code, 4, "{}", ran.stderr);
        let pid = std::process::id();
        assert_eq!(
            ran.messages(),
            [
                format!("waiting for process {pid}, which is changing \"rancher-desktop-2\""),
                format!(
                    "timed out waiting for process {pid}, which is changing \"rancher-desktop-2\": context deadline exceeded"
                ),
            ]
        );
        assert!(paths.args_file.exists(), "nothing was removed");
    }
}
