//! Groups, versions, kinds and resources: the identifiers of Kubernetes APIs, and the priority order of versions.

use std::{cmp::Ordering, fmt};

/// A group and version, written together as the `apiVersion` of objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupVersion {
    /// The group; empty for the core API.
    pub group: String,
    /// The version.
    pub version: String,
}

/// A kind in a group. Errors about objects name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupKind {
    /// The group; empty for the core API.
    pub group: String,
    /// The kind, as in `ConfigMap`.
    pub kind: String,
}

/// A resource in a group. Errors about requests name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupResource {
    /// The group; empty for the core API.
    pub group: String,
    /// The plural name, as in `configmaps`.
    pub resource: String,
}

/// The type of an object, from its `apiVersion` and `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupVersionKind {
    /// The group; empty for the core API.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind, as in `ConfigMap`.
    pub kind: String,
}

/// The resource of a request, from its path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupVersionResource {
    /// The group; empty for the core API.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name, as in `configmaps`.
    pub resource: String,
}

/// An `apiVersion` has more than one slash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unexpected GroupVersion string: {0}")]
pub struct UnexpectedGroupVersion(String);

impl GroupVersion {
    /// Creates a group and version.
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// Parses an `apiVersion`. The empty text and `/` give the empty group and version, as in
    /// `schema.ParseGroupVersion`.
    pub fn parse(text: &str) -> Result<Self, UnexpectedGroupVersion> {
        match text.split_once('/') {
            None => Ok(Self::new("", text)),
            Some((_, rest)) if rest.contains('/') => Err(UnexpectedGroupVersion(text.to_owned())),
            Some((group, version)) => Ok(Self::new(group, version)),
        }
    }

    /// Adds a kind.
    pub fn with_kind(&self, kind: impl Into<String>) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.version.clone(), kind: kind.into() }
    }

    /// Adds a resource.
    pub fn with_resource(&self, resource: impl Into<String>) -> GroupVersionResource {
        GroupVersionResource { group: self.group.clone(), version: self.version.clone(), resource: resource.into() }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            formatter.write_str(&self.version)
        } else {
            write!(formatter, "{}/{}", self.group, self.version)
        }
    }
}

impl GroupKind {
    /// Creates a group and kind.
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_qualified(formatter, &self.kind, &self.group)
    }
}

impl GroupResource {
    /// Creates a group and resource.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }

    /// Parses `resource.group`, split at the first dot. Without a dot, the group is the core group.
    pub fn parse(text: &str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        Self::new(group, resource)
    }

    /// Whether both group and resource are empty.
    pub fn is_empty(&self) -> bool {
        self.group.is_empty() && self.resource.is_empty()
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_qualified(formatter, &self.resource, &self.group)
    }
}

fn write_qualified(formatter: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    if group.is_empty() { formatter.write_str(name) } else { write!(formatter, "{name}.{group}") }
}

impl GroupVersionKind {
    /// Creates a group, version and kind.
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// Creates one from the two type fields of an object. Like upstream's, it ignores an invalid `apiVersion` and keeps
    /// the kind.
    pub fn from_type_meta(api_version: &str, kind: &str) -> Self {
        GroupVersion::parse(api_version).unwrap_or_default().with_kind(kind)
    }

    /// The group and version, without the kind.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }

    /// The group and kind, without the version.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(&self.group, &self.kind)
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

impl GroupVersionResource {
    /// Creates a group, version and resource.
    pub fn new(group: impl Into<String>, version: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    /// The group and version, without the resource.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }

    /// The group and resource, without the version.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.resource)
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}, Resource={}", self.group, self.version, self.resource)
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    Alpha,
    Beta,
    Stable,
}

/// Compares two versions by Kubernetes' priority; `Greater` means that discovery lists `left` first. GA versions come
/// before beta and beta before alpha, then higher numbers first. Names that are not versions come last, in alphabetical
/// order.
pub fn compare_version_priority(left: &str, right: &str) -> Ordering {
    match (parse_version(left), parse_version(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => right.cmp(left),
    }
}

/// Sorts versions so that the preferred one is first.
pub fn sort_by_priority<T: AsRef<str>>(versions: &mut [T]) {
    versions.sort_by(|left, right| compare_version_priority(right.as_ref(), left.as_ref()));
}

fn parse_version(version: &str) -> Option<(Stability, i64, i64)> {
    let rest = version.strip_prefix('v')?;
    let (major, rest) = split_number(rest)?;
    let (stability, minor) = match rest {
        "" => return Some((Stability::Stable, major, 0)),
        _ => rest.strip_prefix("alpha").map(|minor| (Stability::Alpha, minor)),
    }
    .or_else(|| rest.strip_prefix("beta").map(|minor| (Stability::Beta, minor)))?;
    let (minor, rest) = split_number(minor)?;
    rest.is_empty().then_some((stability, major, minor))
}

fn split_number(text: &str) -> Option<(i64, &str)> {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_version_splits_at_its_one_slash() {
        for (text, group, version) in [
            ("v1", "", "v1"),
            ("apps/v1", "apps", "v1"),
            ("", "", ""),
            ("/", "", ""),
            ("/v1", "", "v1"),
            ("a/", "a", ""),
        ] {
            assert_eq!(GroupVersion::parse(text), Ok(GroupVersion::new(group, version)), "{text}");
        }
        let error = GroupVersion::parse("a/b/c").unwrap_err();
        assert_eq!(error.to_string(), "unexpected GroupVersion string: a/b/c");
        assert_eq!(GroupVersionKind::from_type_meta("a/b/c", "K"), GroupVersionKind::new("", "", "K"));
    }

    #[test]
    fn each_prints_as_upstream_prints_it() {
        assert_eq!(GroupVersion::new("", "v1").to_string(), "v1");
        assert_eq!(GroupVersion::new("apps", "v1").to_string(), "apps/v1");
        assert_eq!(GroupKind::new("apps", "Deployment").to_string(), "Deployment.apps");
        assert_eq!(GroupResource::new("", "configmaps").to_string(), "configmaps");
        assert_eq!(GroupResource::parse("foos.a.example.com"), GroupResource::new("a.example.com", "foos"));
        assert_eq!(GroupVersionKind::new("", "v1", "Event").to_string(), "/v1, Kind=Event");
        assert_eq!(GroupVersionResource::new("apps", "v1", "deployments").to_string(), "apps/v1, Resource=deployments");
    }

    #[test]
    fn versions_are_preferred_by_stability_then_number_and_others_come_last() {
        let mut versions = [
            "foo10",
            "v1alpha1",
            "v10beta3",
            "v2",
            "v11alpha2",
            "v1",
            "v3beta1",
            "foo1",
            "v12alpha1",
            "v10",
            "v11beta2",
            "v1beta",
            "v1gamma1",
            "v99999999999999999999",
        ];
        sort_by_priority(&mut versions);
        assert_eq!(
            versions,
            [
                "v10",
                "v2",
                "v1",
                "v11beta2",
                "v10beta3",
                "v3beta1",
                "v12alpha1",
                "v11alpha2",
                "v1alpha1",
                "foo1",
                "foo10",
                "v1beta",
                "v1gamma1",
                "v99999999999999999999",
            ]
        );
        assert_eq!(compare_version_priority("v1", "v1"), Ordering::Equal);
    }
}
