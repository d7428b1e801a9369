//! Property tests: no input causes a panic or endless work, and pruning, coercion and defaulting are idempotent.

use proptest::prelude::*;
use rdd_meta::go_json;
use rdd_schema::{
    Props, Structural,
    columns::JsonPath,
    crd::{self, Crd, NoRules},
    default,
    field::Path,
    format::Format,
    listtype,
    objectmeta::{self, Malformed},
    pattern::Pattern,
    prune, strict, validate,
};
use serde_json::{Map, Value, json};

/// Strings, most of which have a meaning in schemas.
fn word() -> impl Strategy<Value = String> {
    let known = [
        "type",
        "object",
        "array",
        "string",
        "integer",
        "number",
        "boolean",
        "properties",
        "items",
        "additionalProperties",
        "default",
        "nullable",
        "enum",
        "required",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "pattern",
        "format",
        "date-time",
        "maximum",
        "multipleOf",
        "maxLength",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-type",
        "map",
        "set",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-validations",
        "rule",
        "metadata",
        "kind",
        "apiVersion",
        "name",
        "spec",
        "versions",
        "schema",
        "openAPIV3Schema",
        "ownerReferences",
        "managedFields",
        "labels",
    ];
    prop_oneof![8 => prop::sample::select(known.to_vec()).prop_map(str::to_owned), 2 => ".{0,6}"]
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|float| json!(float)),
        (-3_i64..9).prop_map(Value::from),
    ]
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number(), word().prop_map(Value::from)];
    leaf.prop_recursive(6, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((word(), inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// A schema that parses, however odd it is.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["string", "integer", "number", "boolean"]).prop_map(|kind| json!({"type": kind})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        (json_value(), -2_i64..5)
            .prop_map(|(value, limit)| json!({"default": value, "maxLength": limit, "maxItems": limit})),
        number().prop_map(|bound| json!({"type": "number", "maximum": bound, "multipleOf": bound, "enum": [bound]})),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec((word(), inner.clone()), 0..5)
                .prop_map(|entries| json!({"type": "object", "properties": entries.into_iter().collect::<Map<_, _>>()})),
            inner.clone().prop_map(|below| json!({"type": "array", "items": below, "x-kubernetes-list-type": "set"})),
            (inner.clone(), word()).prop_map(|(below, key)| {
                json!({"type": "array", "items": below, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]})
            }),
            inner.clone().prop_map(|below| json!({"type": "object", "additionalProperties": below})),
            (inner.clone(), inner.clone()).prop_map(|(one, two)| json!({"anyOf": [one, two], "not": one})),
            inner.prop_map(|below| json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"a": below}})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_json_may_be_given_as_a_definition(value in json_value()) {
        let mut value = json!({"metadata": value, "spec": {"group": "g.io", "versions": [{"name": "v1", "schema": {"openAPIV3Schema": value}}]}});
        crd::apply_defaults(&mut value);
        if let Ok(crd) = Crd::parse(&value) {
            let _ = crd::validate(&crd, &mut NoRules);
        }
        let mut odd = value["metadata"].clone();
        crd::apply_defaults(&mut odd);
        let _ = Crd::parse(&odd);
    }

    #[test]
    fn any_value_may_meet_any_schema(schema in schema(), value in json_value(), other in json_value()) {
        let props = Props::parse(&schema).unwrap();
        let compiled = Structural::compile(&props).unwrap();
        let _ = validate::validate(&Path::Nil, &compiled, &value);
        let _ = validate::validate_update(&Path::Nil, &compiled, &value, &other);
        let _ = listtype::validate(&Path::Nil, &compiled, &value);
        let _ = objectmeta::validate(&Path::Nil, &value, &compiled, true);
        prop_assert!(validate::validate_update(&Path::Nil, &compiled, &other, &other).len() <= validate::validate(&Path::Nil, &compiled, &other).len());
    }

    #[test]
    fn what_is_pruned_defaulted_and_coerced_stays_so(schema in schema(), value in json_value()) {
        let compiled = Structural::compile(&Props::parse(&schema).unwrap()).unwrap();
        let mut once = value;
        prune::prune(&mut once, &compiled, true);
        let mut twice = once.clone();
        prop_assert!(prune::prune(&mut twice, &compiled, true).is_empty());
        prop_assert_eq!(&once, &twice);
        objectmeta::coerce(&Path::Nil, &mut once, &compiled, true, Malformed::Drop).unwrap();
        let mut twice = once.clone();
        prop_assert_eq!(objectmeta::coerce(&Path::Nil, &mut twice, &compiled, true, Malformed::Drop).unwrap(), Vec::<String>::new());
        prop_assert_eq!(&once, &twice);
        default::apply(&mut once, &compiled);
        let mut twice = once.clone();
        default::fill(&mut twice, Some(&compiled));
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn any_text_may_be_a_pattern_a_path_or_a_format(pattern in "[\\PC\\\\\\[\\](){}*+?|^$.a-z0-9]{0,24}", text in ".{0,20}") {
        let _ = Pattern::new(&pattern).is_match(&text);
        let _ = JsonPath::parse(&pattern).map(|path| path.find(&json!({"a": [1, {"b": text}]})).is_ok());
        for name in ["uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid4", "isbn", "creditcard", "ssn", "rgbcolor", "byte", "date", "duration", "date-time"] {
            let format = Format::of(name).unwrap();
            let _ = (format.accepts(&text), format.accepts(&pattern));
        }
    }

    #[test]
    fn what_is_written_reads_back(value in json_value()) {
        let text = go_json::to_string(&value);
        let document = strict::read(text.as_bytes()).unwrap();
        prop_assert!(document.findings.is_empty());
        // Go writes the float -0.0 as -0 and reads that as the integer 0, so only the second round trip changes nothing.
        let written = go_json::to_string(&document.value);
        prop_assert!(written == text || text.contains("-0"), "{} became {}", text, written);
        prop_assert_eq!(go_json::to_string(&strict::read(written.as_bytes()).unwrap().value), written);
    }

    #[test]
    fn any_bytes_may_be_read(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = strict::read(&bytes);
    }
}

#[test]
fn a_deep_object_and_a_deep_schema_do_not_exhaust_the_stack() {
    let mut schema = json!({"type": "string"});
    let mut value = json!("x");
    for _ in 0..60 {
        schema = json!({"type": "object", "properties": {"a": schema}});
        value = json!({"a": value});
    }
    let compiled = Structural::compile(&Props::parse(&schema).unwrap()).unwrap();
    assert!(validate::validate(&Path::Nil, &compiled, &value).is_empty());
    assert!(prune::prune(&mut value, &compiled, true).is_empty());
}
