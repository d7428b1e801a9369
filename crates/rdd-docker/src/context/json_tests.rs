//! Tests of JSON edits, by table and at random: foreign bytes never change.

use proptest::{collection::vec, prelude::*};

use super::*;

fn check(text: &str, with: &str, without: &str) {
    let object = Object::parse(text.as_bytes()).unwrap();
    let set = match object.find("name").as_slice() {
        [member] => object.replaced(member, "\"x\""),
        _ => object.inserted("name", "\"x\""),
    };
    assert_eq!(String::from_utf8(set.clone()).unwrap(), with, "{text}");
    let object = Object::parse(&set).unwrap();
    let removed = object.removed(object.find("name")[0]);
    assert_eq!(String::from_utf8(removed).unwrap(), without, "{text}");
}

#[test]
fn a_member_is_put_in_like_the_others_and_taken_out_without_a_trace() {
    for (text, with) in [
        ("{}", "{\"name\": \"x\"}"),
        ("{ \r\n}\r\n", "{\"name\": \"x\" \r\n}\r\n"),
        ("{\"a\":1}", "{\"a\":1,\"name\":\"x\"}"),
        (
            "{\n\t\"a\": {\"name\": 1},\n\t\"b\" :[\"}\"]\n}",
            "{\n\t\"a\": {\"name\": 1},\n\t\"b\" :[\"}\"],\n\t\"name\": \"x\"\n}",
        ),
        ("{\r\n  \"a\" : null\r\n}", "{\r\n  \"a\" : null,\r\n  \"name\" : \"x\"\r\n}"),
        (" {\"a\\\"\": \"\\\\\"} ", " {\"a\\\"\": \"\\\\\",\"name\": \"x\"} "),
    ] {
        check(text, with, text);
    }
}

#[test]
fn a_value_is_replaced_where_it_is() {
    check("{\"name\":\"long ago\"}", "{\"name\":\"x\"}", "{}");
    check("{ \"NAME\" : null , \"b\":2}", "{ \"NAME\" : \"x\" , \"b\":2}", "{ \"b\":2}");
    check("{\"a\":1,\n\"n\\u0061me\":\"\",\"b\":2}", "{\"a\":1,\n\"n\\u0061me\":\"x\",\"b\":2}", "{\"a\":1,\"b\":2}");
}

#[test]
fn every_member_that_a_reader_in_go_would_take_is_found() {
    let object = Object::parse(br#"{"name":1,"other":{"name":2},"Name":3}"#).unwrap();
    let found: Vec<_> = object.find("name").into_iter().map(|member| object.value(member)).collect();
    assert_eq!(found, [b"1", b"3"]);
}

#[test]
fn what_is_no_object_is_refused_however_deep_it_is() {
    let deep = "[".repeat(1 << 20);
    let closed = format!("{}{}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    for text in ["", " ", "{", "{}}", "{\"a\":1,}", "{'a':1}", "\u{feff}{}", "nul", "{\"a\":01}", "{} {}", &deep] {
        assert!(matches!(Object::parse(text.as_bytes()), Err(NotAnObject::Malformed(_))), "{text:.20}");
    }
    for text in ["[]", "1", "\"{}\"", &closed] {
        assert!(matches!(Object::parse(text.as_bytes()), Err(NotAnObject::OtherValue)), "{text:.20}");
    }
    let nested = format!("{{\"a\":{closed}}}");
    assert_eq!(Object::parse(nested.as_bytes()).unwrap().members.len(), 1);
}

/// White space as people and programs write it.
fn space() -> impl Strategy<Value = String> {
    "[ \t\r\n]{0,3}"
}

fn string() -> impl Strategy<Value = String> {
    let piece =
        prop_oneof![Just("\\\"".to_owned()), Just("\\\\".to_owned()), Just("\\u00e9".to_owned()), "[a-zé{}:,\\[\\] ]"];
    vec(piece, 0..6).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![string(), Just("null".to_owned()), Just("true".to_owned()), Just("-1.5e3".to_owned())];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let list = (vec((space(), inner.clone(), space()), 0..4)).prop_map(|items| {
            format!("[{}]", items.iter().map(|(a, v, b)| format!("{a}{v}{b}")).collect::<Vec<_>>().join(","))
        });
        prop_oneof![list, object_of(inner)]
    })
}

fn object_of(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    (space(), vec((space(), string(), space(), space(), value, space()), 0..5)).prop_map(|(empty, members)| {
        let members: Vec<_> =
            members.iter().map(|(a, key, b, c, value, d)| format!("{a}{key}{b}:{c}{value}{d}")).collect();
        if members.is_empty() { format!("{{{empty}}}") } else { format!("{{{}}}", members.join(",")) }
    })
}

proptest! {
    #[test]
    fn what_is_put_in_and_taken_out_again_leaves_every_byte_as_it_was(a in space(), text in object_of(value()), b in space()) {
        let text = format!("{a}{text}{b}");
        let object = Object::parse(text.as_bytes()).unwrap();
        prop_assume!(object.find("currentContext").is_empty());
        let set = object.inserted("currentContext", "\"ours\"");
        let changed = Object::parse(&set).unwrap();
        let found = changed.find("currentContext");
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!(changed.value(found[0]), b"\"ours\"");
        prop_assert_eq!(String::from_utf8(changed.removed(found[0])).unwrap(), text);
    }

    #[test]
    fn a_replaced_value_changes_no_other_byte(
        before in vec((string(), value()), 0..3), after in vec((string(), value()), 0..3), (s, t) in (space(), space()), old in value(),
    ) {
        let member = |(key, value): &(String, String)| format!("{key}:{value}");
        let ours = format!("{s}\"currentContext\"{t}:{s}");
        let head = format!("{{{}", before.iter().map(|pair| member(pair) + ",").collect::<String>());
        let tail = format!("{t}{}}}", after.iter().map(|pair| format!(",{}", member(pair))).collect::<String>());
        let text = format!("{head}{ours}{old}{tail}");
        let object = Object::parse(text.as_bytes()).unwrap();
        let found = object.find("currentContext");
        prop_assume!(found.len() == 1);
        prop_assert_eq!(object.value(found[0]), old.as_bytes());
        prop_assert_eq!(String::from_utf8(object.replaced(found[0], "\"x\"")).unwrap(), format!("{head}{ours}\"x\"{tail}"));
        let removed = object.removed(found[0]);
        let left = Object::parse(&removed).unwrap();
        prop_assert_eq!(left.members.len(), before.len() + after.len());
        let values: Vec<_> = left.members.iter().map(|member| left.value(member)).collect();
        let expected: Vec<_> = before.iter().chain(&after).map(|(_, value)| value.as_bytes()).collect();
        prop_assert_eq!(values, expected);
    }

    #[test]
    fn no_bytes_at_all_make_it_panic(text in vec(any::<u8>(), 0..64)) {
        let _ = Object::parse(&text);
    }
}
