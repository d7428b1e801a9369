//! Tests the real binary through its commands, messages, files, exit codes and sockets.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

mod controllers;
mod data;
mod hostile;
mod lifecycle;
mod open_files;
mod output;
mod ownership;
mod support;
mod wire;
