//! Mutates requests slightly, in bytes, fields, types, paths and headers, in ways that no client would.

use rdd_testkit::api::Ask;
use serde_json::{Value, json};

use crate::support::Random;

/// Byte sequences that have broken parsers.
const NASTY: &[&[u8]] = &[
    b"\x00",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\\ud800",
    b"\\u0000",
    b"null",
    b"{}",
    b"[]",
    b"\"",
    b"1e999",
    b"-0",
    b"99999999999999999999999999",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    b"{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":",
    b"\"metadata\":{\"name\":\"twice\"},",
    b"&a [*a]",
    b"!!binary x",
    b"---\n",
    b"\t",
    b"%",
    b"../",
    b"\r\n",
];

/// Strings to insert into paths, most of them invalid there.
const IN_PATHS: &[&str] = &[
    "%", "%2e%2e", "%2f", "%252f", "%00", "%ff", "..", "/", "//", "?", "&", "=", ";", "%zz", "+", "#", "~", "@", ":",
    "*",
];

/// Query parameters with invalid values.
const PARAMETERS: &[&str] = &[
    "limit=-1",
    "limit=99999999999999999999",
    "limit=x",
    "continue=x",
    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vLi4vIn0",
    "resourceVersion=-1",
    "resourceVersion=18446744073709551616",
    "resourceVersion=x",
    "resourceVersionMatch=Exact",
    "resourceVersionMatch=Never",
    "labelSelector=a%20in%20(",
    "labelSelector=!!",
    "fieldSelector=a%5C",
    "fieldSelector=metadata.name%3D%FF",
    "dryRun=None",
    "fieldManager=%00",
    "fieldValidation=Sometimes",
    "force=perhaps",
    "pretty=%FF",
    "propagationPolicy=Never",
    "gracePeriodSeconds=-1",
    "timeoutSeconds=x",
    "sendInitialEvents=true",
    "orphanDependents=x",
];

const CONTENT_TYPES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
    "text/plain",
    "",
    "application/json; charset=\"",
    ";;;",
];

const ACCEPTS: &[&str] = &[
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/json;as=Nothing;g=meta.k8s.io;v=v1",
    "application/yaml",
    "image/png",
    "*/*;q=0",
    ",,,;;;",
    "application/json;as=Table;g=meta.k8s.io;v=v9, */*",
];

/// Returns a mutated copy of a request.
pub(crate) fn spoil(ask: &Ask, random: &mut Random) -> Ask {
    let mut spoilt = ask.clone();
    for _ in 0..=random.below(3) {
        match random.below(10) {
            0..4 => spoil_fields(&mut spoilt, random),
            4..7 => spoil_bytes(&mut spoilt.body, random),
            7 => spoil_path(&mut spoilt.path, random),
            8 => {
                let separator = if spoilt.path.contains('?') { '&' } else { '?' };
                spoilt.path.push(separator);
                spoilt.path.push_str(random.pick(PARAMETERS));
            }
            _ => spoil_headers(&mut spoilt, random),
        }
    }
    spoilt
}

fn spoil_bytes(body: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(body.len() + 1);
    let length = random.below(40).min(body.len() - at);
    match random.below(6) {
        0 if at < body.len() => body[at] ^= 1 << random.below(8),
        1 => body.truncate(at),
        2 => {
            body.drain(at..at + length);
        }
        3 => {
            let again = body[at..at + length].to_vec();
            body.splice(at..at, again);
        }
        _ => {
            let nasty = random.pick(NASTY);
            body.splice(at..at, nasty.iter().copied());
        }
    }
}

fn spoil_path(path: &mut String, random: &mut Random) {
    let places: Vec<usize> = path.char_indices().map(|(at, _)| at).filter(|at| *at > 0).collect();
    if places.is_empty() {
        return;
    }
    let at = random.pick(&places);
    match random.below(3) {
        0 => path.truncate(at),
        1 => {
            path.remove(at);
        }
        _ => path.insert_str(at, random.pick(IN_PATHS)),
    }
}

fn spoil_headers(ask: &mut Ask, random: &mut Random) {
    let (name, values) = if random.below(2) == 0 { ("Content-Type", CONTENT_TYPES) } else { ("Accept", ACCEPTS) };
    ask.headers.retain(|(found, _)| !found.eq_ignore_ascii_case(name));
    ask.headers.push((name.to_owned(), random.pick(values).as_bytes().to_vec()));
}

/// Mutates a field of a JSON body: its type or place, or removes it. Other bodies lose or repeat a line.
fn spoil_fields(ask: &mut Ask, random: &mut Random) {
    let Ok(mut value) = serde_json::from_slice::<Value>(&ask.body) else { return spoil_lines(&mut ask.body, random) };
    let count = count_nodes(&value);
    let donor = node(&mut value, random.below(count)).map(std::mem::take).unwrap_or_default();
    let wrong = match random.below(14) {
        0 => json!(null),
        1 => json!(true),
        2 => json!(-1),
        3 => json!(1.5),
        4 => json!(u64::MAX),
        5 => json!(""),
        6 => json!("\u{0}\u{202e}\u{ffff}"),
        7 => json!("x".repeat(5000)),
        8 => json!([]),
        9 => json!({}),
        10 => json!({"": {"": [null]}}),
        11 => (0..90).fold(json!(1), |inner, _| json!([inner])),
        12 => json!(["a", "a"]),
        _ => donor,
    };
    let count = count_nodes(&value);
    if let Some(place) = node(&mut value, random.below(count)) {
        match place {
            Value::Object(fields) if random.below(3) == 0 => {
                fields.insert(random.pick(&["", "f:", "$patch", "metadata", "\u{0}", "a/b", "x"]).to_owned(), wrong);
            }
            place => *place = wrong,
        }
    }
    ask.body = value.to_string().into_bytes();
}

fn spoil_lines(body: &mut Vec<u8>, random: &mut Random) {
    let mut lines: Vec<&[u8]> = body.split_inclusive(|byte| *byte == b'\n').collect();
    if lines.is_empty() {
        return;
    }
    let (from, to) = (random.below(lines.len()), random.below(lines.len()));
    if random.below(2) == 0 {
        lines.remove(from);
    } else {
        lines.insert(to, lines[from]);
    }
    *body = lines.concat();
}

fn count_nodes(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count_nodes).sum(),
        Value::Object(fields) => fields.values().map(count_nodes).sum::<usize>(),
        _ => 0,
    }
}

/// The node with this number, in the order of a walk.
fn node(value: &mut Value, mut number: usize) -> Option<&mut Value> {
    if number == 0 {
        return Some(value);
    }
    number -= 1;
    let children: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(fields) => fields.values_mut().collect(),
        _ => Vec::new(),
    };
    for child in children {
        let count = count_nodes(child);
        if number < count {
            return node(child, number);
        }
        number -= count;
    }
    None
}
