//! Tests the product's commands against a real daemon, with a small fake controller behind the API.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

mod delete;
mod limavm;
mod real;
mod run;
mod set;
mod status;
mod support;
mod wait;
