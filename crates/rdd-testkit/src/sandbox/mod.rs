//! An instance for one test: its own home and name, the real binary, and no remains after the test.

pub(crate) mod place;

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use place::{NOBODY, install_for_nobody, next_instance, rdd_binary, run_root};

use rdd_stdx::process::background;
use tempfile::TempDir;

use crate::{
    bounded::{self, Outcome, Output},
    bundle,
    processes::{self, Info, Owned, Table},
};

/// The timeout of every command; one that takes longer hangs.
const COMMAND_TAKES: Duration = Duration::from_secs(60);
/// How long a daemon may take to end after SIGTERM.
const DAEMON_ENDS: Duration = Duration::from_secs(5);

/// A home folder and an instance name that no other test uses.
///
/// Dropping it ends every process of the instance and removes the home. If the test is failing, it first writes a support bundle
/// ([`bundle::write`]) and prints its path.
#[derive(Debug)]
pub struct Sandbox {
    instance: String,
    home: PathBuf,
    binary: PathBuf,
    environment: Vec<(OsString, OsString)>,
    umask: Option<u32>,
    user: Option<u32>,
    /// The folder that contains `home`, if no test runner provides one.
    _root: Option<TempDir>,
}

/// Settings of a [`Sandbox`] that differ from the defaults.
#[derive(Debug, Default)]
pub struct SandboxBuilder {
    environment: Vec<(OsString, OsString)>,
    binary: Option<PathBuf>,
    umask: Option<u32>,
    without_home: bool,
    as_nobody: bool,
}

impl SandboxBuilder {
    /// Sets a variable for every command; a later value replaces an earlier one, including the sandbox's own.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Runs this binary instead of the one that was built with the tests.
    pub fn binary(mut self, binary: &Path) -> Self {
        self.binary = Some(binary.to_owned());
        self
    }

    /// Runs every command with this umask, such as `0o000` or `0o777`.
    pub fn umask(mut self, umask: u32) -> Self {
        self.umask = Some(umask);
        self
    }

    /// Runs every command without `HOME`.
    pub fn without_home(mut self) -> Self {
        self.without_home = true;
        self
    }

    /// Runs every command as the user nobody, who then owns the home. Requires root.
    pub fn as_nobody(mut self) -> Self {
        self.as_nobody = true;
        self
    }

    /// Writes logs to this folder (`RDD_LOG_DIR`).
    pub fn log_dir(self, folder: &Path) -> Self {
        self.env("RDD_LOG_DIR", folder)
    }

    /// Creates the home folder and chooses the name.
    ///
    /// # Panics
    ///
    /// If the folder cannot be created, or if the binary was not built.
    pub fn build(self) -> Sandbox {
        let (root, run_root) = run_root().expect("make a temporary folder");
        let instance = next_instance();
        let home = run_root.join(&instance);
        fs::create_dir(&home).expect("make a home folder");
        let mut binary = self.binary.unwrap_or_else(rdd_binary);
        if self.as_nobody {
            binary = install_for_nobody(&home, &binary).expect("hand the home to nobody");
        }
        let mut environment: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
            ("RDD_INSTANCE".into(), instance.clone().into()),
            // Set explicitly, since the default depends on the binary's path.
            ("RDD_DEVELOPER_MODE".into(), "false".into()),
        ];
        if !self.without_home {
            environment.push(("HOME".into(), home.clone().into()));
        }
        environment.extend(self.environment);
        let user = self.as_nobody.then_some(NOBODY);
        Sandbox { instance, home, binary, environment, umask: self.umask, user, _root: root }
    }
}

impl Sandbox {
    /// A sandbox with the default settings.
    #[expect(clippy::new_without_default, reason = "it makes folders, which a default should not")]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A builder for a sandbox with other settings.
    pub fn builder() -> SandboxBuilder {
        SandboxBuilder::default()
    }

    /// The instance's name.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The home folder, even if commands run without `HOME`.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The binary under test.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Runs `rdd` with these arguments to its end.
    ///
    /// # Panics
    ///
    /// If it cannot be started, or if it does not end within 60 s; it is then killed, after a support bundle has been written.
    #[track_caller]
    pub fn rdd<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Output {
        self.run(self.command(arguments))
    }

    /// Runs any command to its end, with the timeout and the support bundle of [`Sandbox::rdd`].
    ///
    /// # Panics
    ///
    /// Like [`Sandbox::rdd`].
    #[track_caller]
    pub fn run(&self, mut command: Command) -> Output {
        let mut evidence = String::new();
        let outcome = bounded::run(&mut command, COMMAND_TAKES, |pid| {
            evidence = self.leave_evidence(&format!("a command took more than {COMMAND_TAKES:?}"), Some(pid));
        });
        match outcome {
            Ok(Outcome::Ended(output)) => output,
            Ok(Outcome::TimedOut(output)) => {
                panic!(
                    "{command:?} did not end within {COMMAND_TAKES:?}; {evidence}\n{}\n{}",
                    output.stdout, output.stderr
                )
            }
            Err(error) => panic!("{command:?}: {error}"),
        }
    }

    /// The command `rdd` with these arguments in this sandbox, not started.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = match self.umask {
            None => background(&self.binary, Path::new("/")),
            Some(umask) => {
                // The umask belongs to the process, so a shell sets it and then execs the program.
                let mut shell = background("/bin/sh", Path::new("/"));
                shell.args(["-c", &format!("umask {umask:04o}; exec \"$0\" \"$@\"")]).arg(&self.binary);
                shell
            }
        };
        command.args(arguments);
        self.dress(&mut command);
        command
    }

    /// Sets the environment and the user of this sandbox on a command.
    pub fn dress(&self, command: &mut Command) {
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
    }

    /// The current processes of this instance.
    pub fn processes(&self) -> Vec<Info> {
        let owned = Owned { instance: self.instance.clone(), root: self.home.clone() };
        Table::read().map(|table| table.of(&owned)).unwrap_or_default()
    }

    /// Ends every process of this instance; returns those that remain.
    pub fn end_processes(&self) -> Vec<Info> {
        let mut left = Vec::new();
        // Repeated, since a process may start another between the listing and the signal.
        for _ in 0..3 {
            let found: Vec<Info> = self.processes().into_iter().filter(|process| !process.is_zombie()).collect();
            if found.is_empty() {
                return left;
            }
            left = processes::end(&found, DAEMON_ENDS);
        }
        left
    }

    /// Writes a support bundle and returns a message with its path.
    fn leave_evidence(&self, reason: &str, also: Option<u32>) -> String {
        let mut found = self.processes();
        if let Some(pid) = also.filter(|pid| found.iter().all(|process| process.pid != *pid)) {
            found.extend(processes::look_at(pid));
        }
        let thread = std::thread::current();
        let subject = bundle::Subject {
            name: thread.name().unwrap_or("test"),
            reason,
            processes: &found,
            homes: std::slice::from_ref(&self.home),
            output: "",
        };
        match bundle::write(&bundle::default_parent(), &subject) {
            Ok(folder) => format!("support bundle: {}", folder.display()),
            Err(error) => format!("no support bundle: {error}"),
        }
    }
}

impl Drop for Sandbox {
    #[expect(clippy::print_stderr, reason = "the failing test's captured output says where its evidence is")]
    fn drop(&mut self) {
        let is_failing = std::thread::panicking();
        if is_failing {
            eprintln!("{}", self.leave_evidence("the test failed", None));
        }
        let left = self.end_processes();
        // A daemon that is being reaped may still write; what remains is in the run's folder, which the test runner removes.
        let _ = fs::remove_dir_all(&self.home);
        if !is_failing {
            assert!(left.is_empty(), "instance {} left processes that cannot be killed: {left:?}", self.instance);
        }
    }
}

#[cfg(test)]
mod tests;
