//! Tests the engine's mirror in the real binary: with a real dockerd under the host driver, and with a fake engine for faults.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]
#![expect(clippy::print_stderr, reason = "a failure tells its seed, and what was done until then")]

mod agree;
mod chance;
mod chaos;
mod docker;
mod findings;
mod load;
mod over_fake;
mod product;
mod proxy;
mod speed;
mod walk;
