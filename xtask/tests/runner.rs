//! The test runner against programs that hang, leak, fail and pass. // Finding 295-S12
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rdd_stdx::process::{Process, Signal, background};
use rdd_testkit::{
    Output,
    bounded::{Outcome, run},
    eventually,
    processes::Table,
};
use tempfile::TempDir;

const OK: &str = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s'";
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a program in it that stands for a test binary.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text");
        fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        // Another process writes the program: what we have open for writing, even in a child of another thread, is busy.
        let mut install = background("install", folder.path());
        assert!(install.args(["-m", "755", "text", "program"]).status().unwrap().success());
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The runner, with this program to run.
    fn command(&self) -> Command {
        let mut command = background(env!("CARGO_BIN_EXE_xtask"), Path::new("/"));
        command.arg("test").arg("--binary").arg(self.path("program"));
        command.env("RDD_EVIDENCE_DIR", self.path("evidence")).env("MARK", self.path("mark"));
        command.env_remove("RDD_TEST_TIMEOUT").env_remove("RDD_TEST_ROOT");
        command
    }

    fn run(&self, timeout: &str) -> Output {
        let outcome = run(self.command().env("RDD_TEST_TIMEOUT", timeout), PATIENCE, |_| ()).unwrap();
        let Outcome::Ended(output) = outcome else { panic!("the runner hangs: {outcome:?}") };
        output
    }

    /// The one bundle there is.
    fn bundle(&self) -> PathBuf {
        let mut bundles = fs::read_dir(self.path("evidence")).expect("a bundle").map(|entry| entry.unwrap().path());
        let bundle = bundles.next().expect("a bundle");
        assert!(bundles.next().is_none(), "one bundle is enough");
        bundle
    }

    fn in_bundle(&self, name: &str) -> String {
        fs::read_to_string(self.bundle().join(name)).unwrap()
    }

    /// The PID that the program wrote down.
    fn marked_pid(&self) -> u32 {
        eventually("the program to write its mark", PATIENCE, || {
            let text = fs::read_to_string(self.path("mark")).map_err(|error| error.to_string())?;
            text.trim().parse().map_err(|_| format!("{text:?}"))
        })
    }
}

fn is_alive(pid: u32) -> bool {
    Table::read().unwrap().iter().any(|process| process.pid == pid && !process.is_zombie())
}

fn last_line(output: &Output) -> &str {
    output.stdout.trim_end_matches('\n').rsplit('\n').next().unwrap()
}

#[test]
fn what_a_program_prints_is_shown_once_while_it_runs_when_it_is_followed() {
    let bench =
        Bench::new("echo begun; echo $$ > \"$MARK\"; while [ -e \"$MARK\" ]; do sleep 0.05; done; echo over; exit 1");
    let shown = bench.path("shown");
    let mut runner = bench.command().arg("--follow").stdout(fs::File::create(&shown).unwrap()).spawn().unwrap();
    let text = || fs::read_to_string(&shown).unwrap();
    bench.marked_pid();
    eventually("what it prints", PATIENCE, || if text().contains("begun\n") { Ok(()) } else { Err(text()) });
    assert!(!text().contains("FAIL"), "it runs still");
    fs::remove_file(bench.path("mark")).unwrap();
    assert!(!runner.wait().unwrap().success());
    assert_eq!((text().matches("begun").count(), text().matches("over").count()), (1, 1), "{}", text());
}

#[test]
fn a_program_that_passes_is_counted_and_leaves_no_bundle() {
    let bench = Bench::new(OK);
    let output = bench.run("30").expect_success();
    assert_eq!(last_line(&output), "2 passed, 0 failed");
    assert!(!bench.path("evidence").exists());
}

#[test]
fn a_program_that_fails_has_its_output_shown_and_a_bundle() {
    let bench = Bench::new(
        "echo 'thread panicked: wrong'; echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'; exit 101",
    );
    let output = bench.run("30").expect_code(1);
    assert!(output.stdout.contains("thread panicked: wrong"));
    assert!(output.stdout.contains(&format!("support bundle: {}", bench.bundle().display())));
    assert_eq!(last_line(&output), "1 passed, 1 failed");
}

#[test]
fn a_program_without_a_result_line_has_failed_even_if_it_says_success() {
    let output = Bench::new("true").run("30").expect_code(1);
    assert!(output.stdout.contains("printed no result"), "{}", output.stdout);
    assert_eq!(last_line(&output), "0 passed, 1 failed");
}

#[test]
fn a_program_that_hangs_is_ended_after_its_time_with_a_bundle_of_all_its_processes() {
    let bench = Bench::new("echo 'running 1 test'; setsid sleep 611 & echo $! > $MARK; sleep 612");
    let output = bench.run("3").expect_code(1);
    assert!(output.stdout.contains("timed out after 3 s"), "{}", output.stdout);
    let tree = bench.in_bundle("processes.txt");
    assert!(tree.contains("sleep 611") && tree.contains("sleep 612"), "{tree}");
    assert!(bench.in_bundle("output.txt").contains("running 1 test"));
    assert!(bench.in_bundle("memory.txt").contains("MemAvailable"));
    assert!(fs::read_dir(bench.bundle().join("stacks")).unwrap().count() >= 3);
    assert!(!is_alive(bench.marked_pid()), "what it started in a session of its own is gone too");
    assert_eq!(last_line(&output), "0 passed, 1 failed");
}

#[test]
fn with_the_limit_off_an_interrupt_still_leaves_a_bundle_and_no_process() {
    for signal in [Signal::INT, Signal::TERM] {
        let bench = Bench::new("setsid sleep 613 & echo $! > $MARK; sleep 614");
        let mut command = bench.command();
        command.env("RDD_TEST_TIMEOUT", "0");
        let waiter = std::thread::scope(|scope| {
            let runner = scope.spawn(|| run(&mut command, PATIENCE, |_| ()).unwrap());
            let started = bench.marked_pid();
            let program = Table::read().unwrap();
            let parent_of =
                |pid: u32| program.iter().find(|process| process.pid == pid).map(|process| process.parent).unwrap();
            // The shell that is the program, and the runner above it.
            let runner_pid = parent_of(parent_of(started));
            assert!(Process::open(runner_pid).unwrap().unwrap().signal(signal).unwrap());
            runner.join().unwrap()
        });
        let Outcome::Ended(output) = waiter else { panic!("the runner hangs") };
        assert!(output.clone().expect_code(1).stdout.contains("interrupted"), "{output:?}");
        assert!(bench.in_bundle("processes.txt").contains("sleep 614"));
        assert!(!is_alive(bench.marked_pid()));
    }
}

#[test]
fn a_leaked_process_fails_the_run_by_name_and_is_ended() {
    // Twice removed: its own session, and its parent has gone.
    let bench = Bench::new(&format!("( setsid sleep 615 & echo $! > $MARK ) ; {OK}"));
    let output = bench.run("30").expect_code(1);
    assert!(output.stdout.contains("leaked") && output.stdout.contains("sleep 615"), "{}", output.stdout);
    assert!(!is_alive(bench.marked_pid()));
    assert!(bench.in_bundle("processes.txt").contains("sleep 615"));
    assert_eq!(last_line(&output), "2 passed, 1 failed");
}

// Finding 295-S9
#[test]
fn instances_of_the_run_are_cleaned_up_exactly_and_others_live() {
    let bench = Bench::new(&format!(
        "mkdir $RDD_TEST_ROOT/bats; echo $RDD_TEST_ROOT > $MARK; until test -e $MARK.go; do sleep 0.05; done; {OK}"
    ));
    let mut command = bench.command();
    let outcome = std::thread::scope(|scope| {
        let runner = scope.spawn(|| run(&mut command, PATIENCE, |_| ()).unwrap());
        let root = eventually("the run's folder", PATIENCE, || {
            fs::read_to_string(bench.path("mark")).ok().filter(|text| text.ends_with('\n'))
        });
        let root = root.trim();
        // None of these descends from the runner; only the first is the run's.
        let sleeper = |instance: &str, home: &str| {
            let mut command = background("sleep", Path::new("/"));
            command.arg("616").env_clear().env("RDD_INSTANCE", instance).env("HOME", home).spawn().unwrap()
        };
        let mut ours = sleeper("bats", &format!("{root}/bats"));
        let mut others = [sleeper("bats-app", &format!("{root}/bats")), sleeper("bats", "/nowhere")];
        fs::write(bench.path("mark.go"), "").unwrap();
        let outcome = runner.join().unwrap();
        eventually("the run's own daemon to be ended", PATIENCE, || ours.try_wait().unwrap());
        for other in &mut others {
            assert!(other.try_wait().unwrap().is_none(), "somebody else's process was ended");
            other.kill().unwrap();
            other.wait().unwrap();
        }
        outcome
    });
    let Outcome::Ended(output) = outcome else { panic!("the runner hangs") };
    assert!(output.expect_code(1).stdout.contains("instance bats)"));
}
