//! Measures the start-up of the real binary, and its memory and CPU use when idle.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rdd_testkit::{Daemon, Output, Sandbox};

use crate::{
    api::{self, process},
    statistics::median,
};

/// How long a daemon is idle before it is measured.
const SETTLES: Duration = Duration::from_secs(2);

/// The results.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Startup {
    /// The API server alone.
    pub(crate) bare: Starts,
    /// With all controllers of the product.
    pub(crate) whole: Starts,
    /// The duration of `rdd version`.
    pub(crate) version: Duration,
    /// The share of one core that an idle daemon with all controllers uses.
    pub(crate) idle_cpu: f64,
}

/// The medians of several starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Starts {
    /// `svc start` of an instance that does not exist, until it is ready.
    pub(crate) cold: Duration,
    /// `svc start` of a stopped instance, until it is ready.
    pub(crate) warm: Duration,
    /// The resident memory of an idle daemon.
    pub(crate) idle_bytes: u64,
}

/// Measures this binary; every start has its own home folder.
pub(crate) fn measure(binary: &Path, short: bool) -> Result<Startup> {
    let binary =
        std::fs::canonicalize(binary).with_context(|| format!("find {} (run make build)", binary.display()))?;
    let times = if short { 5 } else { 10 };
    let mut version = Vec::new();
    for _ in 0..times {
        version.push(timed(&Sandbox::builder().binary(&binary).build(), &["version"])?);
    }
    Ok(Startup {
        version: middle(&version),
        bare: several(&binary, times, "", "the API server")?,
        whole: several(&binary, times, "*", "with controllers")?,
        idle_cpu: idle_cpu(&binary, short)?,
    })
}

fn several(binary: &Path, times: usize, controllers: &str, what: &str) -> Result<Starts> {
    let controllers = format!("--controllers={controllers}");
    let start = ["svc", "start", &controllers];
    let (mut cold, mut warm, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1..=times {
        eprintln!("start-up: {what}, {number} of {times}");
        let sandbox = Sandbox::builder().binary(binary).build();
        cold.push(timed(&sandbox, &start)?);
        timed(&sandbox, &["svc", "stop"])?;
        warm.push(timed(&sandbox, &start)?);
        idle.push(process::resident_bytes(daemon_of(&sandbox)?)?);
        timed(&sandbox, &["svc", "stop"])?;
    }
    idle.sort_unstable();
    Ok(Starts { cold: middle(&cold), warm: middle(&warm), idle_bytes: idle[idle.len() / 2] })
}

fn idle_cpu(binary: &Path, short: bool) -> Result<f64> {
    eprintln!("start-up: idle with controllers");
    let daemon = Daemon::start_in(Sandbox::builder().binary(binary).build());
    std::thread::sleep(SETTLES);
    api::idle_cpu(daemon.pid(), Duration::from_secs(if short { 3 } else { 15 }))
}

fn middle(values: &[f64]) -> Duration {
    Duration::from_secs_f64(median(values).expect("it was measured at least once"))
}

/// The duration in seconds of a command, which must succeed.
fn timed(sandbox: &Sandbox, arguments: &[&str]) -> Result<f64> {
    let started = Instant::now();
    let Output { code, stderr, .. } = sandbox.rdd(arguments);
    let elapsed = started.elapsed().as_secs_f64();
    ensure!(code == Some(0), "rdd {} failed: {}", arguments.join(" "), stderr.trim());
    Ok(elapsed)
}

fn daemon_of(sandbox: &Sandbox) -> Result<u32> {
    let daemon = sandbox.processes().into_iter().find(|process| process.name == "rdd").context("find the daemon")?;
    Ok(daemon.pid)
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
