//! The type of an object, in the format of upstream's errors.

use serde_json::Value;

/// Describes an object in errors as upstream does: `ns/name; group/version, Kind=Kind`.
pub(super) fn describe(object: &Value) -> String {
    let metadata = |name: &str| object["metadata"][name].as_str().unwrap_or("");
    format!("{}/{}; {}", metadata("namespace"), metadata("name"), GroupVersionKind::of(object))
}

/// The group, version and kind in an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GroupVersionKind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

impl<'a> GroupVersionKind<'a> {
    pub(super) fn new(api_version: &'a str, kind: &'a str) -> Self {
        let mut parts = api_version.split('/');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(version), None, _) => Self { group: "", version, kind },
            (Some(group), Some(version), None) => Self { group, version, kind },
            // Like upstream, an invalid version hides the kind as well.
            _ => Self { group: "", version: "", kind: "" },
        }
    }

    pub(super) fn of(object: &'a Value) -> Self {
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or("");
        Self::new(text("apiVersion"), text("kind"))
    }
}

impl std::fmt::Display for GroupVersionKind<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}
