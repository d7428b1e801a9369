//! The judges written in Go, compiled beside the tests that mostly wait.

use std::{
    path::Path,
    process::{Child, Stdio},
};

use anyhow::{Context, Result};
use rdd_stdx::process::background;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// Test programs that ask judges written in Go. They run last, when the judges are compiled.
const ASKING: &[&str] =
    &["/oracle", "/upstream", "/definitions", "rdd-e2e/conformance", "rdd-e2e/kubernetes", "rdd-e2e/beside"];

/// Whether a test program asks a judge written in Go.
pub(super) fn asks_judges(label: &str) -> bool {
    ASKING.iter().any(|part| label.contains(part))
}

/// A build of the judges that runs in the background and is killed with this value.
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

    /// The process whose descendants are not tests.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of the build if this program asks a judge. A judge that did not build is reported by the test that needs it.
    pub(super) fn wait_for(&self, label: &str) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("the judges' PID")?;
        if asks_judges(label) {
            // The process is reaped later: its processor time would count as that of the test program that runs in the other lane.
            waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).context("wait for the judges")?;
        }
        Ok(())
    }
}

impl Drop for JudgeBuild {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // The whole group: the compilers are children of `go`.
            let _ = i32::try_from(self.child.id())
                .ok()
                .and_then(rustix::process::Pid::from_raw)
                .map(|pid| rustix::process::kill_process_group(pid, rustix::process::Signal::KILL));
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
