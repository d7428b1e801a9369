//! The command line: arguments, commands, output and exit codes.
//!
//! [`run`] is the entry point that `main` calls. [`parse`] turns arguments into a command; [`commands`] holds the commands and [`service`]
//! what they share about the daemon. Data goes to standard output through [`printer`], messages to standard error through [`record`].

use std::{
    ffi::OsString,
    io::{self, BufRead, IsTerminal},
    path::PathBuf,
    sync::Mutex,
};

use rdd_instance::{Environment, Instance, Name};
use rdd_stdx::clock::{SharedClock, SystemClock};

pub mod app;
pub mod args;
pub mod commands;
pub mod context;
pub mod external;
pub mod go;
pub mod help;
mod klog;
pub mod multicall;
pub mod parse;
pub mod printer;
pub mod progress;
pub mod record;
pub mod report;
pub mod service;
#[cfg(test)]
mod testing;

use context::Context;
use parse::Parsed;
use printer::Stream;
use record::{Format, Level, Look, Recorder};
use report::{ExitCode, Outcome};

/// The version and build of a binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildInfo {
    /// The product's version, from `git describe`.
    pub version: &'static str,
    /// The commit that the binary was built from.
    pub git_commit: &'static str,
    /// The build time, RFC 3339.
    pub build_date: &'static str,
    /// The Rust toolchain and its version.
    pub toolchain: &'static str,
    /// The compiler.
    pub compiler: &'static str,
    /// The platform, as `os/arch`.
    pub platform: &'static str,
    /// The version that the API server reports as `gitVersion`.
    pub git_version: &'static str,
}

/// The options of the daemon.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The instance to serve.
    pub instance: Instance,
    /// The first port to try.
    pub secure_port: u16,
    /// The controllers to run, in the syntax of `--controllers`.
    pub controllers: String,
    /// The verbosity, `-v`.
    pub verbosity: u8,
    /// The format of log lines.
    pub log_format: Format,
    /// The environment variables that the program reads.
    pub environment: Environment,
    /// The version and build of this binary.
    pub build: BuildInfo,
}

/// The functions of the product that this crate does not depend on; the binary provides them.
#[derive(Clone, Copy)]
pub struct Product<'a> {
    /// Runs the daemon, until it is asked to stop.
    pub serve: &'a dyn Fn(ServeOptions) -> anyhow::Result<()>,
    /// Stops and removes every VM of an instance. Only called while no daemon of the instance runs.
    pub remove_machines: &'a dyn Fn(&Instance, &Environment) -> anyhow::Result<()>,
}

impl std::fmt::Debug for Product<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Product")
    }
}

/// Runs a command line and returns the exit code.
///
/// All errors are reported on standard error here; a broken pipe on standard output is a success, as `rdd … | head` expects.
pub fn run(argv: Vec<OsString>, environment: Environment, build: &BuildInfo, product: Product<'_>) -> i32 {
    run_in(World::of_process(), argv, environment, build, product)
}

/// The process's streams, clock and executable, replaced in tests.
pub(crate) struct World {
    pub(crate) stdout: Stream,
    pub(crate) stderr: Stream,
    pub(crate) stdin: Mutex<Box<dyn BufRead + Send>>,
    pub(crate) stdin_is_terminal: bool,
    pub(crate) stdout_is_terminal: bool,
    pub(crate) stderr_is_terminal: bool,
    pub(crate) clock: SharedClock,
    /// This program's executable; `None` asks the operating system when it is needed.
    pub(crate) executable: Option<PathBuf>,
}

impl World {
    fn of_process() -> Self {
        Self {
            stdout: Stream::new(io::stdout()),
            stderr: Stream::new(io::stderr()),
            stdin: Mutex::new(Box::new(io::BufReader::new(io::stdin()))),
            stdin_is_terminal: io::stdin().is_terminal(),
            stdout_is_terminal: io::stdout().is_terminal(),
            stderr_is_terminal: io::stderr().is_terminal(),
            clock: SystemClock::shared(),
            executable: None,
        }
    }
}

pub(crate) fn run_in(
    world: World,
    argv: Vec<OsString>,
    environment: Environment,
    build: &BuildInfo,
    product: Product<'_>,
) -> i32 {
    // Commands replace the recorder once the flags are known.
    let mut record = early_recorder(&world, &environment);
    match execute(world, argv, environment, build, product, &mut record) {
        Ok(()) => ExitCode::Success.number(),
        Err(failure) if failure.is_broken_pipe() => ExitCode::Success.number(),
        Err(failure) => {
            record.failure(&failure);
            failure.exit_code().number()
        }
    }
}

fn execute(
    world: World,
    argv: Vec<OsString>,
    environment: Environment,
    build: &BuildInfo,
    product: Product<'_>,
    record: &mut Recorder,
) -> Outcome {
    // A link named `kubectl` or `yq` becomes that command before anything is parsed.
    let words = multicall::expand(argv).into_iter().skip(1).collect();
    let (instance, words) = parse::take_instance(words);
    let environment = match instance {
        Some(instance) => environment.with_instance(Name::parse(&instance)?.as_str()),
        None => environment,
    };
    // The parser needs no hidden texts, so the tree is built as for users.
    let tree = help::tree(false);
    let parsed = parse::parse(&tree, words)?;
    let mut context = Context::new(world, environment, build, product, record.clone());
    let cli = match parsed {
        Parsed::Version(format) => return commands::version::print(&context, &format),
        Parsed::Help(path) => return commands::help::print(&context, &path),
        Parsed::Run(cli) => cli,
    };
    let Some(command) = cli.command else { return commands::help::print(&context, &["rdd".to_owned()]) };
    context.configure(&cli.global, &command)?;
    // Failures of the command are reported with the level and format that the flags chose.
    *record = context.record.clone();
    commands::dispatch(&context, &cli.global, command)
}

/// The recorder for failures before the flags are parsed.
fn early_recorder(world: &World, environment: &Environment) -> Recorder {
    let level = environment.log_level.as_deref().and_then(|level| Level::parse(level).ok()).unwrap_or(Level::Warn);
    let look = Look::of(Format::Text, world.stderr_is_terminal, environment.no_color, environment.term.as_deref());
    Recorder::new(world.stderr.clone(), world.clock.clone(), look, level)
}
