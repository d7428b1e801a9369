//! Tests processes that run next to the daemon: the passthrough to them, and third-party controllers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod examples;
mod passthrough;
mod support;
