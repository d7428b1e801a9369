//! Four ways to change an object, as pure functions: JSON patch, merge patch, strategic merge patch and server-side apply.
//!
//! The reference is Kubernetes v1.35.4; behaviour and texts are its own, checked against it by `tests/oracle.rs`.
//! Nothing here reads a clock, a file or a random number: what changes between two calls comes in as an argument.
//!
//! ```text
//! json       RFC 6902, as gopkg.in/evanphx/json-patch.v4 does it
//! merge      RFC 7386, likewise
//! shape      what merging has to know of a type; built from OpenAPI schemas
//! strategic  strategic merge patch over a shape
//! ssa        field sets, typed merge, ownership, and the field manager on top
//! ```

mod go;
pub mod json;
mod limits;
pub mod merge;
pub mod shape;
pub mod ssa;
pub mod strategic;

pub use limits::{DEPTH_MAX, TooDeep};
