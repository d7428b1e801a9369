//! Compares strategic merge patches on upstream's own types with upstream.

use crate::random;
use rdd_patch::{
    shape::{Shape, openapi::Definitions},
    strategic,
};
use rdd_testkit::{
    oracle::{ask, integral_numbers},
    random::SeededRandom,
};
use serde_json::{Map, Value, json};

const TYPES: [&str; 8] =
    ["Deployment", "StatefulSet", "Pod", "Service", "ConfigMap", "Node", "NetworkPolicy", "ClusterRole"];
const CASES: u64 = 4000;

/// A type as the oracle describes it.
struct Type {
    name: &'static str,
    root: String,
    definitions: Map<String, Value>,
    shape: Shape,
}

fn types() -> Option<Vec<Type>> {
    let questions: Vec<Value> = TYPES.iter().map(|name| json!({"op": "schemas", "type": name})).collect();
    let answers = ask("oracle", &questions)?;
    let types = TYPES.iter().zip(answers).map(|(name, answer)| {
        let root = answer["root"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let definitions = answer["definitions"].as_object().unwrap().clone();
        let shape = Definitions::new(definitions.clone().into_iter().collect(), false).shape(&root).unwrap();
        Type { name, root, definitions, shape }
    });
    Some(types.collect())
}

struct Generator<'a> {
    random: &'a mut SeededRandom,
    definitions: &'a Map<String, Value>,
    /// In so many of a hundred places, something that makes no sense.
    nonsense: usize,
}

impl Generator<'_> {
    fn resolve<'s>(&'s self, schema: &'s Value) -> &'s Value {
        match schema["$ref"].as_str() {
            Some(reference) => &self.definitions[reference.rsplit('/').next().unwrap()],
            None => schema,
        }
    }

    fn scalar(&mut self, schema: &Value) -> Value {
        match schema["type"].as_str() {
            Some("integer") => json!(self.random.below(4)),
            Some("boolean") => json!(self.random.chance(50)),
            _ => json!(self.random.pick(&["a", "b", "c", "d"])),
        }
    }

    /// The fields of a struct to talk about: lists that merge first, for they are rare.
    fn fields(&mut self, schema: &Value) -> Vec<(String, Value)> {
        let Some(properties) = schema["properties"].as_object() else { return Vec::new() };
        let mut all: Vec<_> = properties.iter().map(|(name, property)| (name.clone(), property.clone())).collect();
        self.random.shuffle(&mut all);
        if self.random.chance(70) {
            all.sort_by_key(|(name, property)| {
                let is_structure = matches!(name.as_str(), "spec" | "template" | "metadata" | "status" | "containers");
                !(is_structure || property.get("x-kubernetes-patch-strategy").is_some())
            });
        }
        all.truncate(1 + self.random.below(4));
        all
    }

    fn original(&mut self, schema: &Value, depth: usize) -> Value {
        let schema = self.resolve(schema).clone();
        match schema["type"].as_str() {
            Some("object") if depth == 0 => json!({}),
            Some("object") if schema.get("additionalProperties").is_some() => {
                (0..self.random.below(3)).map(|_| self.entry(&schema, depth)).collect()
            }
            Some("object") => {
                let fields = self.fields(&schema);
                fields.into_iter().map(|(name, property)| (name, self.field(&property, depth - 1))).collect()
            }
            Some("array") => self.field(&schema, depth),
            _ => self.scalar(&schema),
        }
    }

    fn entry(&mut self, schema: &Value, depth: usize) -> (String, Value) {
        let name = (*self.random.pick(&["k1", "k2", "k3"])).to_owned();
        (name, self.original(&schema["additionalProperties"], depth - 1))
    }

    /// A field of a live object; a list that merges has each key once, nearly always.
    fn field(&mut self, property: &Value, depth: usize) -> Value {
        if property["type"] != "array" {
            return self.original(property, depth);
        }
        let mut items: Vec<Value> = (0..self.random.below(5)).map(|_| self.item(property, depth)).collect();
        if let Some(key) = property["x-kubernetes-patch-merge-key"].as_str() {
            if !self.random.chance(10) {
                let mut seen = Vec::new();
                items.retain(|item| {
                    !seen.contains(&item[key]) && {
                        seen.push(item[key].clone());
                        true
                    }
                });
            }
        } else if !self.random.chance(30) {
            items.dedup();
        }
        Value::Array(items)
    }

    fn item(&mut self, list: &Value, depth: usize) -> Value {
        let mut item = self.original(&list["items"], depth.saturating_sub(1));
        if let (Some(key), Value::Object(fields)) = (list["x-kubernetes-patch-merge-key"].as_str(), &mut item) {
            let schema = self.resolve(&list["items"])["properties"][key].clone();
            let schema = self.resolve(&schema).clone();
            fields.insert(key.to_owned(), self.scalar(&schema));
        }
        item
    }

    fn patch(&mut self, schema: &Value, original: &Value, depth: usize) -> Value {
        let schema = self.resolve(schema).clone();
        if self.random.chance(self.nonsense) {
            return random::value(self.random, 1);
        }
        let mut patch = Map::new();
        let mut names = self.fields(&schema);
        let known = original.as_object().into_iter().flatten().filter_map(|(name, _)| {
            let property = schema["properties"].get(name).or(schema.get("additionalProperties"))?;
            Some((name.clone(), property.clone()))
        });
        names.extend(known);
        for (name, property) in names {
            if self.random.chance(25) {
                continue;
            }
            self.patch_field(&mut patch, &name, &property, original.get(&name).unwrap_or(&Value::Null), depth);
        }
        if self.random.chance(4) {
            patch.insert("$patch".into(), json!(self.random.pick(&["replace", "delete", "merge", "other"])));
        }
        if self.random.chance(6) {
            let mut keys: Vec<Value> = patch.keys().map(|key| json!(key)).collect();
            if self.random.chance(20) {
                keys.pop();
            }
            if self.random.chance(50) {
                keys.extend(
                    original.as_object().into_iter().flat_map(|fields| fields.keys().take(1)).map(|key| json!(key)),
                );
            }
            patch.insert("$retainKeys".into(), json!(keys));
        }
        Value::Object(patch)
    }

    fn patch_field(
        &mut self,
        patch: &mut Map<String, Value>,
        name: &str,
        property: &Value,
        original: &Value,
        depth: usize,
    ) {
        if self.random.chance(8) {
            patch.insert(name.to_owned(), Value::Null);
            return;
        }
        if self.resolve(property)["type"] == "object" && depth > 0 {
            let inner = self.patch(property, original, depth - 1);
            patch.insert(name.to_owned(), inner);
        } else if property["type"] == "array" && depth > 0 {
            self.patch_list(patch, name, property, original, depth);
        } else {
            let value = self.original(property, depth);
            patch.insert(name.to_owned(), value);
        }
    }

    fn patch_list(
        &mut self,
        patch: &mut Map<String, Value>,
        name: &str,
        property: &Value,
        original: &Value,
        depth: usize,
    ) {
        let empty = Vec::new();
        let live = original.as_array().unwrap_or(&empty);
        let merge_key = property["x-kubernetes-patch-merge-key"].as_str();
        let mut items = Vec::new();
        for _ in 0..self.random.below(4) {
            let mut item = self.item(property, depth);
            if let Some(key) = merge_key {
                if !live.is_empty() && self.random.chance(60) {
                    let old: &Value = self.random.pick(live);
                    item = self.patch(&property["items"], old, depth - 1);
                    if item.is_object() {
                        item[key] = old.get(key).cloned().unwrap_or_default();
                    }
                }
                if self.random.chance(15) {
                    item = json!({key: item.get(key), "$patch": self.random.pick(&["delete", "delete", "replace", "odd"])});
                } else if self.random.chance(3) {
                    item = json!({"$patch": "replace"});
                }
            } else if !live.is_empty() && self.random.chance(30) {
                item = self.random.pick(live).clone();
            }
            items.push(item);
        }
        // Without a merge key the parallel lists are for scalars; on objects upstream panics, which a few cases are enough for.
        let is_scalar = !matches!(self.resolve(&property["items"])["type"].as_str(), Some("object" | "array"));
        let is_mergeable = merge_key.is_some() || is_scalar || self.random.chance(10);
        if is_mergeable && self.random.chance(45) {
            let mut order: Vec<Value> =
                items.iter().filter(|item| item.get("$patch") != Some(&json!("delete"))).cloned().collect();
            order.extend(live.iter().filter(|_| self.random.chance(60)).cloned());
            if let Some(key) = merge_key {
                order = order.iter().map(|item| json!({key: item.get(key)})).collect();
            }
            if self.random.chance(20) {
                self.random.shuffle(&mut order);
            }
            let mut distinct: Vec<Value> = Vec::new();
            order.retain(|item| {
                !distinct.contains(item) && {
                    distinct.push(item.clone());
                    true
                }
            });
            patch.insert(format!("$setElementOrder/{name}"), json!(order));
        }
        if merge_key.is_none() && is_mergeable && self.random.chance(30) {
            let gone: Vec<&Value> = live.iter().filter(|_| self.random.chance(40)).collect();
            patch.insert(format!("$deleteFromPrimitiveList/{name}"), json!(gone));
        }
        if self.random.chance(80) {
            patch.insert(name.to_owned(), Value::Array(items));
        }
    }
}

#[test]
fn strategic_patches_do_what_upstream_does() {
    let Some(types) = types() else { return };
    let cases: Vec<(&Type, Value, Value)> = (0..CASES)
        .map(|seed| {
            let random = &mut SeededRandom::new(seed + 4_000_000);
            let kind = &types[random.below(types.len())];
            let nonsense = if random.chance(20) { 5 } else { 0 };
            let root = json!({"$ref": format!("/{}", kind.root)});
            let mut generator = Generator { random, definitions: &kind.definitions, nonsense };
            let original = generator.original(&root, 6);
            let patch = match generator.patch(&root, &original, 6) {
                Value::Object(patch) => Value::Object(patch),
                _ => json!({}),
            };
            (kind, original, patch)
        })
        .collect();
    let (mut merged, mut refused, mut panicked, mut unordered) = (0, 0, 0, 0);
    let mut pending: Vec<&(&Type, Value, Value)> = cases.iter().collect();
    // What depends on the order of Go's maps is asked again, often.
    for runs in [4, 300] {
        let questions = pending.iter().map(|(kind, original, patch)| {
            json!({"op": "strategic", "type": kind.name, "original": original, "patch": patch, "runs": runs})
        });
        let Some(answers) = ask("oracle", &questions.collect::<Vec<_>>()) else { return };
        let mut again = Vec::new();
        for (case, answer) in pending.into_iter().zip(answers) {
            let (kind, original, patch) = case;
            let outcomes = answer["outcomes"].as_array().unwrap();
            let ours = strategic::apply(original, patch, &kind.shape);
            let spelled = match &ours {
                Ok(result) => json!({"result": integral_numbers(result)}),
                Err(strategic::Error::Incomparable(_)) => json!({"panic": true}),
                Err(error) => json!({"error": error.to_string()}),
            };
            if outcomes.iter().any(|outcome| integral_numbers(outcome) == spelled) {
                match &ours {
                    Ok(_) => merged += 1,
                    Err(strategic::Error::Incomparable(_)) => panicked += 1,
                    Err(_) => refused += 1,
                }
            } else if runs == 4 {
                again.push(case);
            } else {
                let is_error = |outcome: &Value| outcome.get("result").is_none();
                let is_unordered = outcomes.len() > 1 && ours.is_err() && outcomes.iter().any(is_error);
                assert!(is_unordered, "{} {original} {patch}\nours {spelled}\nupstream {outcomes:?}", kind.name);
                unordered += 1;
            }
        }
        pending = again;
    }
    println!(
        "strategic: {merged} merged, {refused} refused, {panicked} where upstream panics, {unordered} by Go's random order"
    );
    assert!(merged > 2000 && refused > 300 && unordered < 100);
}
