//! Schemas of custom resources: validation of CRDs, and pruning, defaulting and validation of objects as in Kubernetes.
//!
//! Everything here is a pure function over values. The reference is Kubernetes v1.35.4, including its error texts; "upstream"
//! in these docs means its code.
//!
//! # Flow
//! - A server receives a CRD: it calls [`crd::apply_defaults`], [`crd::Crd::parse`], then [`crd::validate`] or
//!   [`upgrade::validate_update`], then [`Structural::compile`] once per version. The compiled schema is immutable and goes
//!   into an `Arc`.
//! - A server receives the body of a request: it calls [`strict::read`], which reports duplicate keys as findings, and
//!   [`resource::Resource::decode`], which reports unknown fields as findings, types the metadata and applies defaults. After
//!   admission it calls `validate_create`, `validate_update` or `validate_status_update`. [`rdd_meta::Status::invalid`] turns
//!   the errors into a Status.
//! - An object leaves the store while the schema has changed: [`resource::Resource::decode`] with
//!   [`resource::Origin::Storage`].
//! - CEL rules are kept in the schema and evaluated outside of this crate. [`crd::RuleChecker`] is the seam for CRDs; for
//!   objects, an evaluator uses [`Structural::rules`], [`ratchet::Correlated`] and [`resource::rules_not_checked`].
//!
//! # Known differences from upstream
//! - Where upstream walks a Go map, its errors come in random order; here they are sorted.
//! - JSON may nest 127 levels (upstream: 10,000), and schemas 64.
//! - All pattern matches in one object together may take [`pattern::STEPS_MAX`] steps, and all patterns of one schema
//!   [`pattern::SCHEMA_BYTES_MAX`] bytes.
//! - The public key of a CA is not checked to be a point on its curve.

pub mod columns;
pub mod crd;
pub mod default;
pub mod field;
pub mod format;
pub mod listtype;
pub mod objectmeta;
pub mod ordered;
pub mod props;
pub mod prune;
pub mod ratchet;
pub mod resource;
pub mod strict;
pub mod structural;
pub mod upgrade;
pub mod validate;

pub use rdd_cel::pattern;

pub use props::{Props, Rule};
pub use structural::Structural;
