//! Kubeconfigs on disk: which are written, what of them stays, who else may write, and when the current context is switched.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod current;
mod files;
mod killed;
mod probe;
mod random;
mod support;
mod together;
