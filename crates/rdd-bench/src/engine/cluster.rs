//! Measures the time from `rdd set kubernetes.enabled=true` to Ready, minus the start of the control plane itself, with a stand-in for K3s.

use std::{fs, path::Path, time::Instant};

use anyhow::{Context, Result, ensure};
use rdd_stdx::process::background;
use rdd_testkit::Sandbox;

use crate::statistics::median;

/// The version of the channel `stable`.
const STABLE: &str = "v1.34.6+k3s1";
/// How long the stand-in takes to listen. A real start takes time too, and polling for its end must not add a delay.
const BEHAVIOUR: &str = r#"{"servesAfter": 2000}"#;

/// The results.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cluster {
    /// Seconds from the start of the command to its end, minus the control plane's own time; the median.
    pub(crate) ours: f64,
    /// The slowest round.
    pub(crate) slowest: f64,
}

pub(crate) fn measure(binary: &Path, rounds: usize) -> Result<Cluster> {
    eprintln!("engine: Kubernetes is enabled {rounds} times");
    let folder = tempfile::tempdir().context("make a folder")?;
    let release = folder.path().join(STABLE);
    fs::create_dir(&release).context("make a folder")?;
    build(&release.join("k3s"))?;
    fs::write(release.join("behaviour.json"), BEHAVIOUR).context("write a behaviour")?;
    let sandbox = Sandbox::builder().binary(binary).env("RDD_K3S_DIR", folder.path()).build();
    let times = enable(&sandbox, rounds);
    sandbox.rdd(&["svc", "delete"]);
    let times = times?;
    let slowest = times.iter().copied().fold(0.0, f64::max);
    Ok(Cluster { ours: median(&times).context("nothing was measured")?, slowest })
}

fn build(to: &Path) -> Result<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/k3s-standin");
    let mut build = background("go", &source);
    let output = build.args(["build", "-o"]).arg(to).arg(".").env("GOTOOLCHAIN", "local").output();
    let output = output.context("build the stand-in for K3s")?;
    ensure!(output.status.success(), "build the stand-in for K3s: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn enable(sandbox: &Sandbox, rounds: usize) -> Result<Vec<f64>> {
    let run = |words: &[&str]| {
        let output = sandbox.rdd(words);
        ensure!(output.code == Some(0), "{}: {}", words.join(" "), output.stderr);
        Ok(())
    };
    run(&["set", "backend=host", "running=true"])?;
    let took = sandbox.home().join(format!(".rd{}/lima/rd/k3s/took", sandbox.instance()));
    let mut times = Vec::new();
    for _ in 0..rounds {
        let began = Instant::now();
        run(&["set", "kubernetes.enabled=true"])?;
        let all = began.elapsed().as_secs_f64();
        let own = fs::read_to_string(&took).context("ask how long the control plane took")?;
        let own: f64 = own.trim().parse().context("ask how long the control plane took")?;
        times.push((all - own / 1e3).max(0.0));
        run(&["set", "kubernetes.enabled=false"])?;
    }
    Ok(times)
}
