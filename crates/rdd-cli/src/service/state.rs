//! Observes whether an instance exists and whether its daemon runs.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rdd_instance::Paths;
use rdd_stdx::{
    file,
    lock::{self, Holder},
};

use super::command_lock;

/// The state of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Whether the instance exists, which means that `args.json` exists.
    pub created: bool,
    /// The daemon, which is the holder of the daemon's lock.
    pub daemon: Daemon,
}

/// The state of the daemon's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Daemon {
    /// No daemon runs.
    Stopped,
    /// A daemon runs; its PID, unless it is in a PID namespace that is not visible here.
    Running(Option<u32>),
}

impl Daemon {
    /// Whether a daemon runs.
    pub fn is_running(self) -> bool {
        self != Self::Stopped
    }

    /// Its PID; 0 if none runs or the PID is unknown.
    pub fn pid_or_zero(self) -> u32 {
        match self {
            Self::Running(Some(pid)) => pid,
            _ => 0,
        }
    }
}

/// Why the state could not be observed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `args.json` could not be checked.
    #[error("look for {}", path.display())]
    Args {
        /// The path of `args.json`.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// The holder of a lock could not be determined.
    #[error(transparent)]
    Lock(#[from] lock::Error),
    /// The stale PID file could not be removed.
    #[error(transparent)]
    File(#[from] file::Error),
}

/// Observes the instance through its files and locks.
///
/// The PID file is for scripts only; the lock determines whether a daemon runs. A stale PID file is removed here.
pub fn observe(paths: &Paths) -> Result<State, Error> {
    let created = match fs::metadata(&paths.args_file) {
        Ok(_) => true,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound) => false,
        Err(source) => return Err(Error::Args { path: paths.args_file.clone(), source }),
    };
    let daemon = daemon(paths)?;
    if daemon == Daemon::Stopped && paths.pid_file.exists() {
        remove_left_behind(paths, &[&paths.pid_file])?;
    }
    Ok(State { created, daemon })
}

/// Removes files that an ended daemon published. Returns false, without removing anything, if another command or daemon is active.
///
/// A daemon takes its lock before it publishes files, so a new daemon's files are safe.
pub fn remove_left_behind(paths: &Paths, files: &[&Path]) -> Result<bool, Error> {
    let Some(_seclusion) = command_lock::try_seclude(paths)? else { return Ok(false) };
    files.iter().try_for_each(|file| file::remove_if_present(file))?;
    Ok(true)
}

/// Determines whether a daemon runs. A command that keeps daemons away holds the daemon's lock too, together with the command lock; it does
/// not count as a daemon.
pub fn daemon(paths: &Paths) -> Result<Daemon, lock::Error> {
    let mut holder = lock::holder(&paths.lock_file)?;
    loop {
        let Holder::Process(pid) = holder else { return Ok(Daemon::Stopped) };
        // Both locks in one process: a command, not a daemon.
        if pid.is_some() && lock::holder(&paths.command_lock_file)? == holder {
            return Ok(Daemon::Stopped);
        }
        // Checked again: a command may have released both locks between the two checks.
        let now = lock::holder(&paths.lock_file)?;
        if now == holder {
            return Ok(Daemon::Running(pid));
        }
        holder = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::User;
    use rdd_stdx::lock::ProcessLock;

    #[test]
    fn created_is_the_file_and_running_is_the_lock() {
        let user = User::new();
        let paths = user.instance().paths;
        assert_eq!(observe(&paths).unwrap(), State { created: false, daemon: Daemon::Stopped });
        fs::create_dir_all(&paths.dir).unwrap();
        fs::write(&paths.args_file, "anything").unwrap();
        assert_eq!(observe(&paths).unwrap(), State { created: true, daemon: Daemon::Stopped });
        let lock = ProcessLock::acquire(&paths.lock_file).unwrap();
        let pid = std::process::id();
        assert_eq!(observe(&paths).unwrap().daemon, Daemon::Running(Some(pid)));
        drop(lock);
        assert_eq!(observe(&paths).unwrap().daemon, Daemon::Stopped);
    }

    #[test]
    fn a_pid_file_that_names_a_living_stranger_means_stopped_and_goes_away() {
        let user = User::new();
        let paths = user.instance().paths;
        fs::create_dir_all(&paths.dir).unwrap();
        for content in ["1", &std::process::id().to_string(), "garbage", ""] {
            fs::write(&paths.pid_file, content).unwrap();
            assert_eq!(observe(&paths).unwrap().daemon, Daemon::Stopped, "{content:?}");
            assert!(!paths.pid_file.exists(), "{content:?}");
        }
    }

    #[test]
    fn the_pid_file_of_a_running_daemon_stays() {
        let user = User::new();
        let paths = user.instance().paths;
        fs::create_dir_all(&paths.dir).unwrap();
        fs::write(&paths.pid_file, "1").unwrap();
        let _lock = ProcessLock::acquire(&paths.lock_file).unwrap();
        observe(&paths).unwrap();
        assert!(paths.pid_file.exists());
    }

    #[test]
    fn what_a_new_daemon_publishes_is_never_taken_for_a_left_over() {
        let user = User::new();
        let paths = user.instance().paths;
        fs::create_dir_all(&paths.dir).unwrap();
        std::thread::scope(|scope| {
            let starts = scope.spawn(|| {
                for turn in 0..2000 {
                    // Like the daemon: a cleaner may hold the lock for a moment.
                    let lock = std::iter::repeat_with(|| ProcessLock::acquire(&paths.lock_file)).find_map(Result::ok);
                    fs::write(&paths.pid_file, "1").unwrap();
                    std::thread::yield_now();
                    assert!(paths.pid_file.exists(), "turn {turn}: it was removed under its owner");
                    // The daemon dies, and its files stay.
                    drop(lock);
                }
            });
            while !starts.is_finished() {
                observe(&paths).unwrap();
            }
            starts.join().unwrap();
        });
    }

    #[test]
    fn a_command_that_keeps_daemons_away_is_no_daemon() {
        let user = User::new();
        let paths = user.instance().paths;
        fs::create_dir_all(&paths.dir).unwrap();
        let seclusion = command_lock::try_seclude(&paths).unwrap();
        assert!(seclusion.is_some());
        assert_eq!(daemon(&paths).unwrap(), Daemon::Stopped);
        drop(seclusion);
        let _lock = ProcessLock::acquire(&paths.lock_file).unwrap();
        assert!(command_lock::try_seclude(&paths).unwrap().is_none());
    }

    #[test]
    fn an_unknown_pid_is_shown_as_zero() {
        assert_eq!(Daemon::Running(None).pid_or_zero(), 0);
        assert_eq!(Daemon::Stopped.pid_or_zero(), 0);
        assert_eq!(Daemon::Running(Some(7)).pid_or_zero(), 7);
        assert!(Daemon::Running(None).is_running());
    }
}
