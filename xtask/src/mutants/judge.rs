//! The oracle of one crate, built from the copy of the tree and asked for its opinion.

use std::{
    collections::BTreeSet,
    fmt,
    fs::{self, File},
    io::BufReader,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::Message;
use rdd_stdx::process::{Process, foreground};

use crate::test::cargo_command;

/// Ten times what the slowest oracle takes: a mutation may also make the code run for ever, which is a way of being caught.
const JUDGE_AT_MOST: Duration = Duration::from_secs(600);

pub(super) struct Oracle<'a> {
    pub(super) tree: &'a Path,
    pub(super) target: PathBuf,
    pub(super) log: PathBuf,
    pub(super) package: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Caught,
    /// The test did not end.
    CaughtByTime,
    Survived,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Caught => "caught",
            Self::CaughtByTime => "never ended",
            Self::Survived => "SURVIVED",
        })
    }
}

impl Oracle<'_> {
    /// Without a mutation these tests pass, or nothing that they say means anything.
    pub(super) fn expect_no_objection(&self, tests: &BTreeSet<&str>) -> Result<()> {
        let program = self.build()?;
        for test in tests {
            let passed = self.ask(&program, test)?.is_some_and(|status| status.success());
            ensure!(passed, "{test} of {} fails without any mutation; see {}", self.package, self.log.display());
        }
        Ok(())
    }

    /// What this test says of the tree as it is now.
    pub(super) fn judge(&self, test: &str) -> Result<Outcome> {
        let program = self.build()?;
        Ok(match self.ask(&program, test)? {
            None => Outcome::CaughtByTime,
            Some(status) if status.success() => Outcome::Survived,
            Some(_) => Outcome::Caught,
        })
    }

    /// The test program. That it does not build is an error: a compiler is no oracle.
    fn build(&self) -> Result<PathBuf> {
        let mut child = cargo_command()
            .current_dir(self.tree)
            .env("CARGO_TARGET_DIR", &self.target)
            .args(["test", "--no-run", "--locked", "--quiet", "--message-format=json"])
            .args(["--package", self.package, "--test", "oracle"])
            .stdout(Stdio::piped())
            .spawn()
            .context("run cargo")?;
        let stream = child.stdout.take().context("read what cargo says")?;
        let (mut program, mut said) = (None, String::new());
        for message in Message::parse_stream(BufReader::new(stream)) {
            match message.context("read what cargo says")? {
                Message::CompilerArtifact(artifact) if artifact.target.name == "oracle" => {
                    program = artifact.executable.map(PathBuf::from).or(program);
                }
                // A mutation may leave an import unused, which is nobody's concern.
                Message::CompilerMessage(message) => said.extend(message.message.rendered),
                _ => {}
            }
        }
        let built = child.wait().context("wait for cargo")?.success();
        ensure!(built, "the oracle of {} does not build:\n{said}", self.package);
        program.context("cargo names no test program")
    }

    /// How the test ended; none if it did not. What it said is in the log.
    fn ask(&self, program: &Path, test: &str) -> Result<Option<ExitStatus>> {
        fs::create_dir_all(&self.log).with_context(|| format!("make {}", self.log.display()))?;
        let log = self.log.join(format!("{}.txt", test.replace("::", "-")));
        let log = File::create(&log).with_context(|| format!("write {}", log.display()))?;
        let mut child = foreground(program)
            .args(["--exact", test])
            .current_dir(self.tree.join("crates").join(self.package))
            // Under CI an oracle that cannot be built is a failure, and not silence that looks like consent.
            .env("CI", "true")
            .env("CARGO_TARGET_DIR", &self.target)
            .stdout(log.try_clone().context("share the log")?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("run {}", program.display()))?;
        let handle = Process::open(child.id()).context("watch the oracle")?;
        if handle.is_some_and(|handle| !handle.wait(JUDGE_AT_MOST).unwrap_or(false)) {
            child.kill().context("stop the oracle")?;
            child.wait().context("wait for the oracle")?;
            return Ok(None);
        }
        let status = child.wait().context("wait for the oracle")?;
        if status.code().is_none() {
            bail!("{test} was stopped from outside: {status}");
        }
        Ok(Some(status))
    }
}
