//! Plans the creation and deletion of a ConfigMapReplicaSet's ConfigMaps.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use rdd_runtime::Plan;
use rdd_types::{names::finalizer, rdd::ConfigMapReplicaSet};

/// How many ConfigMaps one reconcile creates or deletes. The changes enqueue the set again.
const PASS_MAX: usize = 500;

/// The state that the plan depends on.
#[derive(Debug, Clone)]
pub struct Observed {
    pub(super) set: Arc<ConfigMapReplicaSet>,
    /// The ConfigMaps that the set owns, by index.
    pub(super) replicas: BTreeMap<i32, Arc<ConfigMap>>,
}

/// The actions of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Creates the ConfigMaps with these indexes.
    Create(Vec<i32>),
    /// Deletes the ConfigMaps with these indexes.
    Remove(Vec<i32>),
    /// Writes the number of ConfigMaps to the status.
    Report(i32),
    /// Deletes everything that the set owns.
    Sweep,
    /// Removes the set's finalizer.
    Release,
}

rdd_runtime::steps!(Step {
    Self::Create(_) => "create",
    Self::Remove(_) => "remove",
    Self::Report(_) => "report",
    Self::Sweep => "sweep",
    Self::Release => "release",
});

/// The name of the ConfigMap with this index.
pub(super) fn name(set: &ConfigMapReplicaSet, index: i32) -> String {
    format!("{}-{index}", set.name_any())
}

/// Whether the set is the controller of this ConfigMap.
pub(super) fn is_owned(set: &ConfigMapReplicaSet, map: &ConfigMap) -> bool {
    let uid = set.metadata.uid.as_deref();
    let mut owners = map.owner_references().iter();
    owners.any(|owner| owner.controller == Some(true) && Some(owner.uid.as_str()) == uid)
}

/// The ConfigMaps that the set owns, by index. Names without an index are ignored.
pub(super) fn replicas(
    set: &ConfigMapReplicaSet,
    maps: impl IntoIterator<Item = Arc<ConfigMap>>,
) -> BTreeMap<i32, Arc<ConfigMap>> {
    let prefix = format!("{}-", set.name_any());
    let index = |map: &ConfigMap| map.metadata.name.as_deref()?.strip_prefix(&prefix)?.parse::<i32>().ok();
    let own = maps.into_iter().filter(|map| is_owned(set, map));
    own.filter_map(|map| index(&map).filter(|index| *index >= 0).map(|index| (index, map))).collect()
}

pub(super) fn plan(observed: &Observed) -> Plan<Step> {
    let set = &observed.set;
    if set.metadata.deletion_timestamp.is_some() {
        // Without our finalizer, the cleanup is already done.
        let is_held = set.metadata.finalizers.iter().flatten().any(|one| one == finalizer::CLEANUP);
        return if is_held { Plan::of([Step::Sweep, Step::Release]) } else { Plan::nothing() };
    }
    let wanted = set.spec.replicas.unwrap_or(1).max(0);
    let is_missing = |index: &i32| !observed.replicas.contains_key(index);
    let missing: Vec<i32> = (0..wanted).filter(is_missing).take(PASS_MAX).collect();
    // The highest indexes go first.
    let surplus = observed.replicas.range(wanted..).rev();
    let stays = |map: &ConfigMap| map.metadata.deletion_timestamp.is_none();
    let surplus: Vec<i32> = surplus.filter(|(_, map)| stays(map)).map(|(index, _)| *index).take(PASS_MAX).collect();
    let present = observed.replicas.range(..wanted).filter(|(_, map)| stays(map)).count();
    let present = i32::try_from(present).unwrap_or(i32::MAX);

    let mut plan = Plan::nothing();
    if !missing.is_empty() {
        plan = plan.then(Step::Create(missing));
    }
    if !surplus.is_empty() {
        plan = plan.then(Step::Remove(surplus));
    }
    if set.status.as_ref().map(|status| status.ready_replicas) != Some(present) {
        plan = plan.then(Step::Report(present));
    }
    plan
}

#[cfg(test)]
mod tests {
    use kube::api::ObjectMeta;
    use rdd_runtime::Context;
    use rdd_types::rdd::{ConfigMapReplicaSetSpec, ConfigMapReplicaSetStatus};

    use super::*;

    fn set(replicas: Option<i32>, ready: Option<i32>) -> ConfigMapReplicaSet {
        let spec = ConfigMapReplicaSetSpec { replicas, ..ConfigMapReplicaSetSpec::default() };
        let mut set = ConfigMapReplicaSet::new("s", spec);
        set.metadata.uid = Some("u".to_owned());
        set.status = ready.map(|ready_replicas| ConfigMapReplicaSetStatus { ready_replicas, conditions: Vec::new() });
        set
    }

    fn map(name: &str, owner: Option<&ConfigMapReplicaSet>) -> Arc<ConfigMap> {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            owner_references: owner.and_then(Context::owner_reference).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        };
        Arc::new(ConfigMap { metadata, ..ConfigMap::default() })
    }

    fn check(set: ConfigMapReplicaSet, present: &[i32], steps: &[Step]) {
        let maps = present.iter().map(|index| map(&name(&set, *index), Some(&set)));
        let replicas = replicas(&set, maps.collect::<Vec<_>>());
        assert_eq!(plan(&Observed { set: Arc::new(set), replicas }).steps, steps);
    }

    #[test]
    fn there_are_as_many_as_asked_for_and_one_if_nobody_said() {
        check(set(None, None), &[], &[Step::Create(vec![0]), Step::Report(0)]);
        check(set(None, Some(1)), &[0], &[]);
        check(set(Some(3), Some(2)), &[0, 2], &[Step::Create(vec![1])]);
        check(set(Some(3), Some(2)), &[0, 1, 2], &[Step::Report(3)]);
        check(set(Some(0), Some(0)), &[], &[]);
        check(set(Some(-5), Some(0)), &[], &[]);
    }

    #[test]
    fn the_highest_go_first_when_fewer_are_asked_for() {
        check(set(Some(1), Some(4)), &[0, 1, 2, 3], &[Step::Remove(vec![3, 2, 1]), Step::Report(1)]);
        check(set(Some(0), Some(1)), &[0], &[Step::Remove(vec![0]), Step::Report(0)]);
    }

    #[test]
    fn a_number_beyond_all_reason_is_approached_in_bounded_passes() {
        let set = set(Some(i32::MAX), Some(0));
        let plan = plan(&Observed { set: Arc::new(set), replicas: BTreeMap::new() });
        assert_eq!(plan.steps, [Step::Create((0..500).collect())]);
    }

    #[test]
    fn only_what_the_set_owns_counts() {
        let owner = set(Some(1), None);
        let mut other = owner.clone();
        other.metadata.uid = Some("other".to_owned());
        let maps = [
            map("s-0", None),
            map("s-1", Some(&other)),
            map("s-x", Some(&owner)),
            map("s--1", Some(&owner)),
            map("s-2", Some(&owner)),
        ];
        assert_eq!(replicas(&owner, maps).into_keys().collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn what_goes_takes_all_with_it() {
        let mut going = set(Some(3), Some(3));
        going.metadata.deletion_timestamp = Some(rdd_types::Time(Default::default()));
        check(going.clone(), &[0], &[]);
        going.metadata.finalizers = Some(vec![finalizer::CLEANUP.to_owned()]);
        check(going, &[0], &[Step::Sweep, Step::Release]);
    }
}
