//! The order of groups and versions in discovery: upstream's priorities first, then by name.

use std::{cmp::Reverse, collections::HashSet};

use rdd_meta::gvk::sort_by_priority;

use crate::registry::Served;

/// The priority of groups without an entry, which are those of custom resources.
const ORDINARY: u32 = 1000;

/// Upstream's priorities of its own groups, including groups that this server does not serve.
const PRIORITIES: &[(&str, u32)] = &[
    ("apiregistration.k8s.io", 20001),
    ("", 18000),
    ("apps", 17800),
    ("events.k8s.io", 17750),
    ("authentication.k8s.io", 17700),
    ("authorization.k8s.io", 17600),
    ("autoscaling", 17500),
    ("batch", 17400),
    ("certificates.k8s.io", 17300),
    ("networking.k8s.io", 17200),
    ("policy", 17100),
    ("rbac.authorization.k8s.io", 17000),
    ("storage.k8s.io", 16800),
    ("admissionregistration.k8s.io", 16700),
    ("apiextensions.k8s.io", 16700),
    ("scheduling.k8s.io", 16600),
    ("coordination.k8s.io", 16500),
    ("node.k8s.io", 16300),
    ("discovery.k8s.io", 16200),
    ("resource.k8s.io", 16200),
    ("flowcontrol.apiserver.k8s.io", 16100),
    ("internal.apiserver.k8s.io", 16000),
    ("storagemigration.k8s.io", 15800),
];

/// The priority of a group in discovery. Groups with a higher priority come first.
pub fn group_priority(group: &str) -> u32 {
    PRIORITIES.iter().find(|(name, _)| *name == group).map_or(ORDINARY, |(_, priority)| *priority)
}

/// The served versions of a group, the preferred one first. Empty if the group is not served.
pub fn versions<'a>(served: &'a Served, group: &str) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    let all = served.in_group(group).flat_map(|def| &def.versions).map(|version| version.name.as_str());
    let mut versions: Vec<&str> = all.filter(|name| seen.insert(*name)).collect();
    sort_by_priority(&mut versions);
    versions
}

/// The served groups without the core group, in the order of the aggregated document.
pub fn groups(served: &Served) -> Vec<&str> {
    let mut groups: Vec<&str> = served.all().filter(|def| !def.versions.is_empty()).map(|def| &*def.group).collect();
    // Definitions are sorted by group, so duplicates are adjacent.
    groups.dedup();
    groups.retain(|group| !group.is_empty());
    groups.sort_by_key(|group| (Reverse(group_priority(group)), *group));
    groups
}

/// The served groups in the order of the unaggregated document, where groups with equal priority are sorted by the name of their first
/// APIService: `v1.example.com` comes before `v1beta1.a.example.com`.
pub(super) fn groups_by_service<'a>(served: &'a Served) -> Vec<&'a str> {
    let mut groups = groups(served);
    let first_service =
        |group: &'a str| versions(served, group).into_iter().map(|version| format!("{version}.{group}")).min();
    groups.sort_by_cached_key(|group| (Reverse(group_priority(group)), first_service(group)));
    groups
}
