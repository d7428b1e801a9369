//! Tests of a complete server: garbage collection, namespace deletion, and writes that race with them.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod bodies;
mod collections;
mod customs;
mod garbage;
mod permanent;
mod races;
mod support;
mod updates;
mod versions;
mod wire;
