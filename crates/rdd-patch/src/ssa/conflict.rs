//! Conflicts: fields that an apply would change and that other managers own.

use super::{
    element::{Path, display_path},
    entry::{Identity, Operation},
    set::Set,
    updater::Owners,
};
use rdd_meta::go_text;
use std::{collections::BTreeMap, fmt};

/// A field of a conflict and its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub owner: Identity,
    pub path: Path,
}

impl Conflict {
    /// The message of the `FieldManagerConflict` cause.
    pub fn message(&self) -> String {
        format!("conflict with {}", display_owner(&self.owner))
    }

    /// The field of the `FieldManagerConflict` cause.
    pub fn field(&self) -> String {
        display_path(&self.path)
    }
}

/// All conflicts of an apply, sorted by owner. Displays as the message of upstream's 409.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

impl Conflicts {
    /// Creates the conflicts from the fields that each owner would lose, sorted by the owners' identifiers.
    pub(super) fn of(lost: &Owners) -> Self {
        let mut owners: Vec<_> = lost.iter().map(|(owner, lost)| (owner.to_json(), owner, lost)).collect();
        owners.sort_by(|left, right| left.0.cmp(&right.0));
        let conflicts = owners.into_iter().flat_map(|(_, owner, lost)| {
            lost.set.paths().into_iter().map(|path| Conflict { owner: owner.clone(), path })
        });
        Self(conflicts.collect())
    }

    /// The set of all conflicting fields.
    pub fn to_set(&self) -> Set {
        self.0.iter().map(|conflict| conflict.path.clone()).collect()
    }
}

impl std::error::Error for Conflicts {}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(f, "Apply failed with 1 conflict: {}: {}", only.message(), only.field());
        }
        let mut by_owner: BTreeMap<String, (&Identity, Vec<String>)> = BTreeMap::new();
        for conflict in &self.0 {
            by_owner.entry(conflict.owner.to_json()).or_insert((&conflict.owner, Vec::new())).1.push(conflict.field());
        }
        let mut lines = Vec::new();
        for (owner, fields) in by_owner.into_values() {
            lines.push(format!("conflicts with {}:", display_owner(owner)));
            lines.extend(fields.into_iter().map(|field| format!("- {field}")));
        }
        write!(f, "Apply failed with {} conflicts: {}", self.0.len(), lines.join("\n"))
    }
}

fn display_owner(owner: &Identity) -> String {
    let mut text = go_text::quote(&owner.manager);
    if !owner.subresource.is_empty() {
        text.push_str(&format!(" with subresource {}", go_text::quote(&owner.subresource)));
    }
    if owner.operation == Operation::Update {
        text.push_str(&format!(" using {}", owner.api_version));
    }
    text
}
