//! The discovery documents, unaggregated and aggregated, with their fields in upstream's order.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::digest::{SHA256, digest};
use serde::Serialize;

use super::order;
use crate::registry::{Part, ResourceDef, Served, Stored, SubresourceDef, VersionDef};

/// The document of `/api`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiVersions {
    kind: &'static str,
    versions: Vec<String>,
    #[serde(rename = "serverAddressByClientCIDRs")]
    server_addresses: Vec<ServerAddress>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerAddress {
    #[serde(rename = "clientCIDR")]
    client_cidr: &'static str,
    server_address: String,
}

/// The document of `/apis`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroupList {
    kind: &'static str,
    api_version: &'static str,
    groups: Vec<ApiGroup>,
}

/// The document of `/apis/{group}`. As an item of `/apis` it has no kind and no apiVersion.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroup {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    name: String,
    versions: Vec<GroupVersion>,
    preferred_version: GroupVersion,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersion {
    group_version: String,
    version: String,
}

/// The document of `/api/v1` and `/apis/{group}/{version}`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiResourceList {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    group_version: String,
    resources: Vec<ApiResource>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResource {
    name: String,
    singular_name: String,
    namespaced: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    version: String,
    kind: String,
    verbs: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    storage_version_hash: String,
}

/// The aggregated document of `/api` and `/apis`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroupDiscoveryList {
    kind: &'static str,
    api_version: &'static str,
    metadata: Metadata,
    items: Vec<ApiGroupDiscovery>,
}

#[derive(Debug, Serialize)]
struct Metadata {
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
}

#[derive(Debug, Serialize)]
struct ApiGroupDiscovery {
    metadata: Metadata,
    versions: Vec<ApiVersionDiscovery>,
}

#[derive(Debug, Serialize)]
struct ApiVersionDiscovery {
    version: String,
    resources: Vec<ApiResourceDiscovery>,
    freshness: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResourceDiscovery {
    resource: String,
    response_kind: ResponseKind,
    scope: &'static str,
    singular_resource: String,
    verbs: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<ApiSubresourceDiscovery>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiSubresourceDiscovery {
    subresource: &'static str,
    response_kind: ResponseKind,
    verbs: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct ResponseKind {
    group: String,
    version: String,
    kind: String,
}

/// Builds the document of `/api`. `address` is the address by which the client reached the server.
pub(super) fn api_versions(served: &Served, address: Option<String>) -> ApiVersions {
    let address = address.map(|server_address| ServerAddress { client_cidr: "0.0.0.0/0", server_address });
    ApiVersions {
        kind: "APIVersions",
        versions: order::versions(served, "").into_iter().map(str::to_owned).collect(),
        server_addresses: address.into_iter().collect(),
    }
}

/// Builds the document of `/apis`.
pub(super) fn api_group_list(served: &Served) -> ApiGroupList {
    let groups = order::groups_by_service(served).into_iter().filter_map(|group| group_item(served, group)).collect();
    ApiGroupList { kind: "APIGroupList", api_version: "v1", groups }
}

/// Builds the document of `/apis/{group}`, or `None` if the group is not served.
pub(super) fn api_group(served: &Served, group: &str) -> Option<ApiGroup> {
    let item = group_item(served, group)?;
    Some(ApiGroup { kind: Some("APIGroup"), api_version: Some("v1"), ..item })
}

/// Builds the document of `/api/v1` or `/apis/{group}/{version}`, or `None` if the version is not served.
pub(super) fn api_resource_list(served: &Served, group: &str, version: &str) -> Option<ApiResourceList> {
    let mut resources: Vec<ApiResource> = Vec::new();
    let mut group_version = None;
    for (def, version) in in_version(served, group, version) {
        group_version.get_or_insert_with(|| def.api_version(&version.name));
        resources.push(resource(served, def));
        resources.extend(version.subresources.iter().map(|part| subresource(def, part)));
    }
    // Upstream sorts built-in resources by path; custom ones keep the order of their definitions, each with its subresources after it.
    if !served.in_group(group).any(|def| def.custom.is_some()) {
        resources.sort_by(|left, right| left.name.cmp(&right.name));
    }
    let api_version = (!group.is_empty()).then_some("v1");
    group_version.map(|group_version| ApiResourceList {
        kind: "APIResourceList",
        api_version,
        group_version,
        resources,
    })
}

/// Builds the aggregated document of these groups.
pub(super) fn aggregated(served: &Served, groups: &[&str]) -> ApiGroupDiscoveryList {
    let version = |group: &str, name: &str| ApiVersionDiscovery {
        version: name.to_owned(),
        resources: in_version(served, group, name).map(|(def, version)| resource_discovery(def, version)).collect(),
        freshness: "Current",
    };
    let item = |group: &&str| ApiGroupDiscovery {
        metadata: Metadata { name: (*group).to_owned() },
        versions: order::versions(served, group).into_iter().map(|name| version(group, name)).collect(),
    };
    ApiGroupDiscoveryList {
        kind: "APIGroupDiscoveryList",
        api_version: "apidiscovery.k8s.io/v2",
        metadata: Metadata { name: String::new() },
        items: groups.iter().map(item).collect(),
    }
}

fn group_item(served: &Served, group: &str) -> Option<ApiGroup> {
    let entry =
        |version: &str| GroupVersion { group_version: format!("{group}/{version}"), version: version.to_owned() };
    // The versions are sorted, so the first one is preferred.
    let versions: Vec<GroupVersion> = order::versions(served, group).into_iter().map(entry).collect();
    let preferred_version = versions.first()?.clone();
    Some(ApiGroup { kind: None, api_version: None, name: group.to_owned(), versions, preferred_version })
}

fn in_version<'a>(
    served: &'a Served,
    group: &str,
    version: &str,
) -> impl Iterator<Item = (&'a ResourceDef, &'a VersionDef)> {
    served.in_group(group).filter_map(move |def| Some((&**def, def.version(version)?)))
}

fn resource(served: &Served, def: &ResourceDef) -> ApiResource {
    ApiResource {
        name: def.plural.clone(),
        singular_name: def.singular.clone(),
        namespaced: def.namespaced,
        group: String::new(),
        version: String::new(),
        kind: def.kind.clone(),
        verbs: verbs(def),
        short_names: def.short_names.clone(),
        categories: def.categories.clone(),
        storage_version_hash: storage_version_hash(served, def).unwrap_or_default(),
    }
}

fn subresource(def: &ResourceDef, part: &SubresourceDef) -> ApiResource {
    let foreign = foreign_kind(part);
    let (group, version, kind) = match foreign {
        Some(kind) => (kind.group, kind.version, kind.kind),
        None => (String::new(), String::new(), def.kind.clone()),
    };
    ApiResource {
        name: format!("{}/{}", def.plural, part.name),
        singular_name: String::new(),
        namespaced: def.namespaced,
        group,
        version,
        kind,
        verbs: part.verbs.to_vec(),
        short_names: Vec::new(),
        categories: Vec::new(),
        storage_version_hash: String::new(),
    }
}

fn resource_discovery(def: &ResourceDef, version: &VersionDef) -> ApiResourceDiscovery {
    let mut subresources: Vec<_> = version.subresources.iter().map(|part| part_discovery(def, version, part)).collect();
    if def.custom.is_none() {
        subresources.sort_by_key(|part| part.subresource);
    }
    ApiResourceDiscovery {
        resource: def.plural.clone(),
        response_kind: own_kind(def, version),
        scope: if def.namespaced { "Namespaced" } else { "Cluster" },
        singular_resource: def.singular.clone(),
        verbs: verbs(def),
        short_names: def.short_names.clone(),
        categories: def.categories.clone(),
        subresources,
    }
}

fn part_discovery(def: &ResourceDef, version: &VersionDef, part: &SubresourceDef) -> ApiSubresourceDiscovery {
    ApiSubresourceDiscovery {
        subresource: part.name,
        response_kind: foreign_kind(part).unwrap_or_else(|| own_kind(def, version)),
        verbs: part.verbs.to_vec(),
    }
}

/// The kind of a resource. As upstream, only custom resources name group and version; clients take those of the document for the
/// others.
fn own_kind(def: &ResourceDef, version: &VersionDef) -> ResponseKind {
    let (group, version) = match &def.custom {
        Some(_) => (def.group.clone(), version.name.clone()),
        None => (String::new(), String::new()),
    };
    ResponseKind { group, version, kind: def.kind.clone() }
}

/// The kind of a subresource that is not a view of the object itself.
fn foreign_kind(part: &SubresourceDef) -> Option<ResponseKind> {
    match &part.part {
        Part::View => None,
        Part::Scale(_) => {
            Some(ResponseKind { group: "autoscaling".to_owned(), version: "v1".to_owned(), kind: "Scale".to_owned() })
        }
        Part::Question(question) => {
            let kind = question.kind();
            Some(ResponseKind { group: kind.group, version: kind.version, kind: kind.kind })
        }
    }
}

fn verbs(def: &ResourceDef) -> Vec<&'static str> {
    match &def.custom {
        // In upstream's order, which is not alphabetical.
        Some(custom) if custom.terminating => vec!["delete", "deletecollection", "get", "list", "watch"],
        Some(_) => vec!["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
        None => def.verbs.to_vec(),
    }
}

/// The hash of the version in which the objects are stored, so that clients notice when it changes. A custom resource has none while
/// its storage version is not served. If two resources share one storage, as the two groups of Events do, both have the hash of the
/// one that stores its own version.
fn storage_version_hash(served: &Served, def: &ResourceDef) -> Option<String> {
    let storage = def.storage()?;
    if def.custom.is_some() {
        def.version(&def.storage_version)?;
    }
    let keeps_its_own = |def: &ResourceDef| def.versions.iter().any(|version| matches!(version.stored, Stored::Same));
    let shared = || served.all().find(|other| other.storage() == Some(storage) && keeps_its_own(other));
    let owner = if keeps_its_own(def) || def.custom.is_some() { def } else { shared().map_or(def, |owner| &**owner) };
    let version = owner.manners.told_storage_version.unwrap_or(&owner.storage_version);
    let text = format!("{}/{version}/{}", owner.group, owner.kind);
    Some(STANDARD.encode(&digest(&SHA256, text.as_bytes()).as_ref()[..8]))
}
