//! The controller framework: queues, shared caches, finalizers, admission, and managers that run controllers anywhere.
//!
//! A [`Controller`] declares what it owns and watches, and implements `observe`, `plan` and `act`. A [`manager::Manager`] runs a
//! set of controllers over any Kubernetes API: inside the daemon without a socket, or in a separate process.

pub mod admission;
pub mod apply;
pub mod cache;
pub mod conditions;
mod context;
mod controller;
pub mod crds;
mod declaration;
pub mod discovery;
mod error;
pub mod events;
pub mod finalizer;
mod health;
pub mod hooks;
mod key;
mod listen;
pub mod manager;
pub mod metrics;
pub mod passthrough;
pub mod probe;
pub mod queue;
pub mod selection;
mod supervise;
pub mod sweep;
mod worker;

pub use context::{Context, Trigger};
pub use controller::{Background, Controller, Plan, Step};
pub use declaration::{Declaration, Wake};
pub use error::{BoxError, Error, has_code, is_not_found};
pub use key::{Key, Kind};
pub use worker::{ENSURE_FINALIZER, Registered};
