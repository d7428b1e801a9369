//! Processes beside the daemon: what passes through to them, and controllers that others write.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod examples;
mod passthrough;
mod support;
