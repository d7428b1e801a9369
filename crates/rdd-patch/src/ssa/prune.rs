//! Pruning: removes what a manager applied the last time and no longer applies, unless another manager owns it.

use super::{
    object::Typed,
    set::Set,
    updater::{Owners, UpdateError, Updater, VersionedSet, failed, known, prefixed},
};
use std::collections::BTreeMap;

impl Updater<'_> {
    /// Whether pruning may remove anything; pruning is most of the work of an apply. It cannot if the manager applies
    /// everything again that it applied the last time and each leaf of that is a leaf of the merged object: then
    /// nothing below the leaves can be removed, and pruning would add them back with all their parents.
    pub(super) fn gives_up(&self, last: &VersionedSet, set: &Set, api_version: &str, merged: &Typed<'_>) -> bool {
        let is_repeated = last.api_version == api_version && last.set.difference(set).is_empty();
        let keeps_leaves = |merged: Set| last.set.leaves().difference(&merged.leaves()).is_empty();
        !(is_repeated && merged.to_set().is_ok_and(keeps_leaves))
    }

    /// Removes the fields that the manager applied the last time, does not apply now, and no other manager owns.
    pub(super) fn prune<'v>(
        &self,
        merged: Typed<'v>,
        owners: &Owners,
        api_version: &str,
        last: &VersionedSet,
    ) -> Result<Typed<'v>, UpdateError> {
        let what = "failed to convert merged object to last applied version";
        let Some(converted) = known(self.convert(&merged, &last.api_version).map_err(|error| prefixed(what, error)))?
        else {
            return Ok(merged);
        };
        let pruned = converted.without(&converted.named(&last.set));
        let pruned = self
            .add_back_owned(&converted, pruned, &last.api_version, owners)
            .map_err(|error| failed("failed add back owned items", error))?;
        let pruned = self
            .add_back_dangling(&converted, &pruned, last)
            .map_err(|error| failed("failed add back dangling items", error))?;
        self.convert(&pruned, api_version).map_err(|error| UpdateError::Failed(error.to_string()))
    }

    /// Adds back the fields that other managers or this apply own. The version that was pruned comes first, since
    /// conversions may need its fields.
    fn add_back_owned(
        &self,
        merged: &Typed<'_>,
        pruned: Typed<'static>,
        pruned_version: &str,
        owners: &Owners,
    ) -> Result<Typed<'static>, UpdateError> {
        let mut sets_in: BTreeMap<&str, Vec<Set>> = BTreeMap::new();
        for owned in owners.values() {
            sets_in.entry(&owned.api_version).or_default().push(owned.set.clone());
        }
        let mut owned_in: BTreeMap<&str, Set> =
            sets_in.into_iter().map(|(api_version, sets)| (api_version, Set::union_all(sets))).collect();
        let first = owned_in.remove_entry(pruned_version);
        let (mut merged, mut pruned) = (merged.clone(), pruned);
        for (api_version, owned) in first.into_iter().chain(owned_in) {
            (merged, pruned) = self.add_back_owned_in(merged, pruned, api_version, &owned)?;
        }
        Ok(pruned)
    }

    fn add_back_owned_in<'v>(
        &self,
        merged: Typed<'v>,
        pruned: Typed<'static>,
        api_version: &str,
        owned: &Set,
    ) -> Result<(Typed<'v>, Typed<'static>), UpdateError> {
        let what = |which: &str| format!("failed to convert {which} object at version {api_version}");
        let in_version = self.convert(&merged, api_version).map_err(|error| prefixed(&what("merged"), error));
        let Some(in_version) = known(in_version)? else { return Ok((merged, pruned)) };
        let pruned_in_version = self.convert(&pruned, api_version).map_err(|error| prefixed(&what("pruned"), error));
        let Some(pruned_in_version) = known(pruned_in_version)? else { return Ok((in_version, pruned)) };
        let what = |which: &str| format!("failed to create field set from {which} object at version {api_version}");
        let merged_set = in_version.to_set().map_err(|error| failed(&what("merged"), error))?;
        let pruned_set = pruned_in_version.to_set().map_err(|error| failed(&what("pruned"), error))?;
        let keep = in_version.named(&pruned_set).union(&in_version.named(owned));
        let pruned = in_version.without(&in_version.named(&merged_set).difference(&keep));
        Ok((in_version, pruned))
    }

    /// Adds back the fields that were removed with their parents, although the manager never owned them.
    fn add_back_dangling<'v>(
        &self,
        merged: &Typed<'v>,
        pruned: &Typed<'static>,
        last: &VersionedSet,
    ) -> Result<Typed<'v>, UpdateError> {
        let what = "failed to convert pruned object to last applied version";
        let Some(pruned) = known(self.convert(pruned, &last.api_version).map_err(|error| prefixed(what, error)))?
        else {
            return Ok(merged.clone());
        };
        let what = |which: &str| format!("failed to create field set from {which} object in last applied version");
        let pruned_set = pruned.to_set().map_err(|error| failed(&what("pruned"), error))?;
        let merged_set = merged.to_set().map_err(|error| failed(&what("merged"), error))?;
        let removed = merged.named(&merged_set).difference(&merged.named(&pruned_set));
        Ok(merged.without(&removed.intersection(&merged.named(&last.set))))
    }
}
