//! The API under bad input and faults: a daemon over TLS where the fault is of the process, the core in process elsewhere.
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
