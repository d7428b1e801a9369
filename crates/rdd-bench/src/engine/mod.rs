//! Measures the mirror of the container engine: thousands of objects of a fake engine, containers of a real one, and enabling Kubernetes.

mod bare;
mod cluster;
mod many;
mod runs;

use std::path::Path;

use anyhow::{Context, Result};
use rdd_testkit::capability::require;

pub(crate) use self::{cluster::Cluster, many::Many, runs::Runs};

/// All measurements of the mirror.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) many: Many,
    /// `None` if there is no engine to measure with.
    pub(crate) runs: Option<Runs>,
    /// `None` if there is no engine, or no Go to build the stand-in for K3s.
    pub(crate) cluster: Option<Cluster>,
}

/// Measures this binary.
pub(crate) fn measure(binary: &Path, short: bool) -> Result<Engine> {
    let binary = std::fs::canonicalize(binary).with_context(|| format!("find {}", binary.display()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
    let many = many::measure(&binary, &runtime, if short { 1 } else { 3 })?;
    let runs = if require("own-engine") {
        Some(runs::measure(&binary, &runtime, if short { 20 } else { 100 })?)
    } else {
        None
    };
    let cluster = if require("own-engine") && require("go") {
        Some(cluster::measure(&binary, if short { 3 } else { 9 })?)
    } else {
        None
    };
    Ok(Engine { many, runs, cluster })
}
