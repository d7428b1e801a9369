//! Generates objects from a grammar in JSON, which lists good and bad values of each field.

use serde_json::{Map, Value};

use rdd_testkit::random::SeededRandom;

/// Generates a value. `{"$one": [...]}` is one of several values, `{"$list": g}` a short list, `{"$map": {"keys": [...], "of":
/// g}}` an object with some of the keys. In other objects, a field whose name ends in `?` is present half of the time, others
/// nearly always. Everything else is literal. Empty lists and maps are omitted, because Go's encoding does not distinguish them
/// from absent ones.
pub(crate) fn generate(random: &mut SeededRandom, grammar: &Value) -> Value {
    let Value::Object(fields) = grammar else { return grammar.clone() };
    if let Some(choices) = fields.get("$one").and_then(Value::as_array) {
        let choice = random.pick(choices);
        return generate(random, choice);
    }
    if let Some(item) = fields.get("$list") {
        let length = [1, 1, 2, 2, 3, 0][random.below(6)];
        return (0..length).map(|_| generate(random, item)).collect();
    }
    if let Some(map) = fields.get("$map") {
        let keys = map["keys"].as_array().unwrap();
        let some = (0..random.below(4)).map(|_| random.pick(keys).as_str().unwrap().to_owned());
        let some: Vec<String> = some.collect();
        return some.into_iter().map(|key| (key, generate(random, &map["of"]))).collect();
    }
    let mut object = Map::new();
    for (name, of) in fields {
        let (name, percent) = name.strip_suffix('?').map_or((name.as_str(), 94), |name| (name, 45));
        if name == "apiVersion" && of.is_string() || name == "kind" && of.is_string() || random.chance(percent) {
            let value = generate(random, of);
            let nothing = match &value {
                Value::Array(items) => items.is_empty(),
                Value::Object(members) => members.is_empty() && of.get("$map").is_some(),
                _ => false,
            };
            if !nothing {
                object.insert(name.to_owned(), value);
            }
        }
    }
    Value::Object(object)
}

/// Replaces some parts of one object by those of the other.
pub(crate) fn mix(random: &mut SeededRandom, one: &Value, other: &Value) -> Value {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let mut mixed = Map::new();
            for name in one.keys().chain(other.keys()) {
                let value = match (one.get(name), other.get(name)) {
                    (Some(one), Some(other)) => Some(mix(random, one, other)),
                    (Some(one), None) => (!random.chance(12)).then(|| one.clone()),
                    (None, Some(other)) => random.chance(12).then(|| other.clone()),
                    (None, None) => None,
                };
                if let Some(value) = value {
                    mixed.insert(name.clone(), value);
                }
            }
            Value::Object(mixed)
        }
        (Value::Array(one_items), Value::Array(other_items)) => match random.below(8) {
            0 => other.clone(),
            1 => one_items.iter().chain(other_items).cloned().collect(),
            2 if !other_items.is_empty() => {
                one_items.iter().zip(other_items).map(|(one, other)| mix(random, one, other)).collect()
            }
            _ => one.clone(),
        },
        _ => if random.chance(10) { other } else { one }.clone(),
    }
}
