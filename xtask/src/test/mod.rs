//! The test runner: runs each test program with a timeout, writes a support bundle if it fails, and cleans up after it.

mod build;
mod counts;
mod interrupt;
mod judges;
mod lane;
mod limit;
mod runner;
mod times;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    thread::ScopedJoinHandle,
    time::Duration,
};

use anyhow::{Context, Result, bail};
pub(crate) use build::cargo_command;
use counts::Counts;
use interrupt::Interrupt;
use judges::JudgeBuild;
pub(crate) use lane::{COMMAND as LANE_COMMAND, serve as serve_lane};
use lane::{LaneChoice, TestLane};
use runner::{Finished, Runner};
use serde::{Deserialize, Serialize};
use times::TestTime;

const SLOWEST_PROGRAMS: usize = 5;
const SLOWEST_TESTS: usize = 10;
const LANE_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The arguments of `cargo xtask test`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    filter: Option<String>,
    only: Option<String>,
    binaries: Vec<PathBuf>,
    count_file: Option<PathBuf>,
    /// Whether to show the tests' output while they run.
    follow: bool,
}

/// Programs that only run when they are named, with the make target that runs them: they take long or have special requirements.
const APART: &[(&str, &str)] = &[("rdd-e2e/soak", "make soak"), ("rdd-e2e/vm", "make test-vm")];

impl Arguments {
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let mut arguments = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} lacks a value"));
            match *word {
                "--only" => arguments.only = Some((*value()?).to_owned()),
                "--binary" => arguments.binaries.push(value()?.into()),
                "--count-file" => arguments.count_file = Some(value()?.into()),
                "--follow" => arguments.follow = true,
                option if option.starts_with('-') => bail!("unknown option {option}"),
                filter if arguments.filter.is_none() => arguments.filter = Some(filter.to_owned()),
                extra => bail!("one filter is enough, and {extra:?} is a second"),
            }
        }
        Ok(arguments)
    }
}

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Program {
    label: String,
    path: PathBuf,
    arguments: Vec<String>,
    /// The package's folder, which is the working directory of its tests.
    folder: PathBuf,
    /// Whether it prints a result line for each of several parts, as `cargo test --doc` does.
    has_parts: bool,
}

/// Builds and runs the tests. Returns whether all passed and none leaked a process.
pub(crate) fn run(root: &Path, arguments: Arguments) -> Result<bool> {
    let built = build::Built { programs: given(root, &arguments)?, rdd: None };
    let build::Built { programs, rdd } = if built.programs.is_empty() { build_all(root, &arguments)? } else { built };
    let home = temporary_home()?;
    let mut runner = Runner {
        root: home.path().to_owned(),
        evidence: evidence_folder(root),
        limits: limit::Limits::from_environment()?,
        interrupt: interrupt::watch()?,
        follow: arguments.follow,
        rdd: chosen_rdd().or(rdd).unwrap_or_else(|| root.join("target/debug/rdd")),
        variables: Vec::new(),
        beside: Vec::new(),
    };
    runner.adopt_orphans()?;
    let finished = if is_whole_run(&programs) && !arguments.follow {
        run_lanes(root, &mut runner, programs)?
    } else {
        let mut finished = Vec::new();
        run_each(programs, arguments.follow, &mut finished, |program| runner.run(program))?;
        finished
    };
    conclude(&finished, arguments.count_file.as_deref())
}

/// Whether the run has programs for both lanes, so that parallel lanes save time.
fn is_whole_run(programs: &[Program]) -> bool {
    programs.iter().any(|program| judges::asks_judges(&program.label))
        && [LaneChoice::First, LaneChoice::Beside].into_iter().all(|choice| has_lane(programs, choice))
}

fn has_lane(programs: &[Program], choice: LaneChoice) -> bool {
    programs.iter().any(|program| lane::choose_lane(&program.label) == choice)
}

/// Runs both lanes in parallel while the Go oracles compile, then the programs that measure.
fn run_lanes(root: &Path, runner: &mut Runner, programs: Vec<Program>) -> Result<Vec<Finished>> {
    let judges = JudgeBuild::start(root)?;
    let mut lane = TestLane::start(root, &runner.rdd)?;
    runner.beside = vec![judges.pid(), lane.pid()];
    let (mut first, mut beside, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    for program in programs {
        match lane::choose_lane(&program.label) {
            LaneChoice::First => first.push(program),
            LaneChoice::Beside => beside.push(program),
            LaneChoice::Alone => alone.push(program),
        }
    }
    let (runner, judges, lane_pid) = (&*runner, &judges, lane.pid());
    let mut finished = Vec::new();
    std::thread::scope(|scope| {
        let second = scope.spawn(move || {
            let mut finished = Vec::new();
            let result = run_each(beside, false, &mut finished, |program| {
                judges.wait_for(&program.label)?;
                lane.run(program)
            });
            result.map(|()| finished)
        });
        let result = run_each(first, false, &mut finished, |program| {
            judges.wait_for(&program.label)?;
            runner.run(program)
        });
        wait_for_lane(&second, lane_pid, &runner.interrupt, result.is_err());
        finished.extend(second.join().expect("a lane does not panic")?);
        result
    })?;
    if !runner.interrupt.is_set() {
        run_each(alone, false, &mut finished, |program| runner.run(program))?;
    }
    Ok(finished)
}

/// Waits for the second lane; ends it early if the run is interrupted or the first lane failed.
fn wait_for_lane<T>(lane: &ScopedJoinHandle<'_, T>, pid: u32, interrupt: &Interrupt, has_failed: bool) {
    while !lane.is_finished() {
        if has_failed || interrupt.is_set() {
            lane::interrupt_lane(pid);
        }
        std::thread::sleep(LANE_POLL_INTERVAL);
    }
}

/// Runs programs in sequence and reports each. Stops after one that was interrupted.
fn run_each(
    programs: Vec<Program>,
    was_followed: bool,
    finished: &mut Vec<Finished>,
    mut run: impl FnMut(&Program) -> Result<Finished>,
) -> Result<()> {
    for program in programs {
        let result = run(&program)?;
        say(&result, was_followed);
        let is_interrupted = result.interrupted;
        finished.push(result);
        if is_interrupted {
            break;
        }
    }
    Ok(())
}

/// Runs single tests of programs that are built already, with the supervision and cleanup of a full run.
#[derive(Debug)]
pub(crate) struct SingleTests {
    runner: Runner,
    home: tempfile::TempDir,
}

/// The result of a single test.
#[derive(Debug)]
pub(crate) struct SingleResult {
    /// The number of tests of that name that passed: one or none.
    pub(crate) passed: u64,
    pub(crate) problems: Vec<String>,
    pub(crate) is_interrupted: bool,
    pub(crate) timed_out: bool,
    pub(crate) output: String,
}

impl SingleTests {
    /// Creates a runner of single tests. `rdd` is the binary for tests that start it.
    pub(crate) fn new(rdd: PathBuf, variables: Vec<(&'static str, PathBuf)>) -> Result<Self> {
        let home = temporary_home()?;
        let runner = Runner {
            root: home.path().to_owned(),
            evidence: home.path().join("evidence"),
            limits: limit::Limits::Off,
            interrupt: interrupt::watch()?,
            follow: false,
            rdd,
            variables,
            beside: Vec::new(),
        };
        runner.adopt_orphans()?;
        Ok(Self { runner, home })
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.runner.interrupt.is_set()
    }

    /// Runs one test of a program in its package's folder.
    pub(crate) fn run(&mut self, path: &Path, folder: &Path, name: &str, at_most: Duration) -> Result<SingleResult> {
        self.runner.limits = limit::Limits::Fixed(at_most);
        let arguments = ["--exact", name].map(str::to_owned).to_vec();
        let label = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let program = Program { label, path: path.to_owned(), arguments, folder: folder.to_owned(), has_parts: false };
        let finished = self.runner.run(&program)?;
        // Each test has its own evidence; that of the next one must not include this.
        let _ = fs::remove_dir_all(self.home.path().join("evidence"));
        Ok(SingleResult {
            passed: finished.counts.passed,
            timed_out: finished.problems.iter().any(|problem| problem.starts_with("timed out")),
            problems: finished.problems,
            is_interrupted: finished.interrupted,
            output: finished.output,
        })
    }
}

fn temporary_home() -> Result<tempfile::TempDir> {
    let home =
        tempfile::Builder::new().prefix("rdd-").rand_bytes(6).tempdir_in("/tmp").context("make a temporary folder")?;
    // Tests that run as another user must be able to traverse the folder.
    fs::set_permissions(home.path(), Permissions::from_mode(0o711)).context("open the temporary folder to others")?;
    Ok(home)
}

/// The programs that were given as paths and are built already.
fn given(root: &Path, arguments: &Arguments) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for path in &arguments.binaries {
        let label = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = fs::canonicalize(path).with_context(|| format!("find {}", path.display()))?;
        let arguments = arguments.filter.iter().cloned().collect();
        programs.push(Program { label, path, arguments, folder: root.to_owned(), has_parts: false });
    }
    Ok(programs)
}

fn build_all(root: &Path, arguments: &Arguments) -> Result<build::Built> {
    println!("building all tests");
    // Shows the output of passed tests too, since it contains the reasons of skips.
    let output = if arguments.follow { "--nocapture" } else { "--show-output" };
    let options = [output, "-Zunstable-options", runner::REPORT_TIME].map(str::to_owned);
    let words: Vec<String> = arguments.filter.iter().cloned().chain(options).collect();
    let mut built = build::all(root, &words)?;
    built.programs.retain(|program| is_wanted(&program.label, arguments.only.as_deref()));
    if built.programs.is_empty() {
        bail!("no test binary is called so");
    }
    Ok(built)
}

/// Whether a program is part of this run. For one that needs to be named, prints the command that runs it.
fn is_wanted(label: &str, only: Option<&str>) -> bool {
    if let Some(only) = only {
        return label.contains(only);
    }
    let apart = APART.iter().find(|(name, _)| *name == label);
    if let Some((name, command)) = apart {
        println!("apart: {name}, by {command}");
    }
    apart.is_none()
}

/// The binary that `RDD_BIN` names, for testing another build.
fn chosen_rdd() -> Option<PathBuf> {
    std::env::var_os("RDD_BIN").filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn evidence_folder(root: &Path) -> PathBuf {
    let told = std::env::var_os("RDD_EVIDENCE_DIR").filter(|value| !value.is_empty());
    told.map_or_else(|| root.join(".evidence"), PathBuf::from)
}

fn say(result: &Finished, was_followed: bool) {
    let Finished { label, counts, elapsed, problems, output, .. } = result;
    let word = if problems.is_empty() { "ok  " } else { "FAIL" };
    println!(
        "{word} {label}: {} passed, {} failed ({}, {} of processors)",
        counts.passed,
        counts.failed,
        seconds(*elapsed),
        seconds(result.cpu)
    );
    for line in output.lines().filter(|line| line.starts_with("skipped: ") && !was_followed) {
        println!("     {line}");
    }
    if !problems.is_empty() && !was_followed {
        println!("--- output of {label}\n{}\n--- end of output of {label}", output.trim_end());
    }
    for problem in problems {
        println!("     {label}: {problem}");
    }
}

/// Prints the summary; its last line is machine-readable. Returns whether all programs passed.
fn conclude(finished: &[Finished], count_file: Option<&Path>) -> Result<bool> {
    let mut slowest: Vec<&Finished> = finished.iter().collect();
    slowest.sort_by_key(|result| std::cmp::Reverse(result.elapsed));
    let slowest =
        slowest.iter().take(SLOWEST_PROGRAMS).map(|result| format!("{} {}", result.label, seconds(result.elapsed)));
    println!("slowest programs: {}", slowest.collect::<Vec<_>>().join(", "));
    let mut tests: Vec<TestTime> =
        finished.iter().flat_map(|result| times::parse_times(&result.label, &result.output)).collect();
    tests.sort_by_key(|test| std::cmp::Reverse(test.elapsed));
    println!("slowest tests:");
    for test in tests.iter().take(SLOWEST_TESTS) {
        println!("{:>10} {}", seconds(test.elapsed), test.name);
    }
    for result in finished.iter().filter(|result| !result.problems.is_empty()) {
        println!("failed: {}: {}", result.label, result.problems.join("; "));
    }
    let total = finished.iter().fold(Counts::default(), |sum, result| sum + result.counts);
    let line = format!("{} passed, {} failed", total.passed, total.failed);
    println!("{line}");
    if let Some(path) = count_file {
        fs::write(path, format!("{line}\n")).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(finished.iter().all(|result| result.problems.is_empty()))
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_told_apart() {
        let parsed = Arguments::parse(&[
            "--only",
            "store",
            "kill",
            "--count-file",
            "f",
            "--follow",
            "--binary",
            "a",
            "--binary",
            "b",
        ])
        .unwrap();
        let expected = Arguments {
            filter: Some("kill".to_owned()),
            only: Some("store".to_owned()),
            binaries: vec!["a".into(), "b".into()],
            count_file: Some("f".into()),
            follow: true,
        };
        assert_eq!(parsed, expected);
    }

    #[test]
    fn what_is_run_apart_is_run_when_it_is_named() {
        for (label, only, expected) in [
            ("rdd-e2e/vm", None, false),
            ("rdd-e2e/soak", None, false),
            ("rdd-e2e/soak", Some("rdd-e2e/soak"), true),
            ("rdd-e2e/vm", Some("rdd-e2e/vm"), true),
            ("rdd-e2e/api", None, true),
            ("rdd-e2e/api", Some("rdd-e2e/vm"), false),
            ("rdd-controllers/vm", None, true),
        ] {
            assert_eq!(is_wanted(label, only), expected, "{label} {only:?}");
        }
    }

    #[test]
    fn mistakes_are_refused() {
        for words in [&["--only"][..], &["--typo"], &["one", "two"]] {
            assert!(Arguments::parse(words).is_err(), "{words:?}");
        }
    }
}
