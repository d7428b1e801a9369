//! Get, list and watch in process, over a store in memory and a small kind of our own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod bodies;
mod forms;
mod gets;
mod kind;
mod lists;
mod protobuf;
mod robust;
mod support;
mod watches;
