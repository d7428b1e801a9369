//! Tests of the state over real stores: concurrent reads, watches and writes, restarts, and limits.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod commits;
mod crowd;
mod model;
mod restart;
mod support;
mod watches;
