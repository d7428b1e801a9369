//! How long the real binary takes to be there, and what it costs when it does nothing.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rdd_testkit::{Output, Sandbox};

use crate::{api::process, statistics::median};

/// Medians over several starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Startup {
    /// `svc start` of an instance that did not exist, until it is ready.
    pub(crate) cold: Duration,
    /// `svc start` of one that was stopped.
    pub(crate) warm: Duration,
    /// `rdd version`.
    pub(crate) version: Duration,
    /// Resident memory of an idle daemon.
    pub(crate) idle_bytes: u64,
}

/// Measures this binary; every start has a home of its own.
pub(crate) fn measure(binary: &Path, short: bool) -> Result<Startup> {
    let binary =
        std::fs::canonicalize(binary).with_context(|| format!("find {} (run make build)", binary.display()))?;
    let times = if short { 5 } else { 10 };
    let (mut cold, mut warm, mut version, mut idle) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for number in 1..=times {
        eprintln!("start-up: {number} of {times}");
        let sandbox = Sandbox::builder().binary(&binary).build();
        version.push(timed(&sandbox, &["version"])?);
        cold.push(timed(&sandbox, &["svc", "start"])?);
        timed(&sandbox, &["svc", "stop"])?;
        warm.push(timed(&sandbox, &["svc", "start"])?);
        idle.push(resident_bytes(&sandbox)?);
        timed(&sandbox, &["svc", "stop"])?;
    }
    let middle = |values: &[f64]| Duration::from_secs_f64(median(values).expect("it was measured at least once"));
    idle.sort_unstable();
    Ok(Startup {
        cold: middle(&cold),
        warm: middle(&warm),
        version: middle(&version),
        idle_bytes: idle[idle.len() / 2],
    })
}

/// Seconds that a command took, which must succeed.
fn timed(sandbox: &Sandbox, arguments: &[&str]) -> Result<f64> {
    let started = Instant::now();
    let Output { code, stderr, .. } = sandbox.rdd(arguments);
    let elapsed = started.elapsed().as_secs_f64();
    ensure!(code == Some(0), "rdd {} failed: {}", arguments.join(" "), stderr.trim());
    Ok(elapsed)
}

fn resident_bytes(sandbox: &Sandbox) -> Result<u64> {
    let daemon = sandbox.processes().into_iter().find(|process| process.name == "rdd").context("find the daemon")?;
    process::resident_bytes(daemon.pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_that_fails_is_an_error_with_its_words() {
        let error = measure(Path::new("/bin/false"), true).unwrap_err();
        assert_eq!(error.to_string(), "rdd version failed: ");
        assert!(measure(Path::new("/no/such/rdd"), true).is_err());
    }
}
