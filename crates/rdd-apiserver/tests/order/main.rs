//! What keeps order in a whole server: owners and dependents, namespaces that end, and writes that meet both.

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
