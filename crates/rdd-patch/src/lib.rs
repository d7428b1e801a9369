//! The four ways to modify a Kubernetes object, as pure functions: JSON patch, merge patch, strategic merge patch and
//! server-side apply.
//!
//! The reference is Kubernetes v1.35.4. Behavior and error messages are upstream's; `tests/oracle` compares them with
//! upstream's own code. No function reads a clock, a file or random numbers: the caller passes everything that varies,
//! such as the current time.
//!
//! ```text
//! json       JSON patch (RFC 6902), as gopkg.in/evanphx/json-patch.v4 applies it
//! merge      JSON merge patch (RFC 7386), as the same library applies it
//! shape      the merge rules of a type, built from OpenAPI schemas
//! strategic  strategic merge patch over a shape
//! ssa        server-side apply: field sets, typed merge, ownership, and the field manager on top
//! ```

mod go;
pub mod json;
mod limits;
pub mod merge;
pub mod shape;
pub mod ssa;
pub mod strategic;

pub use limits::{DEPTH_MAX, TooDeep};
