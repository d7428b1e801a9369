//! Compares JSON patch, merge patch and field sets with upstream.

use crate::random::{self, NAMES};
use rdd_patch::{json, merge, ssa::Set};
use rdd_testkit::{
    oracle::{ask, integral_numbers},
    random::SeededRandom,
};
use serde_json::{Map, Value, json};

const CASES: u64 = 4000;

fn pointers(document: &Value, prefix: &str, all: &mut Vec<String>) {
    all.push(prefix.to_owned());
    match document {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointers(item, &format!("{prefix}/{index}"), all);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let token = name.replace('~', "~0").replace('/', "~1");
                pointers(field, &format!("{prefix}/{token}"), all);
            }
        }
        _ => {}
    }
}

fn pointer(random: &mut SeededRandom, document: &Value) -> String {
    let mut all = Vec::new();
    pointers(document, "", &mut all);
    // Skips the root where there are other pointers, since most operations on it are errors.
    let mut pointer = all[(1 + random.below(all.len())).min(all.len() - 1)].clone();
    if random.chance(15) {
        let ends = [
            "/-",
            "/-1",
            "/0",
            "/1",
            "/9",
            "/+1",
            "/01",
            "/a",
            "/b",
            "/~01",
            "/~2",
            "/99999999999999999999",
            "/x/y",
            "//",
            "q",
        ];
        let end: &&str = random.pick(&ends);
        pointer.push_str(end);
    }
    pointer
}

fn operation(random: &mut SeededRandom, document: &Value) -> Value {
    let mut operation = Map::new();
    operation.insert(
        "op".into(),
        json!(
            random.pick(&["add", "remove", "replace", "move", "copy", "test", "add", "replace", "test", "copy", "nop"])
        ),
    );
    operation.insert("path".into(), json!(pointer(random, document)));
    operation.insert("from".into(), json!(pointer(random, document)));
    let mut value = random::value(random, 2);
    if random.chance(50) {
        let mut all = Vec::new();
        pointers(document, "", &mut all);
        let from: &String = random.pick(&all);
        value = document.pointer(from).cloned().unwrap_or(Value::Null);
    }
    operation.insert("value".into(), value);
    if operation["op"] == "test" && random.chance(70) {
        let found = document.pointer(operation["path"].as_str().unwrap()).cloned();
        operation.insert("value".into(), found.unwrap_or_default());
    }
    if random.chance(4) {
        let name = *random.pick(&["op", "path", "from"]);
        operation.insert(name.into(), random::scalar(random));
    }
    if random.chance(3) {
        operation.remove(*random.pick(&["op", "path", "from"]));
    }
    Value::Object(operation)
}

#[test]
fn json_patches_do_what_upstream_does() {
    let cases: Vec<(Value, Value)> = (0..CASES)
        .map(|seed| {
            let random = &mut SeededRandom::new(seed);
            let document =
                if random.chance(95) { random::object(random, 3) } else { json!([random::value(random, 2)]) };
            let mut patch: Value = (0..=random.below(2)).map(|_| operation(random, &document)).collect();
            if random.chance(2) {
                patch = random::value(random, 1);
            }
            (document, patch)
        })
        .collect();
    let questions: Vec<Value> = cases
        .iter()
        .map(|(document, patch)| json!({"op": "jsonpatch", "document": document, "patch": patch}))
        .collect();
    let Some(answers) = ask("oracle", &questions) else { return };
    let (mut succeeded, mut refused, mut panicked, mut bytes) = (0, 0, 0, 0);
    for ((document, patch), answer) in cases.iter().zip(answers) {
        let ours = json::Patch::decode(patch);
        if answer.get("panic").is_some() {
            panicked += 1;
            continue;
        }
        if let Some(error) = answer.get("decodeError") {
            assert_eq!(ours.unwrap_err().to_string(), *error.as_str().unwrap(), "{patch}");
            refused += 1;
            continue;
        }
        match (ours.unwrap().apply(document), answer.get("error")) {
            (Ok(result), None) => {
                assert_eq!(integral_numbers(&result), integral_numbers(&answer["result"]), "{document} {patch}");
                succeeded += 1;
            }
            (Err(ours), Some(error)) => {
                assert_eq!(ours.to_string(), *error.as_str().unwrap(), "{document} {patch}");
                refused += 1;
            }
            // Upstream distinguishes a null that the patch added from other nulls, and escapes what it copied.
            (Ok(_), Some(error))
                if error.to_string().contains("test failed")
                    && ["\"value\":null", "<&>", "\u{2028}"].iter().any(|cause| patch.to_string().contains(cause)) =>
            {
                bytes += 1;
            }
            (ours, _) => panic!("{document} {patch}: {ours:?}, upstream {answer}"),
        }
    }
    println!(
        "json patch: {succeeded} applied, {refused} refused, {panicked} where upstream panics, {bytes} where it compares bytes"
    );
    assert!(succeeded > 1000 && refused > 1000 && bytes < 20);
}

#[test]
fn merge_patches_do_what_upstream_does() {
    let cases: Vec<(Value, Value)> = (0..CASES)
        .map(|seed| {
            let random = &mut SeededRandom::new(seed + 1_000_000);
            let document = random::object(random, 3);
            let patch = if random.chance(60) { random::changed(random, &document) } else { random::value(random, 3) };
            (document, patch)
        })
        .collect();
    let questions: Vec<Value> =
        cases.iter().map(|(document, patch)| json!({"op": "merge", "document": document, "patch": patch})).collect();
    let Some(answers) = ask("oracle", &questions) else { return };
    let (mut succeeded, mut refused) = (0, 0);
    for ((document, patch), answer) in cases.iter().zip(answers) {
        match (merge::apply(document, patch), answer.get("error")) {
            (Ok(result), None) => {
                assert_eq!(integral_numbers(&result), integral_numbers(&answer["result"]), "{document} {patch}");
                succeeded += 1;
            }
            (Err(ours), Some(error)) => {
                assert_eq!(ours.to_string(), *error.as_str().unwrap(), "{document} {patch}");
                refused += 1;
            }
            (ours, _) => panic!("{document} {patch}: {ours:?}, upstream {answer}"),
        }
    }
    println!("merge patch: {succeeded} applied, {refused} refused");
    assert!(succeeded > 1000 && refused > 100);
}

#[test]
fn field_validation_of_patches_speaks_as_upstream_does() {
    let patches: Vec<Value> = (0..CASES / 4)
        .map(|seed| {
            let random = &mut SeededRandom::new(seed + 6_000_000);
            let mut patch: Value = (0..random.below(3)).map(|_| operation(random, &json!({"a": [1]}))).collect();
            for operation in patch.as_array_mut().into_iter().flatten() {
                if random.chance(30) {
                    operation[*random.pick(&["other", "Path", "é\"", "ops"])] = random::scalar(random);
                }
                if random.chance(2) {
                    *operation = random::scalar(random);
                }
            }
            if random.chance(20) { random::value(random, 1) } else { patch }
        })
        .collect();
    let questions: Vec<Value> = patches.iter().map(|patch| json!({"op": "strict", "patch": patch})).collect();
    let Some(answers) = ask("oracle", &questions) else { return };
    let (mut clean, mut unknown, mut refused) = (0, 0, 0);
    for (patch, answer) in patches.iter().zip(answers) {
        match json::unknown_fields(patch) {
            Ok(fields) => {
                let theirs = answer["unknown"].as_array().unwrap();
                let theirs = theirs.iter().map(|text| format!("json patch {}", text.as_str().unwrap()));
                assert_eq!(fields, theirs.collect::<Vec<_>>(), "{patch} {answer}");
                if fields.is_empty() { clean += 1 } else { unknown += 1 }
            }
            Err(error) => {
                assert_eq!(Some(error.as_str()), answer["jsonError"].as_str(), "{patch}");
                refused += 1;
            }
        }
        assert_eq!(merge::check_object(patch).err().as_deref(), answer["mergeError"].as_str(), "{patch}");
    }
    println!("field validation: {clean} clean, {unknown} with unknown fields, {refused} refused");
    assert!(clean > 100 && unknown > 100 && refused > 50);
}

fn element(random: &mut SeededRandom) -> String {
    match random.below(100) {
        0..=39 => format!("f:{}", random.pick(&NAMES)),
        40..=69 => {
            let fields: Map<String, Value> =
                (0..random.below(3)).map(|_| ((*random.pick(&NAMES)).to_owned(), random::scalar(random))).collect();
            format!("k:{}", Value::Object(fields))
        }
        70..=84 => format!("v:{}", random::value(random, 1)),
        85..=97 => format!("i:{}", random.below(12)),
        _ => (*random.pick(&["x:y", "f", "v:", "k:[]", "i:x", "q", "k:null", "v: 1", "v:1 2", "k:{}", "i:-3", "i:+3"]))
            .to_owned(),
    }
}

fn fields(random: &mut SeededRandom, depth: usize) -> Value {
    let mut fields = Map::new();
    for _ in 0..random.below(5) {
        let below = match random.below(20) {
            0 if depth > 0 => json!(null),
            _ if depth == 0 => json!({}),
            _ => fields_below(random, depth),
        };
        fields.insert(element(random), below);
    }
    if random.chance(30) {
        fields.insert(".".into(), json!({}));
    }
    Value::Object(fields)
}

fn fields_below(random: &mut SeededRandom, depth: usize) -> Value {
    if random.chance(1) { random::scalar(random) } else { fields(random, depth - 1) }
}

#[test]
fn field_sets_are_read_combined_and_written_as_upstream_does() {
    let cases: Vec<(Value, Value)> = (0..CASES)
        .map(|seed| {
            let random = &mut SeededRandom::new(seed + 2_000_000);
            let left = fields(random, 3);
            (left, fields(random, 3))
        })
        .collect();
    let questions: Vec<Value> =
        cases.iter().map(|(left, right)| json!({"op": "fieldsv1", "left": left, "right": right})).collect();
    let Some(answers) = ask("oracle", &questions) else { return };
    let (mut read, mut refused) = (0, 0);
    for ((left, right), answer) in cases.iter().zip(answers) {
        let (ours_left, ours_right) = (Set::from_value(left), Set::from_value(right));
        let (Ok(ours_left), Ok(ours_right)) = (ours_left, ours_right) else {
            assert!(answer.get("error").is_some(), "{left} {right}: upstream {answer}");
            refused += 1;
            continue;
        };
        let same = |name: &str, set: Set| {
            assert_eq!(
                set.to_json(),
                answer[name].as_str().unwrap_or_else(|| panic!("{left} {right} {answer}")),
                "{name}: {left} {right}"
            );
        };
        same("union", ours_left.union(&ours_right));
        same("intersection", ours_left.intersection(&ours_right));
        same("difference", ours_left.difference(&ours_right));
        same("recursive", ours_left.recursive_difference(&ours_right));
        same("leaves", ours_left.leaves());
        same("left", ours_left);
        read += 1;
    }
    println!("field sets: {read} read and written, {refused} refused");
    assert!(read > 500 && refused > 500);
}
