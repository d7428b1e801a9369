//! Tests of kubeconfigs on disk: file selection, preserved content, concurrent writers, and switching the current
//! context.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod current;
mod files;
mod killed;
mod probe;
mod random;
mod support;
mod together;
