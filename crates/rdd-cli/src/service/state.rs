//! Whether an instance was created and whether its daemon runs.

use std::{fs, io, path::PathBuf};

use rdd_instance::Paths;
use rdd_stdx::{
    file,
    lock::{self, Holder},
};

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
    // Asked a second time with the file in sight: a daemon takes its lock before it writes its PID.
    if daemon == Daemon::Stopped && paths.pid_file.exists() && self::daemon(paths)? == Daemon::Stopped {
        file::remove_if_present(&paths.pid_file)?;
    }
    Ok(State { created, daemon })
}

/// Who holds the daemon's lock.
pub fn daemon(paths: &Paths) -> Result<Daemon, lock::Error> {
    Ok(match lock::holder(&paths.lock_file)? {
        Holder::Nobody => Daemon::Stopped,
        Holder::Process(pid) => Daemon::Running(pid),
    })
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
    fn an_unknown_pid_is_shown_as_zero() {
        assert_eq!(Daemon::Running(None).pid_or_zero(), 0);
        assert_eq!(Daemon::Stopped.pid_or_zero(), 0);
        assert_eq!(Daemon::Running(Some(7)).pid_or_zero(), 7);
        assert!(Daemon::Running(None).is_running());
    }
}
