//! Tests of get, list and watch in this process, over a store in memory and a small test kind.

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
