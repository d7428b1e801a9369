//! Tests the API under bad input and faults: a real daemon over TLS for faults of the process, the API server in this process otherwise.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

mod crash;
mod definitions;
mod disk;
mod garbage;
mod hostile;
mod model;
mod mutate;
mod namespaces;
mod nesting;
mod recorded;
mod support;
mod watchers;
mod words;
mod writes;
