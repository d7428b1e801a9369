//! Random OpenAPI schemas, and random values that mostly fit them.

use crate::random;
use rdd_testkit::random::SeededRandom;
use serde_json::{Map, Value, json};

const FIELDS: [&str; 6] = ["a", "b", "c", "key", "name", "port"];

/// Random definitions: a `Root` and a few types that it may refer to.
pub(crate) fn definitions(random: &mut SeededRandom) -> Map<String, Value> {
    let mut definitions = Map::new();
    for name in ["Root", "T0", "T1"] {
        definitions.insert(name.into(), structure(random, 3));
    }
    definitions
}

pub(crate) fn structure(random: &mut SeededRandom, depth: usize) -> Value {
    let properties: Map<String, Value> =
        (0..1 + random.below(4)).map(|_| ((*random.pick(&FIELDS)).to_owned(), schema(random, depth - 1))).collect();
    let mut schema = json!({"type": "object", "properties": properties});
    if random.chance(12) {
        schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
    }
    if random.chance(10) {
        schema["x-kubernetes-map-type"] = json!(random.pick(&["atomic", "granular"]));
    }
    if random.chance(5) {
        schema["additionalProperties"] = json!({"type": "string"});
    }
    schema
}

fn scalar(random: &mut SeededRandom) -> Value {
    random
        .pick(&[
            json!({"type": "string"}),
            json!({"type": "string"}),
            json!({"type": "integer"}),
            json!({"type": "number"}),
            json!({"type": "boolean"}),
            json!({"type": "string", "format": "date-time"}),
        ])
        .clone()
}

pub(crate) fn schema(random: &mut SeededRandom, depth: usize) -> Value {
    if depth == 0 {
        return scalar(random);
    }
    match random.below(12) {
        0..=2 => scalar(random),
        3 | 4 => structure(random, depth),
        5 => {
            let mut map = json!({"type": "object", "additionalProperties": schema(random, depth - 1)});
            if random.chance(15) {
                map["x-kubernetes-map-type"] = json!("atomic");
            }
            map
        }
        6 => json!({"type": "array", "items": schema(random, depth - 1), "x-kubernetes-list-type": "atomic"}),
        7 => json!({"type": "array", "items": scalar(random), "x-kubernetes-list-type": "set"}),
        8 | 9 => {
            let mut items = structure(random, depth);
            items["properties"]["name"] = json!({"type": "string"});
            items["properties"]["port"] = json!({"type": "integer"});
            if random.chance(40) {
                items["properties"]["port"]["default"] = json!(80);
            }
            let keys = random.pick(&[json!(["name"]), json!(["name", "port"]), json!(["port"])]).clone();
            json!({"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys})
        }
        10 => random
            .pick(&[
                json!({}),
                json!({"type": "object"}),
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
                json!({"x-kubernetes-int-or-string": true}),
            ])
            .clone(),
        _ => {
            let mut reference =
                json!({"allOf": [{"$ref": format!("#/definitions/{}", random.pick(&["T0", "T1", "Root"]))}]});
            if random.chance(20) {
                reference["x-kubernetes-map-type"] = json!(random.pick(&["atomic", "granular"]));
            }
            reference
        }
    }
}

/// A random value for a schema; this percentage of its parts does not fit.
pub(crate) fn value(
    random: &mut SeededRandom,
    definitions: &Map<String, Value>,
    schema: &Value,
    depth: usize,
    wrong: usize,
) -> Value {
    if random.chance(wrong) {
        return random::value(random, 1);
    }
    if random.chance(3) {
        return Value::Null;
    }
    if let Some(reference) = schema["allOf"][0]["$ref"].as_str().or(schema["$ref"].as_str()) {
        let name = reference.rsplit('/').next().expect("a split has a last part");
        return if depth == 0 { json!({}) } else { value(random, definitions, &definitions[name], depth - 1, wrong) };
    }
    match schema["type"].as_str() {
        Some("string") => json!(random.pick(&["x", "y", "z", "10", "<é>"])),
        Some("integer") => json!(random.pick(&[1, 2, 9, 10, 80])),
        Some("number") => random.pick(&[json!(1), json!(1.0), json!(2.5), json!(1_234_567.0)]).clone(),
        Some("boolean") => json!(random.chance(50)),
        Some("array") => {
            let depth = depth.saturating_sub(1);
            let count = random.below(4);
            (0..count).map(|_| value(random, definitions, &schema["items"], depth, wrong)).collect()
        }
        Some("object") if depth > 0 => {
            let mut fields = Map::new();
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                if random.chance(70) {
                    fields.insert(name.clone(), value(random, definitions, property, depth - 1, wrong));
                }
            }
            let is_open = schema.get("properties").is_none() || schema["x-kubernetes-preserve-unknown-fields"] == true;
            if let Some(additional) = schema.get("additionalProperties") {
                for _ in 0..random.below(3) {
                    let value = value(random, definitions, additional, depth - 1, wrong);
                    fields.insert((*random.pick(&["k1", "k2", "k3"])).to_owned(), value);
                }
            } else if is_open && random.chance(60) {
                fields.insert((*random.pick(&["u1", "u2"])).to_owned(), random::value(random, 2));
            }
            Value::Object(fields)
        }
        Some("object") => json!({}),
        _ => random::value(random, 2),
    }
}

/// The schema with one of its lists or maps made atomic or granular.
pub(crate) fn changed(random: &mut SeededRandom, schema: &Value) -> Value {
    let mut changed = schema.clone();
    match &mut changed {
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                if name != "default" {
                    *field = self::changed(random, field);
                }
            }
            match fields.get("type").and_then(Value::as_str) {
                Some("array") if random.chance(25) => {
                    fields.insert("x-kubernetes-list-type".into(), json!("atomic"));
                    fields.remove("x-kubernetes-list-map-keys");
                }
                Some("object") if random.chance(15) => {
                    let now = random.pick(&["atomic", "granular"]);
                    fields.insert("x-kubernetes-map-type".into(), json!(now));
                }
                _ => {}
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = self::changed(random, item);
            }
        }
        _ => {}
    }
    changed
}
