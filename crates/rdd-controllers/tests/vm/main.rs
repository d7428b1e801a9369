//! Tests of LimaVM and App over a real API server in this process, the real framework, and a driver in memory.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod admission;
mod app;
mod conditions;
mod findings_236;
mod findings_295;
mod kill_points;
mod kubernetes;
mod limavm;
mod stage;
mod town;
