//! Which requests a rule of a webhook is about.

use super::super::{Attributes, Operation};

/// A rule, as `RuleWithOperations` has it.
#[derive(Debug, Clone, Default)]
pub(super) struct Rule {
    pub(super) operations: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) versions: Vec<String>,
    /// `pods`, `pods/status`, `pods/*`, `*`, `*/scale`, `*/*`.
    pub(super) resources: Vec<String>,
    pub(super) scope: Scope,
}

/// Where the objects are that a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Scope {
    /// Anywhere.
    #[default]
    All,
    /// In a namespace.
    Namespaced,
    /// In none; a Namespace is in none.
    Cluster,
    /// A word that nobody knows.
    Nowhere,
}

/// What a rule looks at: a request, under the name of its resource or of an equivalent one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) operation: Operation,
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) resource: &'a str,
    pub(super) subresource: &'a str,
    pub(super) namespace: &'a str,
}

impl<'a> Asked<'a> {
    pub(super) fn of(attributes: &'a Attributes<'_>) -> Self {
        Self {
            operation: attributes.operation,
            group: &attributes.resource.group,
            version: &attributes.resource.version,
            resource: &attributes.resource.resource,
            subresource: attributes.subresource,
            namespace: attributes.request_namespace(),
        }
    }

    fn is_namespaced(&self) -> bool {
        // The namespace of a Namespace is its own name, and yet it is in none.
        let is_namespace = (self.group, self.version, self.resource) == ("", "v1", "namespaces");
        !is_namespace && !self.namespace.is_empty()
    }
}

impl Scope {
    pub(super) fn parse(text: Option<&str>) -> Self {
        match text {
            None | Some("*") => Self::All,
            Some("Namespaced") => Self::Namespaced,
            Some("Cluster") => Self::Cluster,
            Some(_) => Self::Nowhere,
        }
    }
}

impl Rule {
    /// Whether it is about a request.
    pub(super) fn matches(&self, asked: &Asked<'_>) -> bool {
        let scope = match self.scope {
            Scope::All => true,
            Scope::Namespaced => asked.is_namespaced(),
            Scope::Cluster => !asked.is_namespaced(),
            Scope::Nowhere => false,
        };
        scope
            && named(&self.operations, asked.operation.as_str())
            && named(&self.groups, asked.group)
            && named(&self.versions, asked.version)
            && self.resources.iter().any(|resource| is_resource(resource, asked))
    }
}

fn named(words: &[String], wanted: &str) -> bool {
    words.iter().any(|word| word == "*" || word == wanted)
}

fn is_resource(text: &str, asked: &Asked<'_>) -> bool {
    let (resource, subresource) = text.split_once('/').unwrap_or((text, ""));
    (resource == "*" || resource == asked.resource) && (subresource == "*" || subresource == asked.subresource)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(|word| if word == "core" { String::new() } else { word.to_owned() }).collect()
    }

    fn asked(path: &'static str, namespace: &'static str) -> Asked<'static> {
        let parts: Vec<&str> = path.split('/').collect();
        let [group, version, resource, subresource] = parts[..] else { panic!("four parts: {path}") };
        let group = if group == "core" { "" } else { group };
        Asked { operation: Operation::Create, group, version, resource, subresource, namespace }
    }

    #[test]
    fn a_rule_names_resources_and_their_parts() {
        for (resources, pods, status, scale_of_sets) in [
            ("pods", true, false, false),
            ("pods/status", false, true, false),
            ("pods/*", true, true, false),
            ("*", true, false, false),
            ("*/*", true, true, true),
            ("*/scale", false, false, true),
            ("services replicasets/scale", false, false, true),
            ("services", false, false, false),
        ] {
            let rule = Rule {
                operations: words("*"),
                groups: words("*"),
                versions: words("*"),
                resources: words(resources),
                scope: Scope::All,
            };
            let found = ["core/v1/pods/", "core/v1/pods/status", "apps/v1/replicasets/scale"]
                .map(|path| rule.matches(&asked(path, "ns")));
            assert_eq!(found, [pods, status, scale_of_sets], "{resources}");
        }
    }

    #[test]
    fn operations_groups_and_versions_match_exactly_or_by_a_star() {
        for (operations, groups, versions, expected) in [
            ("CREATE", "core", "v1", true),
            ("UPDATE CREATE", "apps core", "v1beta1 v1", true),
            ("*", "*", "*", true),
            ("UPDATE", "core", "v1", false),
            ("CREATE", "apps", "v1", false),
            ("CREATE", "core", "v1beta1", false),
            ("create", "core", "v1", false),
        ] {
            let rule = Rule {
                operations: words(operations),
                groups: words(groups),
                versions: words(versions),
                resources: words("pods"),
                scope: Scope::All,
            };
            let matches = rule.matches(&asked("core/v1/pods/", "ns"));
            assert_eq!(matches, expected, "{operations} {groups} {versions}");
        }
    }

    #[test]
    fn a_scope_divides_what_is_in_namespaces_from_what_is_not() {
        let rule = |scope| Rule {
            operations: words("*"),
            groups: words("*"),
            versions: words("*"),
            resources: words("*/*"),
            scope: Scope::parse(scope),
        };
        for (path, namespace, in_one, in_none) in [
            ("core/v1/pods/", "ns", true, false),
            ("core/v1/nodes/", "", false, true),
            ("core/v1/namespaces/", "ns", false, true),
            ("core/v1/namespaces/finalize", "ns", false, true),
            ("other/v1/namespaces/", "ns", true, false),
        ] {
            let asked = asked(path, namespace);
            let found = [None, Some("*"), Some("Namespaced"), Some("Cluster"), Some("Else")]
                .map(|scope| rule(scope).matches(&asked));
            assert_eq!(found, [true, true, in_one, in_none, false], "{path}");
        }
    }
}
