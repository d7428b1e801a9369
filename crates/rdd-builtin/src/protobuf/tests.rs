//! Tests beyond the oracle's: malformed bytes, bounds, and a message that can be checked by hand.

use serde_json::{Value, json};

use super::{wire::put_message, *};
use crate::{decode, types};

fn structure(kind: &str) -> &'static Struct {
    types::kinds().iter().find(|found| found.kind == kind).unwrap().structure()
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

#[test]
fn a_small_object_is_the_bytes_that_upstream_writes() {
    let binding =
        json!({"metadata": {"name": "n"}, "subjects": [{"kind": "User", "name": "u"}], "roleRef": {"kind": "R"}});
    let raw = write(structure("RoleBinding"), &binding);
    assert_eq!(
        text(&seal("v1", "X", &raw)),
        r#"k8s\x00\n\x07\n\x02v1\x12\x01X\x12+\n\x11\n\x01n\x12\x00\x1a\x00\"\x00*\x002\x008\x00B\x00\x12\r\n\x04User\x12\x00\x1a\x01u\"\x00\x1a\x07\n\x00\x12\x01R\x1a\x00\x1a\x00\"\x00"#
    );
    let mut read = read(structure("RoleBinding"), &raw).unwrap();
    decode::reform(types::kind("rbac.authorization.k8s.io", "v1", "RoleBinding").unwrap(), &mut read);
    assert_eq!(read["subjects"], binding["subjects"]);
    assert_eq!(read["metadata"], binding["metadata"]);
}

#[test]
fn a_frame_of_a_watch_has_its_length_before_it() {
    assert_eq!(text(&watch_event("ADDED", b"k8s\0")), r"\x00\x00\x00\x0f\n\x05ADDED\x12\x06\n\x04k8s\x00");
}

#[test]
fn a_body_is_taken_out_of_its_envelope() {
    let sealed = seal("apps/v1", "Foo", b"raw");
    let expected = Envelope { api_version: "apps/v1".to_owned(), kind: "Foo".to_owned(), raw: b"raw" };
    assert_eq!(open(&sealed), Ok(expected));
    let refused = |bytes: &[u8]| open(bytes).unwrap_err().0;
    assert_eq!(refused(b""), "empty data");
    assert_eq!(refused(b"k8s\0"), "empty body");
    assert_eq!(
        refused(b"{}"),
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    );
    assert_eq!(refused(b"k8s\0\x12\x02\x0a"), "unexpected EOF");
    assert_eq!(refused(b"k8s\0\x08\x01"), "proto: wrong wireType = 0 for field TypeMeta");
}

#[test]
fn what_is_malformed_is_refused_in_upstreams_words() {
    let refused = |bytes: &[u8]| read(structure("ConfigMap"), bytes).unwrap_err().0;
    for (bytes, expected) in [
        (&b"\x0a\x05"[..], "unexpected EOF"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "proto: negative length found during unmarshaling"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "proto: integer overflow"),
        (b"\x08\x01", "proto: wrong wireType = 0 for field ObjectMeta"),
        (b"\x0a\x02\x28\x01", "proto: wrong wireType = 0 for field UID"),
        (b"\x0c", "proto: ConfigMap: wiretype end group for non-group"),
        (b"\x0a\x01\x0c", "proto: ObjectMeta: wiretype end group for non-group"),
        (b"\x00", "proto: ConfigMap: illegal tag 0 (wire type 0)"),
        (b"\x3e", "proto: illegal wireType 6"),
        (b"\x7b", "unexpected EOF"),
        (b"\x0a\x03\x0a\x01\xff", "proto: field Name contains invalid UTF-8"),
    ] {
        assert_eq!(refused(bytes), expected, "{}", text(bytes));
    }
    let rule = read(structure("ValidatingWebhookConfiguration"), b"\x12\x04\x1a\x02\x10\x01").unwrap_err().0;
    assert_eq!(rule, "proto: wrong wireType = 0 for field Rule");
}

#[test]
fn what_is_unknown_is_skipped_whatever_is_in_it() {
    // Unknown fields: a group with a nested group and a string, a fixed32, a fixed64, a number. Then known ones.
    let unknown = b"\x7b\x83\x01\x0a\x01x\x84\x01\x7c\x75\x01\x02\x03\x04\x71\x01\x02\x03\x04\x05\x06\x07\x08\x78\x05";
    let known = b"\x12\x06\x0a\x01k\x12\x01v";
    let bytes = [&unknown[..], known].concat();
    assert_eq!(read(structure("ConfigMap"), &bytes), Ok(json!({"data": {"k": "v"}})));
}

#[test]
fn nesting_has_a_bound_in_messages_and_in_their_json() {
    let nested = |depth: usize| {
        let mut schema = Vec::new();
        for _ in 0..depth {
            let below = std::mem::take(&mut schema);
            put_message(&mut schema, 28, |out| out.extend_from_slice(&below));
        }
        read(types::json_schema_props(), &schema)
    };
    assert!(nested(99).is_ok());
    assert_eq!(nested(100).unwrap_err().0, "proto: exceeded max depth");
    assert!(nested(20_000).is_err());
    let json = |depth: usize| {
        let raw = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let mut schema = Vec::new();
        put_message(&mut schema, 8, |out| wire::put_bytes(out, 1, raw.as_bytes()));
        read(types::json_schema_props(), &schema)
    };
    assert!(json(99).is_ok());
    assert!(json(100).is_err() && json(100_000).is_err());
    // Nested groups are skipped without recursion, so they do not count as nesting.
    assert_eq!(read(structure("ConfigMap"), &[0x7b; 100_000]).unwrap_err().0, "unexpected EOF");
}

#[test]
fn times_quantities_and_ports_keep_their_forms() {
    let event =
        json!({"metadata": {}, "firstTimestamp": "2024-02-29T10:00:00Z", "eventTime": "1969-12-31T23:59:59.123456Z"});
    let back = read(structure("Event"), &write(structure("Event"), &event)).unwrap();
    assert_eq!((&back["firstTimestamp"], &back["eventTime"]), (&event["firstTimestamp"], &event["eventTime"]));
    assert_eq!(back["lastTimestamp"], Value::Null);
    let service = json!({"spec": {"ports": [{"targetPort": "http"}, {"targetPort": 80}, {}]}});
    let back = read(structure("Service"), &write(structure("Service"), &service)).unwrap();
    let ports: Vec<&Value> = back["spec"]["ports"].as_array().unwrap().iter().map(|port| &port["targetPort"]).collect();
    assert_eq!(ports, [&json!("http"), &json!(80), &json!(0)]);
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[test]
fn random_bytes_never_break_anything() {
    let mut state = 7;
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..40_000 {
        let length = random(&mut state) as usize % 48;
        // Bytes that resemble messages get further into the parser than random ones.
        let byte = |state: &mut u64| match random(state) % 3 {
            0 => random(state) as u8,
            1 => ((random(state) % 20) << 3 | 2) as u8,
            _ => (random(state) % 8) as u8,
        };
        let bytes: Vec<u8> = (0..length).map(|_| byte(&mut state)).collect();
        let _ = open(&[&MAGIC[..], &bytes].concat());
        let structure = &types::structs()[round % types::structs().len()];
        match read(structure, &bytes) {
            // Whatever was read can be written, and reads the same again.
            Ok(value) => {
                accepted += usize::from(!bytes.is_empty());
                let again = write(structure, &value);
                assert_eq!(write(structure, &read(structure, &again).unwrap()), again, "{}", text(&bytes));
            }
            Err(_) => refused += 1,
        }
    }
    assert!(accepted > 100 && refused > 1000, "{accepted} {refused}");
}

#[test]
fn every_type_of_the_table_has_a_form_in_protobuf() {
    fn check(kind: &'static types::Type, element: bool) {
        match kind.underlying() {
            types::Type::Pointer(below) => check(below, element),
            types::Type::List(below) => check(below, true),
            types::Type::Map(below) => {
                assert!(!element, "protobuf has no maps in lists or maps");
                check(below, true);
            }
            _ => {}
        }
    }
    for structure in types::structs() {
        for field in structure.fields {
            assert_eq!(field.numbers.is_empty(), field.via == "TypeMeta", "{}.{}", structure.name, field.name);
            check(&field.kind, false);
        }
    }
}
