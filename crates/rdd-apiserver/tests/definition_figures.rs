//! Figures: the memory cost of a hundred definitions, before and after all of them are used. The test prints them, and bounds
//! them so that they cannot regress unnoticed.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

use std::{fs, time::Instant};

use bytes::Bytes;
use rdd_apiserver::{
    crd,
    registry::{Origin, ResourceDef},
};
use rdd_store::Revision;
use serde_json::{Map, Value, json};

const DEFINITIONS: usize = 100;
const MIB: usize = 1 << 20;

/// The anonymous memory of this process, in bytes.
fn memory() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kib| kib * 1024)
}

/// A part of a schema as code generators write it: strings with patterns and formats, numbers, lists, maps, and a rule.
fn mk_part(number: usize) -> Value {
    let description =
        "What this field is for, in two sentences of the usual length. The second one says when it may be left out.";
    let mut properties = Map::new();
    for at in 0..28 {
        let schema = match at % 6 {
            0 => json!({"type": "string", "maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}),
            1 => json!({"type": "integer", "format": "int32", "minimum": 0, "default": 3}),
            2 => json!({"type": "string", "enum": ["Always", "Never", "IfNotPresent"]}),
            3 => json!({"type": "object", "additionalProperties": {"type": "string"}}),
            4 => json!({"type": "array", "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string", "description": description}, "value": {"type": "string"}}},
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
            _ => json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true}),
        };
        let mut schema = schema;
        schema["description"] = description.into();
        properties.insert(format!("part{number}Field{at}"), schema);
    }
    let rule = format!(
        "!has(self.part{number}Field0) || self.part{number}Field0 != 'forbidden' || size(self.part{number}Field4) > 0"
    );
    json!({"type": "object", "description": description, "properties": properties,
        "x-kubernetes-validations": [{"rule": rule, "message": "forbidden"}]})
}

fn mk_definition(number: usize) -> Bytes {
    let parts: Map<String, Value> = (0..7).map(|at| (format!("part{at}"), mk_part(at))).collect();
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": parts},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    let names = json!({"plural": format!("kind{number}s"), "singular": format!("kind{number}"), "kind": format!("Kind{number}"),
        "listKind": format!("Kind{number}List")});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("kind{number}s.g.io"), "uid": "u", "generation": 1},
        "spec": {"group": "g.io", "scope": "Namespaced", "names": names, "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}]},
        "status": {"acceptedNames": names, "conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1"]}});
    definition.to_string().into()
}

/// Decodes, defaults, merges and validates an object with all fields, so that every part of the schema is compiled.
fn use_all(def: &ResourceDef) {
    let part = |number: usize| {
        let field = |at: usize| format!("part{number}Field{at}");
        json!({field(0): "a", field(2): "Never", field(3): {"a": "b"}, field(4): [{"name": "a", "value": "b"}], field(5): 1})
    };
    let parts: Map<String, Value> = (0..7).map(|at| (format!("part{at}"), part(at))).collect();
    let version = &def.versions[0];
    let mut object = json!({"apiVersion": def.api_version("v1"), "kind": def.kind, "metadata": {"name": "a", "namespace": "n"}, "spec": parts});
    assert!(version.kind.decode(&mut object, Origin::Request).unwrap().is_empty());
    let errors = version.kind.validate_create(&object);
    assert!(errors.is_empty(), "{errors:?}");
    let shape = version.kind.shape();
    let spec = shape.atom().map.as_ref().unwrap().field_shape("spec").unwrap().clone();
    for part in spec.atom().map.as_ref().unwrap().fields.values() {
        part.shape.atom();
    }
}

#[test]
fn a_hundred_definitions_cost_little_and_nothing_before_they_are_used() {
    let stored: Vec<Bytes> = (0..DEFINITIONS).map(mk_definition).collect();
    let bytes: usize = stored.iter().map(Bytes::len).sum();
    let Some(before) = memory() else {
        println!("skipped: memory is measured on Linux only");
        return;
    };
    let begun = Instant::now();
    let defs: Vec<ResourceDef> =
        stored.iter().map(|stored| crd::resource_def(stored, Revision(1)).unwrap().unwrap()).collect();
    let (loaded, idle) = (begun.elapsed(), memory().unwrap().saturating_sub(before));
    let begun = Instant::now();
    defs.iter().for_each(use_all);
    let (compiled, used) = (begun.elapsed(), memory().unwrap().saturating_sub(before));
    println!(
        "{DEFINITIONS} definitions of {} bytes: {} bytes each when loaded, in {loaded:?}; {} bytes each when all is compiled, in \
         {compiled:?}",
        bytes / DEFINITIONS,
        idle / DEFINITIONS,
        used / DEFINITIONS
    );
    assert!((45_000..60_000).contains(&(bytes / DEFINITIONS)), "{bytes} bytes are not a hundred definitions of 50 kB");
    assert!(idle < 2 * MIB, "{idle} bytes before anything is used");
    assert!(bytes + used < 36 * MIB, "{used} bytes beside {bytes} that are stored");
}
