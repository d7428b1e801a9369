//! A real daemon for one test.

use std::{fs, ops::Deref, path::PathBuf, time::Duration};

use rdd_stdx::process::{Process, Signal};

use crate::{Sandbox, bounded::Output};

/// The timeout for the kernel to end a killed process on a busy machine.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);

/// A running daemon in a [`Sandbox`], to which it dereferences. Dropping it ends the daemon; if the test fails, with a support bundle.
#[derive(Debug)]
pub struct Daemon {
    sandbox: Sandbox,
}

impl Deref for Daemon {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl Daemon {
    /// Starts a daemon in a default sandbox and waits until `rdd svc start` reports that it is ready.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_in(Sandbox::new())
    }

    /// Starts a daemon in this sandbox.
    ///
    /// # Panics
    ///
    /// If it does not start.
    /// When it does not start.
    #[track_caller]
    pub fn start_in(sandbox: Sandbox) -> Self {
        sandbox.rdd(&["svc", "start"]).expect_success();
        Self { sandbox }
    }

    /// Starts the API server in this sandbox, without the product's controllers.
    ///
    /// # Panics
    ///
    /// If it does not start.
    /// When it does not start.
    #[track_caller]
    pub fn start_bare_in(sandbox: Sandbox) -> Self {
        sandbox.rdd(&["svc", "start", "--controllers="]).expect_success();
        Self { sandbox }
    }

    /// The daemon of a sandbox that the test itself has started; it may have ended since.
    pub fn of(sandbox: Sandbox) -> Self {
        Self { sandbox }
    }

    /// Stops the daemon with `rdd svc stop` and returns the sandbox with its files, for another start.
    ///
    /// # Panics
    ///
    /// If it does not stop.
    #[track_caller]
    pub fn stop(self) -> Sandbox {
        self.sandbox.rdd(&["svc", "stop"]).expect_success();
        self.sandbox
    }

    /// Returns the sandbox without stopping the daemon, for one that has ended in another way.
    pub fn release(self) -> Sandbox {
        self.sandbox
    }

    /// Kills the daemon, like a crash, and waits until it has ended. Its files remain for another start.
    ///
    /// # Panics
    ///
    /// If it does not run.
    /// When it does not run.
    #[track_caller]
    pub fn kill(&self) {
        let process = Process::open(self.pid()).ok().flatten().expect("the daemon runs");
        process.signal(Signal::KILL).expect("it is ours");
        assert!(process.wait(KILL_TIMEOUT).is_ok_and(|ended| ended), "the daemon outlives SIGKILL");
    }

    /// The daemon's PID, from its PID file.
    ///
    /// # Panics
    ///
    /// If there is no PID file.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        let path = self.path("pid_file");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
        text.trim().parse().unwrap_or_else(|_| panic!("{} holds no PID but {text:?}", path.display()))
    }

    /// The path of the daemon's kubeconfig.
    #[track_caller]
    pub fn config_path(&self) -> PathBuf {
        self.path("config")
    }

    /// A path of the instance, by its key in `rdd svc paths`.
    ///
    /// # Panics
    ///
    /// If there is no such key.
    #[track_caller]
    pub fn path(&self, key: &str) -> PathBuf {
        let Output { stdout, .. } = self.sandbox.rdd(&["svc", "paths", key]).expect_success();
        PathBuf::from(stdout.trim_end_matches('\n'))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{processes::look_at, sandbox::place::copy_program};

    /// A fake `rdd` with the commands that the tests use, and a sleep as its daemon.
    const STAND_IN: &str = r#"#!/bin/sh
case "$1 $2 $3" in
"svc start ") setsid sleep 621 >/dev/null 2>&1 & echo $! > "$HOME/rdd.pid" ;;
"svc stop ") kill "$(cat "$HOME/rdd.pid")" ;;
"svc paths pid_file") echo "$HOME/rdd.pid" ;;
"svc paths config") echo "$HOME/config.yaml" ;;
*) echo "unknown: $*" >&2; exit 1 ;;
esac
"#;

    fn sandbox(folder: &Path) -> Sandbox {
        fs::write(folder.join("text"), STAND_IN).unwrap();
        let program = copy_program(&folder.join("text"), &folder.join("rdd")).unwrap();
        Sandbox::builder().binary(&program).build()
    }

    fn is_alive(pid: u32) -> bool {
        look_at(pid).is_some_and(|process| !process.is_zombie())
    }

    #[test]
    fn a_daemon_is_started_found_and_stopped_and_its_files_remain() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = Daemon::start_in(sandbox(folder.path()));
        let pid = daemon.pid();
        assert!(is_alive(pid));
        assert_eq!(daemon.config_path(), daemon.home().join("config.yaml"));
        let sandbox = daemon.stop();
        crate::eventually("the daemon's end", std::time::Duration::from_secs(10), || (!is_alive(pid)).then_some(()));
        assert!(sandbox.home().join("rdd.pid").exists());
    }

    #[test]
    fn a_daemon_that_nobody_stops_ends_with_its_value() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = Daemon::start_in(sandbox(folder.path()));
        let (pid, home) = (daemon.pid(), daemon.home().to_owned());
        drop(daemon);
        assert!(!is_alive(pid));
        assert!(!home.exists());
    }

    #[test]
    #[should_panic(expected = "unknown: svc paths typo")]
    fn a_command_that_fails_fails_the_test_with_its_words() {
        let folder = tempfile::tempdir().unwrap();
        // The sandbox is dropped before the panic, so this test, which passes, leaves no support bundle.
        let output = sandbox(folder.path()).rdd(&["svc", "paths", "typo"]);
        output.expect_success();
    }
}
