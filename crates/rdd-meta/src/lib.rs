//! The Kubernetes API vocabulary without IO: names, selectors, request paths, options, metadata, times and the `Status`
//! object.
//!
//! The reference is Kubernetes v1.35.4. Messages that reach a client match upstream's word for word, because clients
//! and test suites match on them. `tests/vectors.json` holds results of upstream's own functions; the tests compare
//! with them.

pub mod continue_token;
pub mod field_error;
pub mod fields;
pub mod go_duration;
pub mod go_json;
pub mod go_text;
pub mod gvk;
pub mod labels;
pub mod metadata;
pub mod names;
pub mod options;
pub mod path;
pub mod query;
pub mod resource_version;
pub mod status;
pub mod terminal;
pub mod time;

#[cfg(test)]
mod vectors;

pub use field_error::FieldError;
pub use gvk::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use status::{Reason, Status};
