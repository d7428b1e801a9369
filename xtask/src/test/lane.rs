//! A second process that runs tests beside the first one.
//!
//! Tests of engines, machines and daemons mostly wait; tests of the other crates mostly compute. Run one after the other, they leave most of two
//! cores idle. Each lane is a process of its own, so that the processes which one program leaves behind are never those of another: the lane
//! adopts its own orphans and owns its own temporary folder.

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

/// The command of the process that is the other end of a [`TestLane`].
pub(crate) const COMMAND: &str = "test-lane";

/// Programs that start daemons, engines or machines, by the beginning of their label. They stay in the first lane: their tests compete for
/// addresses, cgroups and packet rules of this machine as soon as two of these programs run at once.
const MACHINE_TESTS: &[&str] = &["rdd-e2e", "rdd-driver", "rdd-docker", "xtask"];

/// Programs that measure how long something takes. They run when both lanes have ended.
const MEASURING_TESTS: &[&str] = &["rdd-apiserver/linear"];

/// How much the second lane yields to the first, whose tests have deadlines for what other programs do.
const LANE_NICENESS: i32 = 5;

/// Where a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneChoice {
    /// In this process.
    First,
    /// In the second lane, beside the first.
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

/// A process that runs one program after the other, killed with this value.
#[derive(Debug)]
pub(super) struct TestLane {
    child: Child,
    /// None once no further program follows.
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
        // The lane ends when its input does.
        self.programs = None;
        // It is not reaped: the processor time of its tests would count as that of the program that runs in the first lane now.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        }
    }
}

/// Makes a lane end its program with evidence, and then itself.
pub(super) fn interrupt_lane(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // A lane that has ended already needs no signal.
    let _ = pid.map(|pid| rustix::process::kill_process(pid, Signal::TERM));
}

/// The other end of a [`TestLane`]: reads a program from each line of the input, and answers it with a line that holds its result.
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
    // Not being allowed to is no reason not to test.
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
