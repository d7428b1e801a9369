//! The OpenAPI definitions of the built-in kinds, embedded compressed and decompressed on each use.

use std::{collections::BTreeMap, io::Read};

use serde_json::{Map, Value};

use crate::types;

static DEFLATED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/definitions.deflate"));
/// The prefix of references.
const REFERENCE: &str = "#/components/schemas/";
/// The definitions that every group-version with stored kinds needs.
const COMMON: [&str; 3] = [
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
    "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
];
/// A kind that is also served by another group-version, as `serviceaccounts/token`.
const TOKEN_REQUEST: &str = "io.k8s.api.authentication.v1.TokenRequest";
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// The definition name of a kind, such as `io.k8s.api.core.v1.ConfigMap`.
pub fn definition_name(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    types::kind(group, version, kind).map(|kind| kind.structure().definition)
}

/// The definitions of a group-version: its kinds, lists and subresources, and everything that they reference, with v3 references.
/// Each call builds them again, so do not keep the result longer than needed.
pub fn definitions(group: &str, version: &str) -> BTreeMap<String, Value> {
    let ours: Vec<_> = types::kinds().iter().filter(|kind| kind.group == group && kind.version == version).collect();
    let common = ours.iter().any(|kind| kind.kind.ends_with("List")).then_some(COMMON);
    let asked = (group.is_empty() && version == "v1").then_some(TOKEN_REQUEST);
    let own = ours.iter().map(|kind| kind.structure().definition).filter(|name| *name != TOKEN_REQUEST);
    closure(own.chain(asked).chain(common.into_iter().flatten()))
}

/// The definitions that custom resources reference: metadata, delete options, status and scale.
pub fn definitions_for_custom_resources() -> BTreeMap<String, Value> {
    let metadata = ["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"];
    closure(metadata.into_iter().chain(COMMON).chain([SCALE]))
}

/// These definitions and everything that they reference.
pub fn closure<'n>(names: impl IntoIterator<Item = &'n str>) -> BTreeMap<String, Value> {
    let mut all = all();
    let mut wanted: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let mut found = BTreeMap::new();
    while let Some(name) = wanted.pop() {
        if let Some(definition) = all.remove(&name) {
            references(&definition, &mut wanted);
            found.insert(name, definition);
        }
    }
    found
}

fn all() -> Map<String, Value> {
    let mut text = Vec::new();
    flate2::read::DeflateDecoder::new(DEFLATED).read_to_end(&mut text).expect("the build deflated it");
    serde_json::from_slice(&text).expect("the build wrote JSON")
}

fn references(schema: &Value, into: &mut Vec<String>) {
    match schema {
        Value::Object(entries) => {
            let target = entries.get("$ref").and_then(Value::as_str);
            into.extend(target.and_then(|target| target.strip_prefix(REFERENCE)).map(str::to_owned));
            entries.values().for_each(|below| references(below, into));
        }
        Value::Array(items) => items.iter().for_each(|below| references(below, into)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_complete_and_no_more_than_their_group_needs() {
        let core = definitions("", "v1");
        for (name, definition) in &core {
            let mut targets = Vec::new();
            references(definition, &mut targets);
            assert!(targets.iter().all(|target| core.contains_key(target)), "{name} refers to what is not there");
        }
        assert!(core.contains_key("io.k8s.api.core.v1.ConfigMapList"));
        assert!(!core.contains_key("io.k8s.api.rbac.v1.Role"));
        assert!(definitions("nowhere.io", "v1").is_empty());
        assert!(definitions_for_custom_resources().contains_key(SCALE));
    }

    #[test]
    fn a_kind_knows_its_definition() {
        assert_eq!(definition_name("", "v1", "Secret"), Some("io.k8s.api.core.v1.Secret"));
        assert_eq!(definition_name("rbac.authorization.k8s.io", "v1", "Role"), Some("io.k8s.api.rbac.v1.Role"));
        assert_eq!(definition_name("", "v1", "Pod"), None);
    }
}
