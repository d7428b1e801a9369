//! Runs one test program: starts, watches and judges it, and cleans up after it.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, ExitStatus},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rdd_stdx::process::{Process, background};
use rdd_testkit::{
    bundle::{self, Subject},
    processes::{self, Info, Table},
};
use serde::{Deserialize, Serialize};

use super::{
    Program,
    counts::{self, Counts},
    interrupt::Interrupt,
    limit::Limits,
    times,
};

/// How often a program is checked.
const LOOK: Duration = Duration::from_millis(100);
/// How long the processes that a program started may outlive it.
const FOLLOWS: Duration = Duration::from_secs(3);
/// How long a process may take to end after SIGTERM.
const ENDS: Duration = Duration::from_secs(2);

/// An unstable option of test programs, which they accept if `RUSTC_BOOTSTRAP` is set.
pub(super) const REPORT_TIME: &str = "--report-time";

/// The settings of a run.
#[derive(Debug)]
pub(super) struct Runner {
    /// The folder for all temporary files of the run.
    pub(super) root: PathBuf,
    /// The folder for support bundles.
    pub(super) evidence: PathBuf,
    pub(super) limits: Limits,
    pub(super) interrupt: Interrupt,
    /// Whether to show a program's output while it runs.
    pub(super) follow: bool,
    /// The `rdd` binary.
    pub(super) rdd: PathBuf,
    /// Additional environment variables for every program.
    pub(super) variables: Vec<(&'static str, PathBuf)>,
    /// Child processes that run in parallel with the tests; they and their descendants do not belong to a test.
    pub(super) beside: Vec<u32>,
}

/// The result of a program.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Finished {
    pub(super) label: String,
    pub(super) counts: Counts,
    pub(super) elapsed: Duration,
    /// The CPU time of the program and its descendants.
    pub(super) cpu: Duration,
    /// The problems, one sentence each; empty if there are none.
    pub(super) problems: Vec<String>,
    pub(super) output: String,
    /// Whether the run was interrupted and should end.
    pub(super) interrupted: bool,
}

/// How a program ended.
#[derive(Debug)]
enum End {
    Exited(ExitStatus),
    TimedOut(Duration),
    Interrupted,
}

impl Runner {
    /// Makes this process the parent of all orphans that tests leave behind, so that none escapes the cleanup.
    ///
    /// Must be called after the build: a compiler's cache server does not belong to the tests.
    pub(super) fn adopt_orphans(&self) -> Result<()> {
        #[cfg(target_os = "linux")]
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).context("adopt orphans")?;
        Ok(())
    }

    /// Runs one program to its end and ensures that no process of it remains.
    pub(super) fn run(&self, program: &Program) -> Result<Finished> {
        let bystanders: BTreeSet<u32> = self.family()?.iter().map(|process| process.pid).collect();
        let output_path = self.root.join(format!("{}.output", program.label.replace('/', "-")));
        let (started, cpu_before) = (Instant::now(), times::children_cpu());
        let mut child = self.start(program, &output_path)?;
        let mut shown = self.follow.then(|| File::open(&output_path)).transpose().context("read the output")?;
        let end = self.watch(&mut child, self.limits.of(&program.label), || show_more(shown.as_mut()))?;
        let elapsed = started.elapsed();
        let read_output = || String::from_utf8_lossy(&fs::read(&output_path).unwrap_or_default()).into_owned();

        let mut problems = judge(&end, counts::parse(&read_output(), program.has_parts));
        // After a normal end, processes that the program started may need a moment to end. If it hangs, they are part of the evidence.
        let left = match end {
            End::Exited(_) => self.settle(&bystanders)?,
            End::TimedOut(_) | End::Interrupted => self.relatives(&bystanders)?,
        };
        let leaked = matches!(end, End::Exited(_)) && !left.is_empty();
        if leaked {
            problems.push(format!("leaked {}", list(&left)));
        }
        if !problems.is_empty() {
            problems.push(self.leave_evidence(program, &problems.join("; "), &left, &read_output()));
        }
        let remains = self.clear(&bystanders)?;
        if remains.is_none() && !matches!(end, End::Exited(_)) {
            child.wait().context("wait for a killed test")?;
        }
        problems.extend(remains);
        self.reap_orphans()?;
        let cpu = times::children_cpu().saturating_sub(cpu_before);
        let output = read_output();
        let mut counts = counts::parse(&output, program.has_parts).unwrap_or_default();
        if !problems.is_empty() && counts.failed == 0 {
            counts.failed = 1; // the program itself
        }
        let interrupted = matches!(end, End::Interrupted);
        Ok(Finished { label: program.label.clone(), counts, elapsed, cpu, problems, output, interrupted })
    }

    /// Starts the program in its own process group, so that Ctrl-C reaches this process first. Its output goes to a file, since a pipe
    /// could be kept open by a process that is left behind.
    fn start(&self, program: &Program, output: &Path) -> Result<Child> {
        let temporary = self.root.join("tmp");
        fs::create_dir_all(&temporary).context("make a temporary folder")?;
        let file = File::create(output).context("make a file for the output")?;
        let mut command = background(&program.path, &program.folder);
        command.args(&program.arguments).stdout(file.try_clone().context("share the output file")?).stderr(file);
        command.env("CARGO_MANIFEST_DIR", &program.folder).env("TMPDIR", &temporary);
        command.env("RDD_TEST_ROOT", &self.root).env("RDD_EVIDENCE_DIR", &self.evidence).env("RDD_BIN", &self.rdd);
        // Not for cargo: its build scripts would check again whether this is a nightly compiler.
        if program.arguments.iter().any(|argument| argument == REPORT_TIME) {
            command.env("RUSTC_BOOTSTRAP", "1");
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if std::env::var_os("RUST_BACKTRACE").is_none() {
            command.env("RUST_BACKTRACE", "1");
        }
        command.spawn().with_context(|| format!("start {}", program.path.display()))
    }

    fn watch(&self, child: &mut Child, limit: Option<Duration>, mut look: impl FnMut()) -> Result<End> {
        let deadline = limit.map(|limit| (limit, Instant::now() + limit));
        let process = Process::open(child.id()).context("hold a test")?;
        loop {
            let ended = process.as_ref().map_or(Ok(true), |process| process.wait(LOOK)).context("watch a test")?;
            look();
            if ended {
                return child.wait().map(End::Exited).context("wait for a test");
            }
            if self.interrupt.is_set() {
                return Ok(End::Interrupted);
            }
            if let Some((limit, _)) = deadline.filter(|(_, deadline)| Instant::now() >= *deadline) {
                return Ok(End::TimedOut(limit));
            }
        }
    }

    /// All descendants of this process, including adopted orphans, without those that run in parallel with the tests.
    fn family(&self) -> Result<Vec<Info>> {
        Ok(self.descendants(&Table::read().context("look at processes")?))
    }

    fn descendants(&self, table: &Table) -> Vec<Info> {
        let mut found = table.descendants_of(std::process::id());
        for beside in &self.beside {
            let others: BTreeSet<u32> = table.descendants_of(*beside).iter().map(|process| process.pid).collect();
            found.retain(|process| process.pid != *beside && !others.contains(&process.pid));
        }
        found
    }

    /// The processes of the current program: its descendants, and the processes of instances that tests created in the run's folder, with
    /// an exact match (finding 295-S9).
    fn relatives(&self, bystanders: &BTreeSet<u32>) -> Result<Vec<Info>> {
        let table = Table::read().context("look at processes")?;
        let mut found = self.descendants(&table);
        found.retain(|process| !bystanders.contains(&process.pid));
        for owned in processes::owned_instances(&self.root) {
            found.extend(table.of(&owned));
        }
        found.sort_by_key(|process| process.pid);
        found.dedup_by_key(|process| process.pid);
        Ok(found)
    }

    /// The processes that remain after they had time to end.
    fn settle(&self, bystanders: &BTreeSet<u32>) -> Result<Vec<Info>> {
        let deadline = Instant::now() + FOLLOWS;
        loop {
            let left = self.alive(bystanders)?;
            if left.is_empty() || Instant::now() >= deadline {
                return Ok(left);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The relatives that have not ended.
    fn alive(&self, bystanders: &BTreeSet<u32>) -> Result<Vec<Info>> {
        let mut found = self.relatives(bystanders)?;
        found.retain(|process| !process.is_zombie());
        Ok(found)
    }

    /// Reaps orphans that this process adopted; otherwise they would stay in the process table as zombies.
    fn reap_orphans(&self) -> Result<()> {
        use rustix::process::{Pid, WaitOptions, waitpid};
        let me = std::process::id();
        for process in self.family()?.iter().filter(|process| process.parent == me && process.is_zombie()) {
            let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
            // It may have been reaped already.
            let _ = pid.map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
        }
        Ok(())
    }

    /// Ends the remaining processes. Returns a problem if some cannot be ended.
    fn clear(&self, bystanders: &BTreeSet<u32>) -> Result<Option<String>> {
        // A process may start another one while it is being ended.
        for _ in 0..5 {
            let left = self.alive(bystanders)?;
            if left.is_empty() {
                return Ok(None);
            }
            processes::end(&left, ENDS);
        }
        Ok(Some(format!("cannot be ended: {}", list(&self.alive(bystanders)?))))
    }

    fn leave_evidence(&self, program: &Program, reason: &str, processes: &[Info], output: &str) -> String {
        let owned = processes::owned_instances(&self.root);
        let homes: Vec<PathBuf> =
            owned.iter().map(|owned| self.root.join(&owned.instance)).filter(|home| home.is_dir()).collect();
        let subject = Subject { name: &program.label, reason, processes, homes: &homes, output };
        match bundle::write(&self.evidence, &subject) {
            Ok(folder) => format!("support bundle: {}", folder.display()),
            Err(error) => format!("no support bundle: {error}"),
        }
    }
}

/// Shows the output since the last call.
fn show_more(output: Option<&mut File>) {
    if let Some(output) = output {
        // If the terminal was closed, the output is still in the file and the run continues.
        let _ = std::io::copy(output, &mut std::io::stdout().lock());
    }
}

/// The problems with how the program itself ended.
fn judge(end: &End, counts: Option<Counts>) -> Vec<String> {
    match (end, counts) {
        (End::TimedOut(limit), _) => vec![format!("timed out after {} s", limit.as_secs())],
        (End::Interrupted, _) => vec!["interrupted".to_owned()],
        (End::Exited(status), None) => vec![format!("printed no result ({status})")],
        (End::Exited(status), Some(counts)) if !status.success() => {
            vec![format!("{} tests failed ({status})", counts.failed)]
        }
        (End::Exited(_), Some(_)) => Vec::new(),
    }
}

fn list(processes: &[Info]) -> String {
    processes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
