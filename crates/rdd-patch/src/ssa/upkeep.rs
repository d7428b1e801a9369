//! Maintains the list of owners: removes fields that no manager owns, and limits the number of owners.

use super::{
    element::fields_path,
    entry::{Identity, Managed, Operation},
    set::Set,
};
use std::{collections::BTreeMap, sync::LazyLock};

/// How many owners by update an object keeps; the oldest ones beyond that are merged into [`ANCIENT`].
const UPDATERS_MAX: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// The fields that no manager owns: the server sets them, or they identify the object.
pub(super) static STRIPPED: LazyLock<Set> = LazyLock::new(|| {
    let metadata = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let top = ["apiVersion", "kind", "metadata"].iter().map(|name| fields_path(&[name]));
    top.chain(metadata.iter().map(|name| fields_path(&["metadata", name]))).collect()
});

pub(super) fn strip_metadata(managed: &mut Managed, identity: &Identity) {
    if let Some(owned) = managed.owners.get_mut(identity) {
        owned.set = owned.set.difference(&STRIPPED);
        if owned.set.is_empty() {
            managed.owners.remove(identity);
        }
    }
}

/// Merges the oldest owners by update into one per version, until at most [`UPDATERS_MAX`] are left.
pub(super) fn cap_updaters(managed: &mut Managed) {
    let by_update = || managed.owners.iter().filter(|(_, owned)| !owned.applied);
    let mut count = by_update().count();
    if count <= UPDATERS_MAX {
        return;
    }
    let mut updaters: Vec<(i64, String, Identity)> = by_update()
        .map(|(owner, _)| (managed.times.get(owner).map_or(0, |time| time.0), owner.to_json(), owner.clone()))
        .collect();
    // Oldest first; the identifier breaks ties as it does upstream.
    updaters.sort();
    let mut first_of: BTreeMap<String, Identity> = BTreeMap::new();
    let mut folded: BTreeMap<Identity, Vec<Set>> = BTreeMap::new();
    for (_, _, owner) in updaters {
        if count <= UPDATERS_MAX {
            break;
        }
        let Some(owned) = managed.owners.get(&owner).cloned() else { continue };
        // A single old owner of a version stays: merging needs a second one.
        let Some(first) = first_of.get(&owned.api_version) else {
            first_of.insert(owned.api_version, owner);
            continue;
        };
        let bucket = Identity::new(ANCIENT, Operation::Update, &owned.api_version, "");
        if owner == bucket {
            // Upstream merges the bucket into itself here and then deletes it, which loses its fields. This keeps it
            // and merges the next owner.
            continue;
        }
        if !managed.owners.contains_key(&bucket)
            && let Some(first) = managed.owners.remove(first)
        {
            managed.owners.insert(bucket.clone(), first);
        }
        let time = managed.times.get(&owner).copied();
        let parts = folded.entry(bucket.clone()).or_insert_with(|| {
            let filled = managed.owners.get(&bucket).map(|filled| filled.set.clone());
            filled.into_iter().collect()
        });
        parts.push(owned.set.clone());
        managed.owners.insert(bucket.clone(), owned);
        managed.owners.remove(&owner);
        count -= 1;
        match time {
            Some(time) => managed.times.insert(bucket, time),
            None => managed.times.remove(&bucket),
        };
    }
    for (bucket, parts) in folded {
        if let Some(owned) = managed.owners.get_mut(&bucket) {
            owned.set = Set::union_all(parts);
        }
    }
}
