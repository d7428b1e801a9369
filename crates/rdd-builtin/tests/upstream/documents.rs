//! Compares the OpenAPI definitions with those that Kubernetes publishes.

use std::{collections::BTreeMap, fs, path::Path};

use rdd_builtin::{openapi, types};
use rdd_testkit::oracle::go_module;
use serde_json::Value;

/// Definitions that list the server's group-versions and therefore differ between servers.
const EVERYWHERE: [&str; 2] =
    ["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent"];

#[test]
fn every_definition_is_the_published_one() {
    let Some(kubernetes) = go_module("k8s.io/kubernetes@v1.35.4") else { return };
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
    // The definition of a scale is published in a group with a scale subresource.
    let group = if group == "autoscaling" { "apps" } else { group };
    let file = if group.is_empty() { format!("api__{version}") } else { format!("apis__{group}__{version}") };
    let path = kubernetes.join(format!("api/openapi-spec/v3/{file}_openapi.json"));
    let mut document: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    serde_json::from_value(document["components"]["schemas"].take()).unwrap()
}

#[test]
fn every_value_of_a_field_is_one_that_upstream_enumerates() {
    let Some(kubernetes) = go_module("k8s.io/kubernetes@v1.35.4") else { return };
    let text = fs::read_to_string(kubernetes.join("pkg/generated/openapi/zz_generated.openapi.go")).unwrap();
    let theirs = enumerated(&text);
    let mut versions: Vec<(&str, &str)> = types::kinds().iter().map(|kind| (kind.group, kind.version)).collect();
    versions.sort_unstable();
    versions.dedup();
    let mut compared = 0;
    for (group, version) in versions {
        for (name, definition) in openapi::definitions(group, version) {
            let short: Vec<&str> = name.rsplitn(4, '.').take(3).collect();
            let short = format!("{}_{}_{}", short[2], short[1], short[0]);
            let properties = definition["properties"].as_object().cloned().unwrap_or_default();
            for (field, property) in properties {
                let ours = property.get("enum").or_else(|| property["items"].get("enum"));
                assert_eq!(ours, theirs.get(&(short.clone(), field.clone())), "{name} {field}");
                compared += usize::from(ours.is_some());
            }
        }
    }
    println!("{compared} fields have values that are enumerated");
    assert!(compared >= 27, "{compared}");
}

/// The enum values of fields in upstream's generated code, by `group_version_Struct` and field.
fn enumerated(text: &str) -> BTreeMap<(String, String), Value> {
    let mut found = BTreeMap::new();
    let (mut definition, mut field) = (String::new(), String::new());
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("func schema_").and_then(|rest| rest.split('(').next()) {
            let parts: Vec<&str> = name.rsplitn(4, '_').take(3).collect();
            definition = parts.into_iter().rev().collect::<Vec<_>>().join("_");
        } else if let Some(name) = line.strip_prefix("\t\t\t\t\t\"").and_then(|rest| rest.strip_suffix("\": {")) {
            name.clone_into(&mut field);
        } else if let Some(values) = line.trim().strip_prefix("Enum:") {
            let values = values.trim().trim_start_matches("[]interface{}{").trim_end_matches("},");
            let values = serde_json::from_str(&format!("[{values}]")).unwrap();
            found.insert((definition.clone(), field.clone()), values);
        }
    }
    found
}

/// Removes enum values, which the published documents lack.
fn forget_values(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    if members.remove("enum").is_some() {
        let told = members.get("description").and_then(Value::as_str).unwrap_or_default();
        let told = told.split("\n\nPossible enum values:").next().unwrap_or_default().to_owned();
        members.insert("description".to_owned(), told.into());
    }
    members
        .get_mut("items")
        .into_iter()
        .for_each(|items| _ = items.as_object_mut().and_then(|items| items.remove("enum")));
}

/// Removes what is ours: the descriptions of lists, and the group-versions.
fn comparable(name: &str, definition: &Value) -> Value {
    let mut definition = definition.clone();
    let properties = definition.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(|properties| properties.values_mut()).for_each(forget_values);
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
