//! API discovery: the server's resources, fetched only as far as a name requires.

use std::{cell::OnceCell, rc::Rc};

use rdd_meta::go_text::quote;
use serde_json::Value;

use crate::{
    api::{Api, Call},
    error::{Error, Result},
};

/// The media types that client-go sends: servers since 1.30 support the first, those since 1.26 the second, older ones the last.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
     application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// A resource of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// The API group; empty for the core group.
    pub(crate) group: String,
    /// The version.
    pub(crate) version: String,
    /// The kind.
    pub(crate) kind: String,
    /// The plural name.
    pub(crate) resource: String,
    /// The singular name.
    pub(crate) singular: String,
    /// Whether the resource is namespaced.
    pub(crate) namespaced: bool,
    /// The supported verbs.
    pub(crate) verbs: Vec<String>,
    /// The short names.
    pub(crate) short_names: Vec<String>,
    /// The categories.
    pub(crate) categories: Vec<String>,
}

impl Mapping {
    /// `v1` or `group/v1`.
    pub(crate) fn group_version(&self) -> String {
        join_group_version(&self.group, &self.version)
    }

    /// The path of an object, or of the collection if the name is empty.
    pub(crate) fn path(&self, namespace: &str, name: &str) -> String {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if self.namespaced && !namespace.is_empty() {
            path.push_str(&format!("/namespaces/{namespace}"));
        }
        path.push_str(&format!("/{}", self.resource));
        if !name.is_empty() {
            path.push_str(&format!("/{name}"));
        }
        path
    }

    /// Go's formatting of a `GroupVersionResource`.
    pub(crate) fn resource_string(&self) -> String {
        format!("{}/{}, Resource={}", self.group, self.version, self.resource)
    }

    /// `kind` or `kind.group`, in lower case.
    pub(crate) fn kind_string(&self) -> String {
        kind_string(&self.group, &self.kind)
    }
}

/// `kind` or `kind.group`, in lower case.
pub(crate) fn kind_string(group: &str, kind: &str) -> String {
    let kind = kind.to_lowercase();
    if group.is_empty() { kind } else { format!("{kind}.{group}") }
}

/// `v1` or `group/v1`.
pub(crate) fn join_group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Splits an `apiVersion` into group and version.
pub(crate) fn split_group_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// The cached resources: groups in the server's order, versions by preference.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    core: OnceCell<Vec<Rc<Mapping>>>,
    groups: OnceCell<Vec<Rc<Mapping>>>,
}

impl Discovery {
    /// The resources of the core group.
    pub(crate) fn core(&self, api: &Api) -> Result<&[Rc<Mapping>]> {
        load(&self.core, api, "/api")
    }

    /// The resources of all other groups.
    pub(crate) fn groups(&self, api: &Api) -> Result<&[Rc<Mapping>]> {
        load(&self.groups, api, "/apis")
    }

    /// The resources of all groups.
    pub(crate) fn all(&self, api: &Api) -> Result<Vec<Rc<Mapping>>> {
        Ok([self.core(api)?, self.groups(api)?].concat())
    }

    /// Resolves a resource argument: `cm`, `configmap`, `ConfigMap`, `deployments.apps`, `deployments.v1.apps`. Calls `warn` if a
    /// short name is ambiguous.
    pub(crate) fn find(&self, api: &Api, word: &str, warn: &dyn Fn(&str)) -> Result<Rc<Mapping>> {
        // The core group has the highest priority, so a match there saves the request for the other groups.
        if !word.contains('.')
            && let Some(found) = find_in(self.core(api)?, word)
            && !found.short_names.iter().any(|name| name == word)
        {
            return Ok(found);
        }
        let all = self.all(api)?;
        let found = find_in(&all, word).ok_or_else(|| {
            let resource = word.split('.').next().unwrap_or(word);
            Error::text(format!("the server doesn't have a resource type {}", quote(resource)))
        })?;
        if let Some(other) = all.iter().find(|other| is_rival(&found, other, word)) {
            let name = format!("{}.{}", other.resource, other.group);
            warn(&format!("short name {} could also match lower priority resource {name}", quote(word)));
        }
        Ok(found)
    }

    /// Finds the resource of a kind; `None` if the server does not have it.
    pub(crate) fn of_kind(&self, api: &Api, api_version: &str, kind: &str) -> Result<Option<Rc<Mapping>>> {
        let (group, version) = split_group_version(api_version);
        let all = if group.is_empty() { self.core(api)? } else { self.groups(api)? };
        let is_it =
            |mapping: &&Rc<Mapping>| mapping.group == group && mapping.version == version && mapping.kind == kind;
        Ok(all.iter().find(is_it).cloned())
    }

    /// The names of the resources in a category.
    pub(crate) fn category(&self, api: &Api, word: &str) -> Result<Vec<String>> {
        let mut names: Vec<String> = Vec::new();
        for mapping in self.all(api)?.iter().filter(|mapping| mapping.categories.iter().any(|name| name == word)) {
            let name = match mapping.group.as_str() {
                "" => mapping.resource.clone(),
                group => format!("{}.{group}", mapping.resource),
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Whether the core group has a resource of this name.
    pub(crate) fn is_in_core(&self, api: &Api, word: &str) -> Result<bool> {
        Ok(!word.contains('.') && find_in(self.core(api)?, word).is_some())
    }
}

fn load<'a>(cell: &'a OnceCell<Vec<Rc<Mapping>>>, api: &Api, path: &str) -> Result<&'a [Rc<Mapping>]> {
    if let Some(known) = cell.get() {
        return Ok(known);
    }
    let mut call = Call::get(path);
    call.accept = AGGREGATED;
    let told = api.call(&call)?;
    let mappings = match told["kind"].as_str() {
        Some("APIVersions" | "APIGroupList") => read_one_by_one(api, &told),
        _ => read(&told),
    };
    Ok(cell.get_or_init(|| mappings))
}

/// Queries an older server version by version. Like kubectl, it skips a group whose server does not respond.
fn read_one_by_one(api: &Api, told: &Value) -> Vec<Rc<Mapping>> {
    let mut mappings = Vec::new();
    for (group, version) in group_versions(told) {
        let path = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        if let Ok(list) = api.call(&Call::get(path)) {
            mappings.extend(read_resources(&group, &version, &list));
        }
    }
    mappings
}

/// The versions in an `APIVersions` or `APIGroupList`, the preferred version of each group first.
fn group_versions(told: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let core = items(&told["versions"]).iter().map(|version| (String::new(), text(version)));
    let mut versions: Vec<(String, String)> = core.collect();
    for group in items(&told["groups"]) {
        let preferred = &group["preferredVersion"]["version"];
        let mut of_group: Vec<&Value> = items(&group["versions"]).iter().map(|version| &version["version"]).collect();
        of_group.sort_by_key(|version| *version != preferred);
        versions.extend(of_group.into_iter().map(|version| (text(&group["name"]), text(version))));
    }
    versions
}

/// The resources in an `APIResourceList`, without subresources.
fn read_resources(group: &str, version: &str, list: &Value) -> Vec<Rc<Mapping>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| items(value).iter().map(text).collect();
    let resources = items(&list["resources"]).iter();
    let resources = resources.filter(|resource| !text(&resource["name"]).contains('/'));
    let mapping = |resource: &Value| {
        Rc::new(Mapping {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: text(&resource["kind"]),
            resource: text(&resource["name"]),
            singular: text(&resource["singularName"]),
            namespaced: resource["namespaced"] == true,
            verbs: texts(&resource["verbs"]),
            short_names: texts(&resource["shortNames"]),
            categories: texts(&resource["categories"]),
        })
    };
    resources.map(mapping).collect()
}

fn read(told: &Value) -> Vec<Rc<Mapping>> {
    let mut mappings = Vec::new();
    for group in items(&told["items"]) {
        let name = group["metadata"]["name"].as_str().unwrap_or_default();
        for version in items(&group["versions"]) {
            for resource in items(&version["resources"]) {
                mappings.push(Rc::new(mapping(name, version["version"].as_str().unwrap_or_default(), resource)));
            }
        }
    }
    mappings
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn mapping(group: &str, version: &str, resource: &Value) -> Mapping {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| items(value).iter().map(text).collect();
    Mapping {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: text(&resource["responseKind"]["kind"]),
        resource: text(&resource["resource"]),
        singular: text(&resource["singularResource"]),
        namespaced: resource["scope"] == "Namespaced",
        verbs: texts(&resource["verbs"]),
        short_names: texts(&resource["shortNames"]),
        categories: texts(&resource["categories"]),
    }
}

/// Whether the short name could also mean the other resource.
fn is_rival(found: &Mapping, other: &Mapping, word: &str) -> bool {
    let has = |mapping: &Mapping| mapping.short_names.iter().any(|name| name == word);
    has(found) && has(other) && (found.group != other.group || found.resource != other.resource)
}

fn find_in(all: &[Rc<Mapping>], word: &str) -> Option<Rc<Mapping>> {
    let parts: Vec<&str> = word.splitn(3, '.').collect();
    // The order decides what an ambiguous word means, and follows kubectl's.
    let full = match parts.as_slice() {
        [name, version, group] => by_name(all, name, Some(version), group),
        _ => None,
    };
    let (name, group) = word.split_once('.').unwrap_or((word, ""));
    full.or_else(|| match parts.as_slice() {
        [name, version, group] => by_short_name(all, name, Some(version), group),
        _ => None,
    })
    .or_else(|| by_name(all, name, None, group))
    .or_else(|| by_short_name(all, name, None, group))
    .or_else(|| match parts.as_slice() {
        [kind, version, group] => by_kind(all, kind, Some(version), group),
        _ => None,
    })
    .or_else(|| by_kind(all, name, None, group))
}

fn by_name(all: &[Rc<Mapping>], name: &str, version: Option<&str>, group: &str) -> Option<Rc<Mapping>> {
    let name = name.to_lowercase();
    let named = |mapping: &&Rc<Mapping>| {
        (mapping.resource == name || singular(mapping) == name)
            && version.is_none_or(|version| mapping.version == version)
    };
    let exact =
        |mapping: &&Rc<Mapping>| named(mapping) && (mapping.group == group || (group.is_empty() && version.is_none()));
    // kubectl accepts a prefix of the group name.
    let prefix = |mapping: &&Rc<Mapping>| version.is_none() && named(mapping) && mapping.group.starts_with(group);
    all.iter().find(exact).or_else(|| all.iter().find(prefix)).cloned()
}

fn singular(mapping: &Mapping) -> String {
    if mapping.singular.is_empty() { mapping.kind.to_lowercase() } else { mapping.singular.clone() }
}

fn by_short_name(all: &[Rc<Mapping>], name: &str, version: Option<&str>, group: &str) -> Option<Rc<Mapping>> {
    let found = |mapping: &&Rc<Mapping>| {
        (mapping.group == group || (group.is_empty() && version.is_none()))
            && version.is_none_or(|version| mapping.version == version)
            && mapping.short_names.iter().any(|known| known == name)
    };
    all.iter().find(found).cloned()
}

fn by_kind(all: &[Rc<Mapping>], kind: &str, version: Option<&str>, group: &str) -> Option<Rc<Mapping>> {
    let found = |mapping: &&Rc<Mapping>| {
        mapping.kind == kind && mapping.group == group && version.is_none_or(|version| mapping.version == version)
    };
    all.iter().find(found).cloned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mk(group: &str, version: &str, kind: &str, resource: &str, short: &[&str]) -> Rc<Mapping> {
        Rc::new(Mapping {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            resource: resource.to_owned(),
            singular: kind.to_lowercase(),
            namespaced: true,
            verbs: Vec::new(),
            short_names: short.iter().map(|name| (*name).to_owned()).collect(),
            categories: Vec::new(),
        })
    }

    // Finding E-9
    #[test]
    fn servers_without_aggregated_discovery_are_asked_version_by_version() {
        let groups = json!({"kind": "APIGroupList", "groups": [{
            "name": "batch",
            "versions": [{"version": "v1beta1"}, {"version": "v1"}],
            "preferredVersion": {"version": "v1"},
        }]});
        let pair = |group: &str, version: &str| (group.to_owned(), version.to_owned());
        assert_eq!(group_versions(&groups), [pair("batch", "v1"), pair("batch", "v1beta1")]);
        assert_eq!(group_versions(&json!({"kind": "APIVersions", "versions": ["v1"]})), [pair("", "v1")]);
        let list = json!({"resources": [
            {"name": "pods", "singularName": "", "namespaced": true, "kind": "Pod", "verbs": ["get"], "shortNames": ["po"]},
            {"name": "pods/log", "namespaced": true, "kind": "Pod", "verbs": ["get"]},
        ]});
        let found = read_resources("", "v1", &list);
        assert_eq!((found.len(), found[0].resource.as_str(), found[0].namespaced), (1, "pods", true));
        assert_eq!(
            find_in(&found, "pod").unwrap().kind,
            "Pod",
            "a singular name that is not told follows from the kind"
        );
    }

    #[test]
    fn a_word_is_a_plural_a_singular_a_short_name_or_a_kind_with_or_without_its_group() {
        let all = [
            mk("", "v1", "ConfigMap", "configmaps", &["cm"]),
            mk("", "v1", "Event", "events", &["ev"]),
            mk("apps", "v1", "Deployment", "deployments", &["deploy"]),
            mk("events.k8s.io", "v1", "Event", "events", &["ev"]),
            mk("books.example", "v1", "Tale", "tales", &[]),
            mk("books.example", "v1beta1", "Tale", "tales", &[]),
        ];
        let found =
            |word: &str| find_in(&all, word).map(|mapping| format!("{}/{}", mapping.group_version(), mapping.resource));
        for (word, expected) in [
            ("cm", Some("v1/configmaps")),
            ("configmap", Some("v1/configmaps")),
            ("ConfigMap", Some("v1/configmaps")),
            ("CONFIGMAPS", Some("v1/configmaps")),
            ("ev", Some("v1/events")),
            ("events.events.k8s.io", Some("events.k8s.io/v1/events")),
            ("ev.events.k8s.io", Some("events.k8s.io/v1/events")),
            ("deployments.apps", Some("apps/v1/deployments")),
            ("deployments.v1.apps", Some("apps/v1/deployments")),
            ("deploy.apps", Some("apps/v1/deployments")),
            ("tales", Some("books.example/v1/tales")),
            ("tales.v1beta1.books.example", Some("books.example/v1beta1/tales")),
            ("tale.books", Some("books.example/v1/tales")),
            ("tales.v9.books.example", None),
            ("nothing", None),
        ] {
            assert_eq!(found(word).as_deref(), expected, "{word}");
        }
    }
}
