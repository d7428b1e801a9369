//! Server-side apply: tracks which manager owns which field, and merges applied configurations.
//!
//! From the bottom up: [`PathElement`] and [`Set`] identify fields; [`typed`] merges and compares values by their
//! shape; the updater computes the new object and its owners; [`FieldManager`] reads the owners from
//! `metadata.managedFields` and writes them back. The reference is sigs.k8s.io/structured-merge-diff/v6 and
//! k8s.io/apimachinery/pkg/util/managedfields.

mod conflict;
mod convert;
mod element;
mod entry;
mod fields_v1;
mod gvk;
mod last_applied;
mod manager;
mod object;
mod prune;
mod scale;
mod set;
mod time;
pub mod typed;
mod updater;
mod upkeep;
mod value;

pub use conflict::{Conflict, Conflicts};
pub use convert::{Convert, ConvertError, SameSchema};
pub use element::{Path, PathElement};
pub use entry::{
    DecodeError, Identity, Managed, Operation, keep_timestamps_of_unchanged, keep_valid_entries, validate_entries,
};
pub use fields_v1::FieldsError;
pub use manager::{ApplyOptions, Error, FieldManager};
pub use scale::ScaleEntries;
pub use set::Set;
pub use time::{ParseTimeError, Timestamp};
pub use updater::{Filter, Owners, VersionedSet};

#[cfg(test)]
mod tests;
