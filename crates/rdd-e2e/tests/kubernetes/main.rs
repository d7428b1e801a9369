//! Kubernetes end to end: the real daemon, a real container engine, and a stand-in for K3s that is started as K3s is.
//!
//! `RDD_TEST_K3S=<path>` puts a real K3s in its place (`make test-k3s`), with CNI plugins from `RDD_TEST_CNI=<folder>` if it brings none; tests that need
//! a behaviour only the stand-in has are left out then, and say so.
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
