//! Schemas of custom resources: checked when declared, then pruning, defaulting and validating objects as upstream does.
//!
//! Everything here is a pure function over values; the reference is Kubernetes v1.35.4, its texts included.
//!
//! How a server uses it:
//! - A definition comes in: [`crd::apply_defaults`], [`crd::Crd::parse`], [`crd::validate`] or [`upgrade::validate_update`], then
//!   [`Structural::compile`] once per version. The result is immutable and goes into an `Arc`.
//! - A body comes in: [`strict::read`] (duplicate keys are findings), [`resource::Resource::decode`] (unknown fields are findings;
//!   metadata typed, defaults filled), and after admission `validate_create`, `validate_update` or `validate_status_update`.
//!   Errors become a Status by [`rdd_meta::Status::invalid`].
//! - An object leaves the store under a changed schema: [`resource::Resource::decode`] with [`resource::Origin::Storage`].
//! - CEL rules are kept in the schema and evaluated elsewhere: [`crd::RuleChecker`] is the seam for definitions,
//!   [`Structural::rules`], [`ratchet::Correlated`] and [`resource::rules_not_checked`] are what objects need.
//!
//! Known differences from upstream: where it walks a Go map, errors come in random order there and sorted here; JSON nests 127
//! levels instead of 10,000 and schemas 64; the matches of all patterns in one
//! object may take [`pattern::STEPS_MAX`] steps, and the patterns of one schema [`pattern::SCHEMA_BYTES_MAX`] bytes; whether the key of a CA is a point on its curve is not checked.

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
