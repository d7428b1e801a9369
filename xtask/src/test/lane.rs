//! A second process that runs tests in parallel with the first.
//!
//! Tests of engines, VMs and daemons mostly wait; tests of the other crates mostly compute. Run in sequence, they leave most of two cores
//! idle. Each lane is its own process, so that processes that one program leaves behind are never attributed to a program of the other
//! lane: a lane adopts its own orphans and has its own temporary folder.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use anyhow::{Context, Result, ensure};
use rdd_stdx::process::background;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

use super::{
    Program, evidence_folder, interrupt, limit,
    runner::{Finished, Runner},
    temporary_home,
};

/// The command that runs the other end of a [`TestLane`].
pub(crate) const COMMAND: &str = "test-lane";

/// Programs that start daemons, engines or VMs, by the start of their label. They stay in the first lane: two of them at once would compete
/// for addresses, cgroups and packet filter rules of the machine.
const MACHINE_TESTS: &[&str] = &["rdd-e2e", "rdd-driver", "rdd-docker", "xtask"];

/// Programs that measure durations. They run after both lanes.
const MEASURING_TESTS: &[&str] = &["rdd-apiserver/linear"];

/// The niceness of the second lane; tests of the first have deadlines for other programs.
const LANE_NICENESS: i32 = 5;

/// Where a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneChoice {
    /// In this process.
    First,
    /// In the second lane, in parallel with the first.
    Beside,
    /// In this process, after both lanes.
    Alone,
}

/// Chooses the lane of a program by its label.
pub(super) fn choose_lane(label: &str) -> LaneChoice {
    if MEASURING_TESTS.contains(&label) {
        LaneChoice::Alone
    } else if MACHINE_TESTS.iter().any(|beginning| label.starts_with(beginning)) {
        LaneChoice::First
    } else {
        LaneChoice::Beside
    }
}

/// A process that runs programs in sequence. Dropping it interrupts the process and waits for its end.
#[derive(Debug)]
pub(super) struct TestLane {
    child: Child,
    /// The lane's input; `None` once no further program follows.
    programs: Option<ChildStdin>,
    results: BufReader<ChildStdout>,
}

impl TestLane {
    pub(super) fn start(root: &Path, rdd: &Path) -> Result<Self> {
        let mut command = background("/proc/self/exe", root);
        command.arg(COMMAND).arg(rdd).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("start a lane of tests")?;
        let programs = child.stdin.take();
        let results = BufReader::new(child.stdout.take().context("read from a lane of tests")?);
        Ok(Self { child, programs, results })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs one program and waits for its result.
    pub(super) fn run(&mut self, program: &Program) -> Result<Finished> {
        let line = serde_json::to_string(program).context("encode a program")?;
        let programs = self.programs.as_mut().context("write to a lane of tests")?;
        writeln!(programs, "{line}").context("write to a lane of tests")?;
        let mut answer = String::new();
        self.results.read_line(&mut answer).context("read from a lane of tests")?;
        ensure!(!answer.is_empty(), "the lane that ran {} has ended", program.label);
        serde_json::from_str(&answer).context("decode the result of a program")
    }
}

impl Drop for TestLane {
    fn drop(&mut self) {
        interrupt_lane(self.child.id());
        // The lane ends at the end of its input.
        self.programs = None;
        // It is not reaped: the processor time of its tests would count as that of the program that runs in the first lane now.
        let _ = waitid(WaitId::Pid(Pid::from_child(&self.child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    }
}

/// Asks a lane to end its program, with a support bundle, and then itself.
pub(super) fn interrupt_lane(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // A lane that has ended needs no signal.
    let _ = pid.map(|pid| rustix::process::kill_process(pid, Signal::TERM));
}

/// The other end of a [`TestLane`]: reads a program from each line of standard input and answers with its result as one line.
pub(crate) fn serve(root: &Path, rdd: &str) -> Result<bool> {
    let home = temporary_home()?;
    let runner = Runner {
        root: home.path().to_owned(),
        evidence: evidence_folder(root),
        limits: limit::Limits::from_environment()?,
        interrupt: interrupt::watch()?,
        follow: false,
        rdd: PathBuf::from(rdd),
        variables: Vec::new(),
        beside: Vec::new(),
    };
    runner.adopt_orphans()?;
    // If lowering the priority is not permitted, the tests still run.
    let _ = rustix::process::nice(LANE_NICENESS);
    for line in std::io::stdin().lock().lines() {
        let program: Program = serde_json::from_str(&line.context("read a program")?).context("decode a program")?;
        let finished = runner.run(&program)?;
        println!("{}", serde_json::to_string(&finished).context("encode a result")?);
        if finished.interrupted {
            break;
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_tests_stay_in_the_first_lane_and_measuring_tests_run_alone() {
        for label in ["rdd-e2e/kill", "rdd-driver", "rdd-driver/host_network", "rdd-docker/real_contract", "xtask"] {
            assert_eq!(choose_lane(label), LaneChoice::First, "{label}");
        }
        for label in ["rdd-patch", "rdd-cel/oracle", "rdd-apiserver", "documentation"] {
            assert_eq!(choose_lane(label), LaneChoice::Beside, "{label}");
        }
        assert_eq!(choose_lane("rdd-apiserver/linear"), LaneChoice::Alone);
    }
}
