//! The Kubernetes vocabulary: today the Status object, our error on the wire.

pub mod status;

pub use status::{Reason, Status};
