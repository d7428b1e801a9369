//! Tests of everything that a graphical client relies on, one test per feature, with the real binary and a real engine.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

mod client;
mod commands;
mod connection;
mod containers;
mod context;
mod engine;
mod images;
mod logs;
mod preferences;
