//! Whether an instance was created and whether its daemon runs.

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

/// What is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// `args.json` exists.
    pub created: bool,
    /// Who holds the daemon's lock.
    pub daemon: Daemon,
}

/// The daemon's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Daemon {
    /// There is none.
    Stopped,
    /// It runs, under this PID where we can see it.
    Running(Option<u32>),
}

impl Daemon {
    /// Whether it runs.
    pub fn is_running(self) -> bool {
        self != Self::Stopped
    }

    /// Its PID; 0 if there is none to tell.
    pub fn pid_or_zero(self) -> u32 {
        match self {
            Self::Running(Some(pid)) => pid,
            _ => 0,
        }
    }
}

/// Why the state is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file that means "created" cannot be looked at.
    #[error("look for {}", path.display())]
    Args {
        /// That file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// The lock cannot be asked.
    #[error(transparent)]
    Lock(#[from] lock::Error),
    /// The stale PID file cannot be removed.
    #[error(transparent)]
    File(#[from] file::Error),
}

/// Asks the file system and the kernel.
///
/// The PID file is published for scripts and never believed. One that is left over, or names a stranger, is removed here.
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

/// Removes what a daemon that ended left published, and says whether it did: not while somebody is at work there.
///
/// A daemon takes its lock before it publishes anything, so nothing of a new one is touched.
pub fn remove_left_behind(paths: &Paths, files: &[&Path]) -> Result<bool, Error> {
    let Some(_seclusion) = command_lock::try_seclude(paths)? else { return Ok(false) };
    files.iter().try_for_each(|file| file::remove_if_present(file))?;
    Ok(true)
}

/// Who holds the daemon's lock. A command that keeps daemons away holds it too, together with its own: it is none.
pub fn daemon(paths: &Paths) -> Result<Daemon, lock::Error> {
    let mut holder = lock::holder(&paths.lock_file)?;
    loop {
        let Holder::Process(pid) = holder else { return Ok(Daemon::Stopped) };
        if pid.is_some() && lock::holder(&paths.command_lock_file)? == holder {
            return Ok(Daemon::Stopped);
        }
        // Asked again: a command may have let go of both between our two looks.
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
                    // As the daemon does it: a cleaner may have the lock for a moment.
                    let lock = std::iter::repeat_with(|| ProcessLock::acquire(&paths.lock_file)).find_map(Result::ok);
                    fs::write(&paths.pid_file, "1").unwrap();
                    std::thread::yield_now();
                    assert!(paths.pid_file.exists(), "turn {turn}: it was removed under its owner");
                    // It dies, and what it published stays behind.
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
