//! The command lock: only one command at a time changes an instance.

use std::{
    io,
    time::{Duration, Instant},
};

use rdd_instance::Paths;
use rdd_stdx::{
    file,
    lock::{self, ProcessLock},
};

use super::{ControlPlane, deadline::Deadline};
use crate::report::{Failure, Outcome};

/// How often a held lock is retried.
const RETRY: Duration = Duration::from_millis(20);
/// How long a command waits before it reports whom it waits for.
const PATIENCE: Duration = Duration::from_secs(1);

/// The right to change an instance, held until dropped.
#[derive(Debug)]
pub struct CommandLock {
    _lock: ProcessLock,
}

/// Why the lock could not be taken.
#[derive(Debug)]
enum Obstacle {
    /// Another process holds it; its PID, if known.
    Held(Option<u32>),
    /// The instance's folder was removed during the attempt, by the previous holder.
    Vanished(Failure),
    /// It cannot be taken; waiting does not help.
    Refused(Failure),
}

/// Waits for the command lock. Creates the instance's folder if it is missing.
///
/// After a second of waiting, reports which process holds the lock.
///
/// # Errors
///
/// A deadline failure if the lock is still held at the deadline, and a failure if the lock file cannot be created or opened.
pub fn hold(plane: &ControlPlane<'_>, deadline: Deadline) -> Outcome<CommandLock> {
    let began = Instant::now();
    let mut told = false;
    loop {
        let whom = match try_hold(plane.paths()) {
            Ok(lock) => return Ok(CommandLock { _lock: lock }),
            Err(Obstacle::Refused(failure)) => return Err(failure),
            // A folder that keeps vanishing is not being removed by a command: its path is broken.
            Err(Obstacle::Vanished(failure)) if began.elapsed() >= PATIENCE || deadline.has_passed() => {
                return Err(failure);
            }
            Err(Obstacle::Vanished(_)) => None,
            Err(Obstacle::Held(Some(pid))) => Some(format!("process {pid}")),
            Err(Obstacle::Held(None)) => Some("another process".to_owned()),
        };
        if let Some(whom) = whom {
            if deadline.has_passed() {
                let what = format!("timed out waiting for {whom}, which is changing {:?}", plane.name());
                return Err(Failure::deadline(what));
            }
            if !told && began.elapsed() >= PATIENCE {
                told = true;
                plane.record().info(&format!("waiting for {whom}, which is changing {:?}", plane.name()));
            }
        }
        // Polling: file locks have no timeout.
        std::thread::sleep(deadline.left_up_to(RETRY));
    }
}

fn try_hold(paths: &Paths) -> Result<ProcessLock, Obstacle> {
    let path = &paths.command_lock_file;
    file::create_dir_private(&paths.dir).map_err(of_folder)?;
    let of_lock = |error| match error {
        lock::Error::Held { holder, .. } => Obstacle::Held(holder),
        lock::Error::Io { ref source, .. } => obstacle(source.kind(), error),
        error => Obstacle::Refused(error.into()),
    };
    let lock = ProcessLock::acquire(path).map_err(of_lock)?;
    // The holder may have removed the folder after this process opened the file; a lock on a removed file protects nothing.
    if lock.is_in_place().map_err(of_lock)? {
        return Ok(lock);
    }
    Err(Obstacle::Vanished(Failure::message(format!("{} was replaced while it was locked", path.display()))))
}

/// Classifies an error on the folder. `AlreadyExists` without a file in its place means that the folder was removed in between.
fn of_folder(error: file::Error) -> Obstacle {
    let was_there = error.source.kind() == io::ErrorKind::AlreadyExists;
    let is_file = std::fs::metadata(&error.path).is_ok_and(|meta| !meta.is_dir());
    let kind = if was_there && !is_file { io::ErrorKind::NotFound } else { error.source.kind() };
    obstacle(kind, error)
}

fn obstacle(kind: io::ErrorKind, error: impl Into<Failure>) -> Obstacle {
    if kind == io::ErrorKind::NotFound { Obstacle::Vanished(error.into()) } else { Obstacle::Refused(error.into()) }
}

/// Takes the daemon's lock, so that no daemon can start while its files are removed or replaced.
///
/// Assumes that the caller holds the [`CommandLock`]: other processes recognise by it that the holder is not a daemon.
pub fn hold_daemon_lock(plane: &ControlPlane<'_>) -> Result<ProcessLock, lock::Error> {
    ProcessLock::acquire(&plane.paths().lock_file)
}

/// Holds both locks, so that neither commands nor daemons run.
#[derive(Debug)]
pub struct Seclusion {
    // Dropped in this order: whoever sees a command hold the daemon's lock also sees it hold the command lock.
    _daemon: ProcessLock,
    _command: Option<ProcessLock>,
}

/// Takes both locks of an instance; this process may hold the command lock already.
///
/// Returns `None` if another process holds one, or if the folder does not exist. Never waits and never creates the folder.
pub fn try_seclude(paths: &Paths) -> Result<Option<Seclusion>, lock::Error> {
    let command = match ProcessLock::acquire(&paths.command_lock_file) {
        Ok(lock) => Some(lock),
        Err(lock::Error::Held { holder: Some(pid), .. }) if pid == std::process::id() => None,
        Err(error) => return unless_busy_or_gone(error),
    };
    match ProcessLock::acquire(&paths.lock_file) {
        Ok(daemon) if daemon.is_in_place()? => Ok(Some(Seclusion { _daemon: daemon, _command: command })),
        Ok(_) => Ok(None),
        Err(error) => unless_busy_or_gone(error),
    }
}

fn unless_busy_or_gone(error: lock::Error) -> Result<Option<Seclusion>, lock::Error> {
    match error {
        lock::Error::Held { .. } => Ok(None),
        lock::Error::Io { ref source, .. } if source.kind() == io::ErrorKind::NotFound => Ok(None),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{User, make_pipe};

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

    #[test]
    fn a_lock_that_leads_nowhere_is_named_soon_and_not_tried_for_ever() {
        let user = User::new();
        let paths = user.instance().paths;
        file::create_dir_private(&paths.dir).unwrap();
        std::os::unix::fs::symlink("/nonexistent/folder/lock", &paths.command_lock_file).unwrap();
        let began = Instant::now();
        let ran = user.run("svc create");
        assert_eq!(ran.code, 1);
        assert!(ran.messages()[0].starts_with(&format!("lock {}: ", paths.command_lock_file.display())), "{ran:?}");
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }

    #[test]
    fn a_folder_that_is_removed_under_a_command_is_made_again() {
        let user = User::new();
        let paths = user.instance().paths;
        std::thread::scope(|scope| {
            let holds = scope.spawn(|| {
                for turn in 0..3000 {
                    match try_hold(&paths) {
                        Ok(lock) => std::fs::remove_file(lock.path()).unwrap(),
                        Err(Obstacle::Vanished(_)) => {}
                        Err(obstacle) => panic!("turn {turn}: {obstacle:?}"),
                    }
                }
            });
            while !holds.is_finished() {
                // Only an empty folder can be removed this way.
                let _ = std::fs::remove_dir(&paths.dir);
            }
            holds.join().unwrap();
        });
    }

    #[test]
    fn a_pipe_in_the_place_of_a_lock_is_named_and_nobody_waits_for_its_other_end() {
        let user = User::new();
        assert_eq!(user.run("svc create").code, 0);
        let paths = user.instance().paths;
        make_pipe(&paths.lock_file);
        for line in ["svc status", "svc stop", "svc start", "svc delete"] {
            let ran = user.run(line);
            let expected = {
                let path = paths.lock_file.display();
                format!("lock {path}: refusing to use {path}: it is not a regular file; remove it")
            };
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
