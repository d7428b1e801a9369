//! Tests of the real server on a free port, with real TLS, through its clients.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod access;
mod api;
mod certificates;
mod early;
mod endpoints;
mod flood;
mod kubectl;
mod limits;
mod log;
mod passthrough;
mod shutdown;
mod support;
