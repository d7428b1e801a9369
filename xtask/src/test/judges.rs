//! Compiles the oracles written in Go in the background, while tests that mostly wait are running.

use std::{
    path::Path,
    process::{Child, Stdio},
};

use anyhow::{Context, Result};
use rdd_stdx::process::background;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// Test programs that use the Go oracles. They run last, when the oracles are compiled.
const ASKING: &[&str] =
    &["/oracle", "/upstream", "/definitions", "rdd-e2e/conformance", "rdd-e2e/kubernetes", "rdd-e2e/beside"];

/// Whether a test program uses a Go oracle.
pub(super) fn asks_judges(label: &str) -> bool {
    ASKING.iter().any(|part| label.contains(part))
}

/// A background build of the oracles; dropping it kills the build.
#[derive(Debug)]
pub(super) struct JudgeBuild {
    child: Child,
}

impl JudgeBuild {
    pub(super) fn start(root: &Path) -> Result<Self> {
        let script = root.join("scripts/go-judges.sh");
        let mut command = background(&script, root);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { child: command.spawn().with_context(|| format!("start {}", script.display()))? })
    }

    /// The PID of the build; its descendants do not belong to tests.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of the build if this program uses an oracle. The test that needs an oracle reports if it was not built.
    pub(super) fn wait_for(&self, label: &str) -> Result<()> {
        if asks_judges(label) {
            let pid = Pid::from_child(&self.child);
            // Does not reap the process: its CPU time would be counted for the test program that runs in the other lane.
            waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).context("wait for the judges")?;
        }
        Ok(())
    }
}

impl Drop for JudgeBuild {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // Kills the whole group: the compilers are children of `go`.
            let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), rustix::process::Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_ask_judges_are_recognized() {
        for label in ["rdd-builtin/oracle", "rdd-builtin/upstream", "rdd-apiserver/definitions", "rdd-e2e/conformance"]
        {
            assert!(asks_judges(label), "{label}");
        }
        for label in ["rdd-builtin", "rdd-e2e/daemon", "rdd-apiserver/definition_figures"] {
            assert!(!asks_judges(label), "{label}");
        }
    }
}
