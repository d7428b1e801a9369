//! Tests a real VM under the real product, as an unprivileged user (`make test-vm`).
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

mod contract;
mod guest;
mod overhead;
mod scenario;
#[path = "../kubernetes/workload.rs"]
mod workload;
