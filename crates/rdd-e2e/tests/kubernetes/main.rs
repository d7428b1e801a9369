//! Kubernetes end to end: the real daemon, a real container engine, and a stand-in for K3s that is started like K3s.
//!
//! `RDD_TEST_K3S=<path>` uses a real K3s instead (`make test-k3s`), with CNI plugins from `RDD_TEST_CNI=<folder>` if it includes none.
//! Tests that need behaviour of the stand-in are then skipped, with a message.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

mod certificates;
mod contexts;
mod control_plane;
mod downloads;
mod faults;
mod images;
mod life;
mod pods;
mod port;
mod publisher;
mod real;
mod standin;
mod support;
mod versions;
mod workload;
mod wrong;
