//! What an object says it is, as upstream spells it in errors.

use serde_json::Value;

/// `ns/name; group/version, Kind=Kind`, as upstream names an object in its errors.
pub(super) fn describe(object: &Value) -> String {
    let metadata = |name: &str| object["metadata"][name].as_str().unwrap_or("");
    format!("{}/{}; {}", metadata("namespace"), metadata("name"), GroupVersionKind::of(object))
}

/// What an object says it is.
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
            // A version that cannot be read hides the kind as well.
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
