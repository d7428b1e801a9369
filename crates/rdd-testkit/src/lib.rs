//! Test helpers: waits with timeouts, an instance per test, support bundles on failure, cleanup of processes and files.

#[cfg(feature = "api")]
pub mod api;
pub mod bounded;
pub mod bundle;
pub mod capability;
#[cfg(feature = "controllers")]
pub mod controllers;
mod daemon;
mod eventually;
#[cfg(feature = "oracle")]
pub mod oracle;
pub mod processes;
pub mod random;
mod sandbox;

pub use bounded::Output;
pub use daemon::Daemon;
pub use eventually::{Probe, eventually};
pub use sandbox::{Sandbox, SandboxBuilder};
