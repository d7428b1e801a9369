//! The state over real stores: what readers and watchers see while others write, over restarts and when it gets tight.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod commits;
mod crowd;
mod model;
mod restart;
mod support;
mod watches;
