//! Random histories of built-in kinds, with the schemas that Kubernetes publishes.

use crate::histories::{comparable, spelled};
use rdd_patch::{
    shape::openapi::Definitions,
    ssa::{ApplyOptions, FieldManager, Filter, SameSchema, Timestamp},
};
use rdd_testkit::{oracle::GoOracle, random::SeededRandom};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const HISTORIES: u64 = 150;
const STEPS: usize = 10;
const KINDS: [(&str, &str, &str); 7] = [
    ("io.k8s.api.apps.v1.Deployment", "apps/v1", "Deployment"),
    ("io.k8s.api.core.v1.Pod", "v1", "Pod"),
    ("io.k8s.api.core.v1.Service", "v1", "Service"),
    ("io.k8s.api.core.v1.ConfigMap", "v1", "ConfigMap"),
    ("io.k8s.api.core.v1.Node", "v1", "Node"),
    ("io.k8s.api.networking.v1.Ingress", "networking.k8s.io/v1", "Ingress"),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
    ),
];

struct Generator<'a> {
    random: SeededRandom,
    definitions: &'a Map<String, Value>,
}

impl Generator<'_> {
    /// A random value with a few of the fields of a schema.
    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        let reference = schema["$ref"].as_str().or(schema["allOf"][0]["$ref"].as_str());
        if let Some(name) = reference.and_then(|reference| reference.rsplit('/').next()) {
            let target = self.definitions[name].clone();
            return self.value(&target, depth);
        }
        match schema["type"].as_str() {
            Some("string") => json!(self.random.pick(&["a", "b", "c", "TCP"])),
            Some("integer" | "number") => json!(self.random.pick(&[1, 2, 80])),
            Some("boolean") => json!(self.random.chance(50)),
            Some("array") if depth > 0 => self.list(schema, depth),
            Some("object") | None if depth > 0 => self.object(schema, depth),
            Some("array") => json!([]),
            _ => json!({}),
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        if let Some(additional) = schema.get("additionalProperties").filter(|additional| additional.is_object()) {
            let count = self.random.below(3);
            return (0..count)
                .map(|_| ((*self.random.pick(&["k1", "k2"])).to_owned(), self.value(additional, depth - 1)))
                .collect();
        }
        let mut names: Vec<(&String, &Value)> = schema["properties"].as_object().into_iter().flatten().collect();
        self.random.shuffle(&mut names);
        names.sort_by_key(|(name, _)| !matches!(name.as_str(), "spec" | "template" | "containers" | "ports" | "env"));
        let count = 1 + self.random.below(4);
        names.into_iter().take(count).map(|(name, property)| (name.clone(), self.value(property, depth - 1))).collect()
    }

    fn list(&mut self, schema: &Value, depth: usize) -> Value {
        let keys: Vec<&str> = match schema["x-kubernetes-list-map-keys"].as_array() {
            Some(keys) => keys.iter().filter_map(Value::as_str).collect(),
            None => schema["x-kubernetes-patch-merge-key"].as_str().into_iter().collect(),
        };
        let mut items: Vec<Value> = Vec::new();
        for _ in 0..self.random.below(4) {
            let mut item = self.value(&schema["items"], depth - 1);
            for key in &keys {
                let is_number = matches!(*key, "port" | "containerPort");
                let is_given = *key != "protocol" || self.random.chance(70);
                if item.is_object() && is_given {
                    item[*key] = if is_number {
                        json!(self.random.pick(&[1, 2, 80]))
                    } else {
                        json!(self.random.pick(&["a", "b", "c"]))
                    };
                }
            }
            let same = |other: &Value| !keys.is_empty() && keys.iter().all(|key| other.get(key) == item.get(key));
            if !items.iter().any(same) || self.random.chance(3) {
                items.push(item);
            }
        }
        Value::Array(items)
    }
}

#[test]
fn built_in_kinds_come_out_as_upstream_has_them() {
    let Some(oracle) = GoOracle::build("oracle") else { return };
    let file = oracle.module("k8s.io/kube-openapi").join("pkg/schemaconv/testdata/swagger.json");
    let swagger: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let all = swagger["definitions"].as_object().unwrap();
    let definitions = Definitions::new(all.clone().into_iter().collect(), false);
    let mut steps: Vec<(Value, Value)> = Vec::new();
    for seed in 0..HISTORIES {
        let mut generator = Generator { random: SeededRandom::new(seed + 7_000_000), definitions: all };
        let (name, api_version, kind) = *generator.random.pick(&KINDS);
        let converter = SameSchema(BTreeMap::from([(api_version.to_owned(), definitions.shape(name).unwrap())]));
        let mut live = json!({"apiVersion": api_version, "kind": kind});
        for step in 0..STEPS {
            let mut object = generator.value(&all[name], 8);
            object["apiVersion"] = json!(api_version);
            object["kind"] = json!(kind);
            let mut metadata = json!({"name": "x"});
            if generator.random.chance(50) {
                metadata["labels"] = json!({"a": generator.random.pick(&["1", "2"])});
            }
            object["metadata"] = metadata;
            let is_apply = generator.random.chance(70);
            if !is_apply {
                let managed = live["metadata"].get("managedFields").cloned();
                object["metadata"]["uid"] = json!("u");
                object["metadata"]["managedFields"] = managed.unwrap_or_default();
            }
            let manager = *generator.random.pick(&["m1", "m2", "kubectl"]);
            let force = generator.random.chance(60);
            let now = Timestamp(1_577_836_800 + i64::try_from(step).unwrap());
            let reset_fields = Filter::new();
            let fields = FieldManager {
                api_version,
                kind,
                subresource: "",
                converter: &converter,
                reset_fields: &reset_fields,
                empty: None,
                default: &|_| {},
            };
            let result = if is_apply {
                fields.apply(&live, &object, ApplyOptions { manager, force, now })
            } else {
                fields.update(&live, object.clone(), manager, now)
            };
            let question = json!({"kind": kind, "schema": 0, "versions": [api_version], "version": api_version, "subresource": "",
                "reset": {}, "verb": if is_apply { "apply" } else { "update" }, "manager": manager, "force": force, "object": object,
                "live": live, "now": now.to_string()});
            if let Ok(object) = &result {
                live = object.clone();
                live["metadata"]["uid"] = json!("u");
            }
            steps.push((spelled(result), question));
        }
    }
    let questions: Vec<&Value> = steps.iter().map(|(_, question)| question).collect();
    let answers = oracle.ask(&[json!({"op": "ssa", "schemas": [file], "steps": questions})]);
    let (mut written, mut conflicts, mut refused) = (0, 0, 0);
    for ((ours, question), upstream) in steps.iter().zip(answers[0]["answers"].as_array().unwrap()) {
        assert_eq!(comparable(ours), comparable(upstream), "{question}");
        match (ours.get("object"), ours["code"].as_i64()) {
            (Some(_), _) => written += 1,
            (None, Some(409)) => conflicts += 1,
            _ => refused += 1,
        }
    }
    println!("built-in kinds: {written} written, {conflicts} conflicts, {refused} refused");
    assert!(written > 800 && conflicts > 80);
}
