//! Builds test programs from the copy of the tree and runs the test that must catch a mutant.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    fmt,
    fs::{self, File},
    io::BufReader,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::Message;
use rdd_stdx::process::Process;
use rustix::process::{Pid, Signal, kill_process_group};

use super::{Mutant, TestName, copy};
use crate::test::{SingleTests, cargo_command};

/// The timeout of a test: ten times the slowest one. A mutant may cause an endless loop, which counts as caught.
const TEST_TIMEOUT: Duration = Duration::from_secs(600);
/// The timeout of a build, which takes a fraction of it; it stops a linker that hangs.
const BUILD_TIMEOUT: Duration = Duration::from_secs(1800);
/// Packages without a library that together use nearly every feature of every dependency.
///
/// Cargo unifies features over the packages that it builds. With these packages added, dependencies get the same features as in a build of
/// the whole workspace, and are not built again.
const FEATURE_PACKAGES: &[&str] = &["rdd", "rdd-bench", "xtask"];

/// The result of trying a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Caught,
    /// The test ran until its timeout.
    CaughtByTimeout,
    Survived,
    /// The mutant does not compile, so nothing is known about the test.
    NotBuilt,
    /// The test fails without the mutant too.
    Unsound,
    /// The time was over.
    NotTried,
}

impl Outcome {
    pub(super) fn is_caught(&self) -> bool {
        matches!(self, Self::Caught | Self::CaughtByTimeout)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Caught => "caught",
            Self::CaughtByTimeout => "caught by time",
            Self::Survived => "SURVIVED",
            Self::NotBuilt => "DOES NOT BUILD",
            Self::Unsound => "FAILS WITHOUT",
            Self::NotTried => "not tried",
        })
    }
}

/// The result of a build.
enum Build {
    Program(PathBuf),
    Refused,
    OutOfTime,
}

pub(super) struct Judge {
    folder: PathBuf,
    started: Instant,
    deadline: Option<Instant>,
    tests: RefCell<SingleTests>,
}

impl Judge {
    /// Creates the copy of the tree and its target folder, replacing those of an earlier run.
    pub(super) fn prepare(root: &Path, at_most: Option<Duration>) -> Result<Self> {
        let started = Instant::now();
        let built = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let folder = root.join("target/mutants");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
        }
        copy::copy_sources(root, &folder.join("tree"))?;
        copy::seed_target(&built, &folder.join("target"))?;
        fs::create_dir_all(folder.join("log")).context("make a folder for logs")?;
        let target = folder.join("target");
        // Under CI a test that lacks a capability fails. It would otherwise be skipped, and a skip would look like a pass.
        let variables = vec![("CI", PathBuf::from("true")), ("CARGO_TARGET_DIR", target.clone())];
        let tests = SingleTests::new(target.join("debug/rdd"), variables)?;
        let deadline = at_most.map(|limit| started + limit);
        Ok(Self { folder, started, deadline, tests: RefCell::new(tests) })
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Finds the tests, all of one program, that fail without any mutant; `None` if the time is over.
    pub(super) fn find_failing<'t>(&self, tests: &BTreeSet<&'t TestName>) -> Result<Option<BTreeSet<&'t TestName>>> {
        let Some(first) = tests.first() else { return Ok(Some(BTreeSet::new())) };
        let program = match self.build(first)? {
            Build::Program(program) => program,
            Build::Refused => bail!("{} {} does not build without any mutant", first.package, first.target),
            Build::OutOfTime => return Ok(None),
        };
        let mut failing = BTreeSet::new();
        for test in tests {
            match self.run(&program, test)? {
                Outcome::Survived => {}
                Outcome::NotTried => return Ok(None),
                _ => drop(failing.insert(*test)),
            }
        }
        Ok(Some(failing))
    }

    /// Plants the mutant, builds, runs its test, and restores the copy.
    pub(super) fn try_mutant(&self, mutant: &Mutant) -> Result<Outcome> {
        if self.time_left().is_zero() {
            return Ok(Outcome::NotTried);
        }
        let saved = mutant.plant(&self.tree()).with_context(|| format!("plant mutant {:?}", mutant.name))?;
        let outcome = self.build(&mutant.test).and_then(|build| match build {
            Build::Program(program) => self.run(&program, &mutant.test),
            Build::Refused => Ok(Outcome::NotBuilt),
            Build::OutOfTime => Ok(Outcome::NotTried),
        });
        for (path, content) in saved {
            // Written with the current time, so that cargo notices that the mutated build is out of date.
            let restored = match content {
                Some(content) => fs::write(&path, content),
                None => fs::remove_file(&path),
            };
            restored.with_context(|| format!("restore {}", path.display()))?;
        }
        outcome.with_context(|| format!("judge mutant {:?}", mutant.name))
    }

    fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    fn time_left(&self) -> Duration {
        let now = Instant::now();
        self.deadline.map_or(BUILD_TIMEOUT, |deadline| deadline.saturating_duration_since(now))
    }

    /// Builds the program of a test; for end-to-end tests, the `rdd` binary first.
    fn build(&self, test: &TestName) -> Result<Build> {
        if test.package == "rdd-e2e" {
            let built = self.cargo(&["build", "--bin", "rdd"], "rdd", "rdd")?;
            if !matches!(built, Build::Program(_)) {
                return Ok(built);
            }
        }
        let name = match test.target.as_str() {
            "lib" => test.package.replace('-', "_"),
            "bin" => test.package.clone(),
            name => name.to_owned(),
        };
        let target: Vec<&str> = match test.target.as_str() {
            "lib" => vec!["--lib"],
            "bin" => vec!["--bin", &test.package],
            name => vec!["--test", name],
        };
        self.cargo(&[&["test", "--no-run"][..], &target].concat(), &test.package, &name)
    }

    /// Runs cargo in the copy, at most for the remaining time, and finds the target's program in its messages.
    fn cargo(&self, words: &[&str], package: &str, target: &str) -> Result<Build> {
        let output = self.folder.join("log/cargo.json");
        let mut packages = BTreeSet::from([package]);
        packages.extend(FEATURE_PACKAGES);
        let mut child = cargo_command()
            .current_dir(self.tree())
            .env("CARGO_TARGET_DIR", self.folder.join("target"))
            .args(words)
            .args(["--locked", "--quiet", "--message-format=json"])
            .args(packages.iter().flat_map(|package| ["--package", package]))
            .stdout(File::create(&output).with_context(|| format!("write {}", output.display()))?)
            // Its own process group, so that the compilers can be killed with it.
            .process_group(0)
            .spawn()
            .context("run cargo")?;
        let process = Process::open(child.id()).context("watch cargo")?;
        let ended = process.is_none_or(|process| process.wait(self.time_left()).unwrap_or(false));
        if !ended {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            let killed = group.map(|group| kill_process_group(group, Signal::KILL));
            killed.transpose().context("stop cargo")?;
            child.wait().context("wait for cargo")?;
            return Ok(Build::OutOfTime);
        }
        let succeeded = child.wait().context("wait for cargo")?.success();
        let log = BufReader::new(File::open(&output).context("read the output of cargo")?);
        let (mut program, mut messages) = (None, String::new());
        for message in Message::parse_stream(log) {
            match message.context("read the output of cargo")? {
                Message::CompilerArtifact(artifact) if artifact.target.name == target => {
                    program = artifact.executable.map(PathBuf::from).or(program);
                }
                Message::CompilerMessage(message) => messages.extend(message.message.rendered),
                _ => {}
            }
        }
        if !succeeded {
            println!("{messages}");
            return Ok(Build::Refused);
        }
        program.map(Build::Program).with_context(|| format!("cargo names no program for {package} {target}"))
    }

    /// Runs one test: `Survived` if it passes.
    fn run(&self, program: &Path, test: &TestName) -> Result<Outcome> {
        let limit = self.time_left().min(TEST_TIMEOUT);
        let folder = self.tree().join(test.folder());
        let result = self.tests.borrow_mut().run(program, &folder, &test.name, limit)?;
        ensure!(!result.is_interrupted && !self.tests.borrow().is_interrupted(), "interrupted");
        let log = self.folder.join("log").join(format!("{}.txt", test.name.replace("::", "-")));
        fs::write(&log, &result.output).with_context(|| format!("write {}", log.display()))?;
        Ok(match () {
            // The whole run's time was over, not the test's own.
            () if result.timed_out && limit < TEST_TIMEOUT => Outcome::NotTried,
            () if result.timed_out => Outcome::CaughtByTimeout,
            () if !result.problems.is_empty() => Outcome::Caught,
            () if result.passed == 0 => bail!("{} {} has no test {}", test.package, test.target, test.name),
            () => Outcome::Survived,
        })
    }
}
