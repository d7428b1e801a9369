//! The table of query and path parameters of operations.

/// A path or query parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// `string`, `integer` or `boolean`.
    pub(super) kind: &'static str,
    pub(super) description: String,
    /// Whether it is part of the path. Path parameters are always required.
    pub(super) in_path: bool,
}

/// All query parameters: name, type and description.
const QUERY: &[(&str, &str, &str)] = &[
    (
        "allowWatchBookmarks",
        "boolean",
        "Whether a watch also sends BOOKMARK events, which carry nothing but a resourceVersion.",
    ),
    ("continue", "string", "Where the previous page of the list ended, as its metadata told."),
    ("dryRun", "string", "All: do everything but store the outcome."),
    ("fieldManager", "string", "The name under which the changed fields are owned. At most 128 printable characters."),
    ("fieldSelector", "string", "Which objects, by their fields. All, if it is empty."),
    (
        "fieldValidation",
        "string",
        "What becomes of unknown and duplicate fields: Ignore, Warn (the default) or Strict, which refuses them.",
    ),
    ("force", "boolean", "Whether an apply takes fields over from their other owners. Not for other patches."),
    ("gracePeriodSeconds", "integer", "How long the object may take to end. Zero means at once."),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "Whether an object that cannot be read is deleted nevertheless.",
    ),
    ("labelSelector", "string", "Which objects, by their labels. All, if it is empty."),
    ("limit", "integer", "How many objects a page of the list has at most."),
    ("orphanDependents", "boolean", "Deprecated: use propagationPolicy."),
    ("pretty", "string", "Whether the answer is indented. It is by default for browsers, curl and wget."),
    ("propagationPolicy", "string", "What becomes of dependents: Orphan, Background or Foreground."),
    ("resourceVersion", "string", "Which state to answer from, or to watch from."),
    ("resourceVersionMatch", "string", "How resourceVersion is meant for a list: Exact or NotOlderThan."),
    ("sendInitialEvents", "boolean", "Whether a watch begins with the objects that are there, followed by a bookmark."),
    ("timeoutSeconds", "integer", "When the list or watch ends at the latest."),
    ("watch", "boolean", "Whether to follow changes instead of listing."),
];

/// The parameters of a list or watch.
pub(super) const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
];
/// The parameters of a create or update.
pub(super) const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
/// The parameters of a patch.
pub(super) const PATCH: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force"];
/// The parameters of a delete.
pub(super) const DELETE: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];
/// The parameters of a deletion of a collection of built-in objects.
pub(super) const DELETE_COLLECTION: &[&str] = &[
    "continue",
    "dryRun",
    "fieldSelector",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "labelSelector",
    "limit",
    "orphanDependents",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
];

/// The query parameters with these names, and `pretty`.
pub(super) fn query(names: &[&str]) -> Vec<Parameter> {
    let wanted = |name: &str| name == "pretty" || names.contains(&name);
    let parameter = |(name, kind, description): &(&'static str, &'static str, &str)| Parameter {
        name,
        kind,
        description: (*description).to_owned(),
        in_path: false,
    };
    QUERY.iter().filter(|(name, ..)| wanted(name)).map(parameter).collect()
}

/// The path parameter for the name of an object.
pub(super) fn name(kind: &str) -> Parameter {
    Parameter { name: "name", kind: "string", description: format!("name of the {kind}"), in_path: true }
}

/// The path parameter for a namespace.
pub(super) fn namespace() -> Parameter {
    Parameter {
        name: "namespace",
        kind: "string",
        description: "the namespace of the object".to_owned(),
        in_path: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_of_every_operation_is_in_the_table() {
        for names in [LIST, WRITE, PATCH, DELETE, DELETE_COLLECTION] {
            assert_eq!(query(names).len(), names.len() + 1, "{names:?}");
        }
    }
}
