//! Compares protobuf with upstream's: random objects are written and read, also with corrupted bytes.

use base64::{Engine, engine::general_purpose::STANDARD};
use rdd_builtin::{
    decode, protobuf,
    types::{self, Kind},
};
use rdd_testkit::{oracle, random::SeededRandom};
use serde_json::{Value, json};

use crate::decoding::Maker;

const CASES_PER_KIND: usize = 150;
const SPOILED_PER_KIND: usize = 150;

/// Random objects in Go's form, of every kind and list.
fn objects(seed: u64, count: usize) -> Vec<(&'static Kind, Value)> {
    let mut random = SeededRandom::new(seed);
    let mut objects = Vec::new();
    for kind in types::kinds() {
        for _ in 0..count {
            let mut body = Maker { random: &mut random, wrong_per_mille: 0 }.structure(kind.structure(), 6);
            body["apiVersion"] = kind.api_version().into();
            body["kind"] = kind.kind.into();
            // Some of the generated base64 is invalid.
            if decode::decode(kind, &mut body).is_ok() {
                objects.push((kind, body));
            }
        }
    }
    objects
}

fn question(op: &str, kind: &Kind) -> Value {
    json!({"op": op, "apiVersion": kind.api_version(), "kind": kind.kind})
}

fn asked(op: &str, key: &str, cases: &[(&'static Kind, Value)]) -> Option<Vec<Value>> {
    let questions: Vec<Value> = cases
        .iter()
        .map(|(kind, value)| {
            let mut question = question(op, kind);
            question[key] = value.clone();
            question
        })
        .collect();
    oracle::ask("oracle", &questions)
}

fn bytes_of(answer: &Value) -> Vec<u8> {
    STANDARD.decode(answer["bytes"].as_str().unwrap()).unwrap()
}

/// Our reading in Go's form.
fn read(kind: &'static Kind, bytes: &[u8]) -> Result<Value, String> {
    let envelope = protobuf::open(bytes).map_err(|malformed| malformed.0)?;
    let is = |found: &str, expected: &str| found.is_empty() || found == expected;
    if !is(&envelope.kind, kind.kind) || !is(&envelope.api_version, &kind.api_version()) {
        return Err("another kind".to_owned());
    }
    let mut object = protobuf::read(kind.structure(), envelope.raw).map_err(|malformed| malformed.0)?;
    decode::reform(kind, &mut object);
    Ok(object)
}

#[test]
fn objects_are_written_byte_for_byte_and_read_back() {
    let cases = objects(41, CASES_PER_KIND);
    let Some(answers) = asked("protobuf", "body", &cases) else { return };
    let written: Vec<Vec<u8>> = answers.iter().map(bytes_of).collect();
    for ((kind, object), theirs) in cases.iter().zip(&written) {
        let raw = protobuf::write(kind.structure(), object);
        let ours = protobuf::seal(&kind.api_version(), kind.kind, &raw);
        assert!(ours == *theirs, "{object}\nours   {}\ntheirs {}", ours.escape_ascii(), theirs.escape_ascii());
    }
    let bytes: Vec<(&Kind, Value)> =
        cases.iter().zip(&answers).map(|((kind, _), answer)| (*kind, answer["bytes"].clone())).collect();
    let read_back = asked("unprotobuf", "bytes", &bytes).unwrap();
    for (((kind, object), theirs), written) in cases.iter().zip(&read_back).zip(&written) {
        assert_eq!(read(kind, written).unwrap(), theirs["object"], "{object}");
    }
    println!("{} objects of {} kinds", cases.len(), types::kinds().len());
    assert!(cases.len() > 5000);
}

#[test]
fn metadata_alone_is_written_byte_for_byte() {
    let cases: Vec<(&Kind, Value)> =
        objects(43, 20).into_iter().filter(|(kind, _)| !kind.kind.ends_with("List") && kind.kind != "Status").collect();
    let questions: Vec<Value> = cases
        .iter()
        .map(|(kind, object)| {
            let mut question = question("protobuf", kind);
            question["body"] = json!({"metadata": object["metadata"]});
            question["partial"] = true.into();
            question
        })
        .collect();
    let Some(answers) = oracle::ask("oracle", &questions) else { return };
    for ((_, object), answer) in cases.iter().zip(&answers) {
        let ours = protobuf::seal("meta.k8s.io/v1", "PartialObjectMetadata", &protobuf::write_partial(object));
        assert!(ours == bytes_of(answer), "{object}");
    }
}

#[test]
fn spoiled_bytes_are_read_or_refused_as_upstream_does() {
    let cases = objects(42, SPOILED_PER_KIND);
    let mut random = SeededRandom::new(77);
    let spoiled: Vec<(&Kind, Value)> = cases
        .iter()
        .map(|(kind, object)| {
            let raw = protobuf::write(kind.structure(), object);
            let mut bytes = protobuf::seal(&kind.api_version(), kind.kind, &raw);
            spoil(&mut random, &mut bytes);
            (*kind, STANDARD.encode(bytes).into())
        })
        .collect();
    let Some(answers) = asked("unprotobuf", "bytes", &spoiled) else { return };
    let (mut refused, mut stricter, mut reworded) = (0, 0, 0);
    for ((kind, bytes), theirs) in spoiled.iter().zip(&answers) {
        let bytes = STANDARD.decode(bytes.as_str().unwrap()).unwrap();
        match (read(kind, &bytes), theirs["error"].as_str()) {
            (Ok(ours), _) => {
                let (ours, upstreams) = (without_nulls(&ours), without_nulls(&theirs["object"]));
                assert_eq!(ours, upstreams, "{} {theirs}", bytes.escape_ascii());
            }
            // The decoder reports a wrong kind, not the parser.
            (Err(why), Some(_)) if why == "another kind" => {}
            (Err(why), Some(theirs)) => {
                refused += 1;
                // Upstream does not check where a map entry ends.
                reworded += usize::from(why != theirs);
            }
            // Invalid UTF-8, invalid JSON, map entries that end too late.
            (Err(_), None) => stricter += 1,
        }
    }
    println!("{} messages, {refused} refused, {reworded} in other words, {stricter} by us alone", spoiled.len());
    assert!(refused > 500 && reworded * 4 < refused && stricter * 4 < spoiled.len());
}

/// Upstream writes a nil pointer as null, which the decoder treats as absent.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            fields.map(|(name, value)| (name.clone(), without_nulls(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

fn spoil(random: &mut SeededRandom, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(3) {
        let at = 4 + random.below(bytes.len() - 4);
        match random.below(5) {
            0 => bytes[at] = *random.pick(&[0, 1, 2, 8, 10, 18, 127, 128, 255]),
            1 => bytes[at] ^= 1 << random.below(8),
            2 => drop(bytes.remove(at)),
            3 => bytes.insert(at, *random.pick(&[0, 1, 10, 11, 12, 200])),
            _ => bytes.truncate(at + 1),
        }
        if bytes.len() < 6 {
            return;
        }
    }
}
