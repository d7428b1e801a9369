//! The table of supported Kubernetes versions and of the channels.

use std::{collections::BTreeMap, ops::RangeInclusive};

/// The patch releases of each minor release of Kubernetes 1.
const RELEASES: &[(u32, RangeInclusive<u32>)] = &[(32, 0..=13), (33, 0..=10), (34, 1..=6), (35, 0..=3)];

/// The versions that exist as build `k3s3` instead of `k3s1`, as (minor, patch).
const THIRD_BUILDS: &[(u32, u32)] = &[(32, 11), (33, 7), (34, 3), (35, 0)];

/// The version of each channel.
const CHANNELS: &[(&str, &str)] = &[
    ("1.32", "1.32.13"),
    ("1.33", "1.33.10"),
    ("1.34", "1.34.6"),
    ("1.35", "1.35.3"),
    ("latest", "1.35.3"),
    ("stable", "1.34.6"),
];

/// All versions: the full version (`v1.34.6+k3s1`) by the bare one (`1.34.6`).
pub fn versions() -> BTreeMap<String, String> {
    let all = RELEASES.iter().flat_map(|(minor, patches)| patches.clone().map(move |patch| (*minor, patch)));
    all.map(|(minor, patch)| {
        let build = if THIRD_BUILDS.contains(&(minor, patch)) { 3 } else { 1 };
        (format!("1.{minor}.{patch}"), format!("v1.{minor}.{patch}+k3s{build}"))
    })
    .collect()
}

/// All channels, without a leading `v`: the bare version by the channel.
pub fn channels() -> BTreeMap<String, String> {
    CHANNELS.iter().map(|(channel, version)| ((*channel).to_owned(), (*version).to_owned())).collect()
}

/// The bare version of a channel, if the name is one; a leading `v` is ignored.
pub fn channel(name: &str) -> Option<String> {
    let name = name.strip_prefix('v').unwrap_or(name);
    CHANNELS.iter().find(|(channel, _)| *channel == name).map(|(_, version)| (*version).to_owned())
}

/// The full version for this version, if it is supported; a leading `v` is ignored. A version with a K3s build matches exactly that
/// build, because another build would not be the requested one.
pub fn full(version: &str) -> Option<String> {
    let full = versions().remove(bare(version))?;
    let asked = version.strip_prefix('v').unwrap_or(version);
    (!asked.contains("+k3s") || full.strip_prefix('v') == Some(asked)).then_some(full)
}

/// Whether one full version is older than another. False if either is not a version.
pub fn is_older(version: &str, than: &str) -> bool {
    match (order(version), order(than)) {
        (Some(version), Some(than)) => version < than,
        _ => false,
    }
}

fn order(version: &str) -> Option<(u32, u32, u32, u32)> {
    let version = version.strip_prefix('v').unwrap_or(version);
    let (bare, build) = version.split_once("+k3s").unwrap_or((version, "0"));
    let mut parts = bare.split('.').map(|part| part.parse().ok());
    let mut next = || parts.next().flatten();
    let order = (next()?, next()?, next()?, build.parse().ok()?);
    parts.next().is_none().then_some(order)
}

/// Whether this version is supported, by the rules of [`full`].
pub fn supports(version: &str) -> bool {
    full(version).is_some()
}

/// A version without its leading `v` and its build of K3s.
pub fn bare(version: &str) -> &str {
    let version = version.strip_prefix('v').unwrap_or(version);
    version.split_once("+k3s").map_or(version, |(bare, _)| bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_thirty_five_versions_each_with_its_build() {
        let versions = versions();
        assert_eq!(versions.len(), 35);
        let text = serde_json::to_string(&versions).unwrap();
        assert!(text.starts_with(r#"{"1.32.0":"v1.32.0+k3s1","1.32.1":"v1.32.1+k3s1","1.32.10":"#), "{text}");
        for version in ["1.32.11", "1.33.7", "1.34.3", "1.35.0"] {
            assert_eq!(versions[version], format!("v{version}+k3s3"));
        }
        assert_eq!(versions["1.35.3"], "v1.35.3+k3s1");
        assert!(!versions.contains_key("1.34.0"));
    }

    #[test]
    fn channels_stand_for_versions_that_there_are() {
        let text = serde_json::to_string(&channels()).unwrap();
        let wanted = r#"{"1.32":"1.32.13","1.33":"1.33.10","1.34":"1.34.6","1.35":"1.35.3","latest":"1.35.3","stable":"1.34.6"}"#;
        assert_eq!(text, wanted);
        for version in channels().values() {
            assert!(supports(version), "{version}");
        }
        assert_eq!((channel("v1.32").as_deref(), channel("stable").as_deref()), (Some("1.32.13"), Some("1.34.6")));
        assert_eq!((channel("1.32.0"), channel("")), (None, None));
    }

    #[test]
    fn a_version_is_known_however_it_is_written() {
        for text in ["1.34.6", "v1.34.6", "v1.34.6+k3s1", "1.34.6+k3s1"] {
            assert_eq!(full(text).as_deref(), Some("v1.34.6+k3s1"), "{text}");
        }
        // The requested build is the one that runs: newer.md 7, about the third builds.
        assert_eq!(full("1.32.11").as_deref(), Some("v1.32.11+k3s3"));
        assert_eq!((full("v1.32.11+k3s1"), full("v1.34.6+k3s2")), (None, None));
        for text in ["", "1.34", "1.34.0", "stable", "1.34.6-rc1", "v"] {
            assert!(!supports(text), "{text}");
        }
    }

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        for (older, newer) in [
            ("v1.33.10+k3s1", "v1.34.1+k3s1"),
            ("1.33.9", "1.33.10"),
            ("v1.34.3+k3s1", "v1.34.3+k3s3"),
            ("0.9.9", "1.0.0"),
        ] {
            assert!(is_older(older, newer) && !is_older(newer, older), "{older} {newer}");
        }
        for text in ["", "v", "1.2", "1.2.3.4", "1.2.x", "stable", "1.2.3+k3sx"] {
            assert!(!is_older(text, "1.2.3") && !is_older("1.2.3", text), "{text}");
        }
        assert!(!is_older("1.34.6", "1.34.6"));
    }
}
