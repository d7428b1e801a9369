//! The OpenAPI definitions, against those that Kubernetes publishes.

use std::{collections::BTreeMap, fs, path::Path};

use rdd_builtin::{openapi, types};
use serde_json::Value;

use crate::ask;

/// Definitions that say which group-versions there are, and so differ from server to server.
const EVERYWHERE: [&str; 2] =
    ["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent"];

#[test]
fn every_definition_is_the_published_one() {
    let Some(kubernetes) = ask::kubernetes() else { return };
    let mut versions: Vec<(&str, &str)> = types::kinds().iter().map(|kind| (kind.group, kind.version)).collect();
    versions.sort_unstable();
    versions.dedup();
    let mut compared = 0;
    for (group, version) in versions {
        let published = published(&kubernetes, group, version);
        for (name, ours) in openapi::definitions(group, version) {
            let Some(theirs) = published.get(&name) else { panic!("{group}/{version} does not publish {name}") };
            assert_eq!(comparable(&name, &ours), comparable(&name, theirs), "{name}");
            compared += 1;
        }
    }
    println!("{compared} definitions");
    assert!(compared > 200);
}

fn published(kubernetes: &Path, group: &str, version: &str) -> BTreeMap<String, Value> {
    // A scale is published where there is something to scale.
    let group = if group == "autoscaling" { "apps" } else { group };
    let file = if group.is_empty() { format!("api__{version}") } else { format!("apis__{group}__{version}") };
    let path = kubernetes.join(format!("api/openapi-spec/v3/{file}_openapi.json"));
    let mut document: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    serde_json::from_value(document["components"]["schemas"].take()).unwrap()
}

/// Without what is ours to say: the words about lists, and the group-versions that there are.
fn comparable(name: &str, definition: &Value) -> Value {
    let mut definition = definition.clone();
    if EVERYWHERE.contains(&name) {
        definition.as_object_mut().unwrap().remove("x-kubernetes-group-version-kind");
    }
    if name.ends_with("List") {
        definition.as_object_mut().unwrap().remove("description");
        for field in ["items", "metadata"] {
            let property = definition["properties"][field].as_object_mut().unwrap();
            property.remove("description");
        }
    }
    definition
}
