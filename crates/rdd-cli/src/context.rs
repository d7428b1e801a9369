//! The context of a command: its environment, streams and settings, resolved once.

use std::{
    cell::OnceCell,
    fmt,
    io::{self, Write},
    path::{Path, PathBuf},
};

use rdd_instance::{Environment, Instance, Platform};
use rdd_stdx::clock::SharedClock;

use crate::{
    BuildInfo, Product, World,
    args::{Command, Global, Service},
    printer::Printer,
    record::{Format, Level, Look, Recorder, resolve_level},
    report::{Failure, Outcome},
};

/// Files that only a source tree has, relative to the executable's folder; they enable developer mode.
const SOURCE_TREE_MARKS: [&str; 2] = ["../cmd/rdd/main.go", "../../crates/rdd/src/main.rs"];

/// What every command gets: environment, build information, output streams and settings.
pub struct Context<'a> {
    /// The environment variables that the program reads.
    pub environment: Environment,
    /// The version and build of this binary.
    pub build: &'a BuildInfo,
    /// The functions that the binary provides: the daemon, and removing VMs.
    pub product: Product<'a>,
    /// Writes data to standard output.
    pub printer: Printer,
    /// Writes messages to standard error.
    pub record: Recorder,
    /// The log level; it also determines the `-v` of a daemon that the command starts.
    pub level: Level,
    /// The format of log records.
    pub format: Format,
    world: World,
    developer: OnceCell<bool>,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("environment", &self.environment).field("level", &self.level).finish()
    }
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        world: World,
        environment: Environment,
        build: &'a BuildInfo,
        product: Product<'a>,
        record: Recorder,
    ) -> Self {
        let printer = Printer::new(world.stdout.clone());
        let (level, format, developer) = (Level::Warn, Format::Text, OnceCell::new());
        Self { environment, build, product, printer, record, level, format, world, developer }
    }

    /// Applies the global flags. An invalid format is reported before an invalid level, as in the original.
    pub(crate) fn configure(&mut self, global: &Global, command: &Command) -> Outcome {
        self.format = Format::parse(&global.log_format)?;
        // The version is a constant: printing it must not depend on the executable's path.
        let developer = || !matches!(command, Command::Version(_)) && self.is_developer_mode();
        // The daemon has its own log settings (`-v`), so `serve` ignores the level of the command line.
        let serving = matches!(command, Command::Service { verb: Some(Service::Serve(_)) });
        let variable = self.environment.log_level.as_deref().filter(|_| !serving);
        let flag = if serving { "" } else { global.log_level.as_str() };
        let (level, chosen) = resolve_level(flag, variable, developer)?;
        self.level = level;
        let (no_color, term) = (self.environment.no_color, self.environment.term.as_deref());
        let look = Look::of(self.format, self.world.stderr_is_terminal, no_color, term);
        let silent = !chosen && level < Level::Info && matches!(look, Look::Terminal { .. });
        // A terminal user who chose no level sees what the command does, without debug messages.
        let threshold = if silent { Level::Info } else { level };
        self.record = Recorder::new(self.world.stderr.clone(), self.world.clock.clone(), look, threshold);
        Ok(())
    }

    /// Whether developer mode is on: by `RDD_DEVELOPER_MODE`, or if the executable is in a source tree.
    pub fn is_developer_mode(&self) -> bool {
        *self.developer.get_or_init(|| match self.environment.developer_mode {
            Some(chosen) => chosen,
            None => self.executable().is_ok_and(|executable| is_in_source_tree(&executable)),
        })
    }

    /// The instance of this command line.
    pub fn instance(&self) -> Outcome<Instance> {
        Ok(Instance::resolve(&self.environment, Platform::current())?)
    }

    /// The path of this program's executable.
    pub fn executable(&self) -> io::Result<PathBuf> {
        match &self.world.executable {
            Some(executable) => Ok(executable.clone()),
            None => std::env::current_exe(),
        }
    }

    /// Whether standard input is a terminal, so that a user can answer questions.
    pub fn stdin_is_terminal(&self) -> bool {
        self.world.stdin_is_terminal
    }

    /// The clock that commands use.
    pub fn clock(&self) -> &SharedClock {
        &self.world.clock
    }

    /// Whether output on standard output may be coloured.
    pub fn stdout_is_colorful(&self) -> bool {
        self.world.stdout_is_terminal && !self.environment.no_color && self.environment.term.as_deref() != Some("dumb")
    }

    /// The width of the terminal on standard output; `None` if it is not a terminal.
    pub fn stdout_terminal(&self) -> Option<usize> {
        let size = rustix::termios::tcgetwinsize(io::stdout());
        // Some terminals report 0 columns.
        let columns = size.map_or(0, |size| usize::from(size.ws_col)).max(40);
        self.world.stdout_is_terminal.then_some(columns)
    }

    /// Prints a question to standard error and reads an answer. Returns whether it is yes.
    pub fn ask(&self, question: &str) -> Outcome<bool> {
        {
            let mut stream = self.world.stderr.lock();
            write!(stream, "{question}")?;
            stream.flush()?;
        }
        let mut answer = String::new();
        self.world.stdin.lock().unwrap_or_else(std::sync::PoisonError::into_inner).read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }

    /// Locks the standard streams for a part that writes its own output, such as kubectl's verbs.
    pub fn with_streams<T>(&self, run: impl FnOnce(rdd_ctl::Streams<'_>) -> T) -> T {
        let (mut out, mut err) = (self.world.stdout.lock(), self.world.stderr.lock());
        let mut input = self.world.stdin.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        run(rdd_ctl::Streams { out: &mut **out, err: &mut **err, input: &mut **input })
    }

    /// Asks for confirmation of a destructive action.
    ///
    /// # Errors
    ///
    /// A failure if the answer is not yes, or if there is no terminal to ask on; scripts pass `--yes`.
    pub fn confirm(&self, what: &str, yes: bool) -> Outcome {
        if yes {
            return Ok(());
        }
        if !(self.world.stdin_is_terminal && self.world.stderr_is_terminal) {
            return Err(
                Failure::message(format!("{what}; nobody is there to confirm it")).hint("add --yes to go ahead")
            );
        }
        match self.ask(&format!("{what}. Go ahead? [y/N] "))? {
            true => Ok(()),
            false => Err(Failure::message("not confirmed, nothing was changed")),
        }
    }
}

fn is_in_source_tree(executable: &Path) -> bool {
    let real = executable.canonicalize().unwrap_or_else(|_| executable.to_owned());
    real.parent().is_some_and(|folder| SOURCE_TREE_MARKS.iter().any(|mark| folder.join(mark).exists()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executable_in_a_source_tree_means_developer_mode() {
        let tree = tempfile::tempdir().unwrap();
        let executable = tree.path().join("target/debug/rdd");
        std::fs::create_dir_all(executable.parent().unwrap()).unwrap();
        std::fs::write(&executable, "").unwrap();
        assert!(!is_in_source_tree(&executable));
        std::fs::create_dir_all(tree.path().join("crates/rdd/src")).unwrap();
        std::fs::write(tree.path().join("crates/rdd/src/main.rs"), "").unwrap();
        assert!(is_in_source_tree(&executable));
        assert!(!is_in_source_tree(Path::new("/usr/bin/rdd")));
    }
}
