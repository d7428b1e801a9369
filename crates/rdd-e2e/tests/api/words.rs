//! Property tests of the small languages in requests: any text is either accepted or rejected with a proper Status.

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use proptest::prelude::*;
use rdd_testkit::api::{Ask, Server, TestApi};
use serde_json::{Value, json};

use crate::support::{DEFINITIONS, MAPS, expect_proper, mk_definition, mk_map, version};

fn escape(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() }
}

/// Checks a property against one server, which must survive all cases.
fn check<S: Strategy>(strategy: S, ask: impl Fn(&S::Value) -> Ask)
where
    S::Value: std::fmt::Debug,
{
    let api = TestApi::start();
    api.post(MAPS, &mk_map("a", "1")).expect(201);
    let mut runner = proptest::test_runner::TestRunner::new(config());
    let outcome = runner.run(&strategy, |value| {
        let ask = ask(&value);
        let reply = api.ask(&ask);
        prop_assert!(reply.improper().is_none(), "{} {}: {:?}", ask.method, ask.path, reply.improper());
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    api.get(&format!("{MAPS}/a")).expect(200);
}

#[test]
fn any_label_selector_is_understood_or_refused() {
    let texts = prop_oneof!["[a-z!=,() ]{0,40}", "(in|notin|!|=|==|,|\\(|\\)|a|b/c| ){0,12}", any::<String>()];
    check(texts, |text| Ask::new("GET", &format!("{MAPS}?labelSelector={}", escape(text))));
}

#[test]
fn any_field_selector_is_understood_or_refused() {
    let texts =
        prop_oneof!["[a-z!=,\\\\.]{0,40}", "(metadata.name|metadata.namespace|=|!=|==|,|\\\\|x){0,9}", any::<String>()];
    check(texts, |text| Ask::new("GET", &format!("{MAPS}?fieldSelector={}", escape(text))));
}

#[test]
fn any_name_in_a_path_finds_nothing_but_what_has_that_name() {
    check(prop_oneof!["[./%a-c]{0,30}", any::<String>()], |text| Ask::new("GET", &format!("{MAPS}/{}", escape(text))));
}

#[test]
fn any_path_has_an_answer() {
    check("(/|api|apis|v1|namespaces|default|configmaps|status|scale|\\.\\.|%2e|%2f|%25|a){0,12}", |text| {
        Ask::new("GET", &format!("/{text}"))
    });
}

#[test]
fn any_continue_token_is_followed_or_refused() {
    let forged = (any::<i64>(), "[a-z/.\u{0}]{0,20}", any::<bool>()).prop_map(|(version, start, known)| {
        let format = if known { "meta.k8s.io/v1" } else { "meta.k8s.io/v9" };
        let token = json!({"v": format, "rv": version, "start": start});
        STANDARD_NO_PAD.encode(token.to_string()).replace('+', "-").replace('/', "_")
    });
    check(prop_oneof![forged, "[A-Za-z0-9_=-]{0,60}", any::<String>()], |token| {
        Ask::new("GET", &format!("{MAPS}?limit=1&continue={}", escape(token)))
    });
}

#[test]
fn any_patch_is_applied_or_refused() {
    let operation =
        ("(add|remove|replace|move|copy|test|x)", "(/(data|metadata|labels|a|0|-|~1|~0|~2)?){0,4}", any::<i32>())
            .prop_map(|(op, path, value)| json!({"op": op, "path": path, "from": "/data", "value": value}));
    check(prop::collection::vec(operation, 0..6), |operations| {
        let body = Value::from(operations.clone()).to_string();
        Ask::new("PATCH", &format!("{MAPS}/a?dryRun=All")).body("application/json-patch+json", body)
    });
}

#[test]
fn any_managed_fields_are_kept_dropped_or_refused() {
    let keys = prop_oneof!["(f|k|v|i|\\.|x):?(\\{\\}|\\[\\]|name|\"a\"|1|\\{\"name\":\"a\"\\}){0,2}", any::<String>()];
    let sets = prop::collection::vec(keys, 0..5);
    check((sets, "(Update|Apply|)", "(v1|v9||\\.\\.)", "(FieldsV1|FieldsV9|)"), |(keys, operation, of, kind)| {
        let nested = keys.iter().fold(json!({}), |inner, key| json!({key: inner}));
        let entry = json!({
            "manager": "m", "operation": operation, "apiVersion": of, "fieldsType": kind, "fieldsV1": nested,
        });
        let mut map = mk_map("a", "2");
        map["metadata"]["managedFields"] = json!([entry]);
        Ask::new("PUT", &format!("{MAPS}/a?dryRun=All")).json(&map)
    });
}

#[test]
fn any_rule_is_compiled_or_refused() {
    let words =
        "(self|oldSelf|spec|\\.|\\(|\\)|\\[|\\]|\\{|\\}|&&|!|==|\\+|-|1|'a'|\\?|:|,|all|map|x|has|size| ){0,16}";
    check(prop_oneof![words, any::<String>()], |rule| {
        let spec = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
        Ask::new("POST", &format!("{DEFINITIONS}?dryRun=All")).json(&mk_definition("Ruled", &spec))
    });
}

#[test]
fn any_schema_is_compiled_or_refused() {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "integer", "format": "int32", "default": "x"})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"type": 7})),
        Just(json!(null)),
        "[a-z(\\[*+?]{0,8}".prop_map(|pattern| json!({"type": "string", "pattern": pattern})),
    ];
    let schemas = leaf.prop_recursive(5, 30, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|schema| json!({"type": "array", "items": schema, "x-kubernetes-list-type": "set"})),
            inner.clone().prop_map(|schema| json!({"type": "object", "additionalProperties": schema})),
            prop::collection::vec(inner.clone(), 0..4).prop_map(|all| json!({"type": "object", "allOf": all})),
            prop::collection::hash_map("[a-z$.]{0,3}", inner, 0..4).prop_map(|fields| {
                json!({"type": "object", "properties": fields, "x-kubernetes-embedded-resource": fields.len() == 2})
            }),
        ]
    });
    check(schemas, |schema| {
        Ask::new("POST", &format!("{DEFINITIONS}?dryRun=All")).json(&mk_definition("Shaped", schema))
    });
}

#[test]
fn any_bytes_as_protobuf_are_read_or_refused() {
    check(prop::collection::vec(any::<u8>(), 0..60), |bytes| {
        let mut body = b"k8s\0".to_vec();
        body.extend_from_slice(bytes);
        Ask::new("POST", MAPS).body("application/vnd.kubernetes.protobuf", body)
    });
}

#[test]
fn any_yaml_is_read_or_refused() {
    let lines = "(a: |- |\\{|\\}|\\[|\\]|&x |\\*x|<<: |!!str |\\||>|\n|  |\"|'|#|---\n|~|0x1|1e3|\t|: |\\?|@|%){0,20}";
    check(prop_oneof![lines, any::<String>()], |text| Ask::new("POST", MAPS).body("application/yaml", text.clone()));
}

#[test]
fn a_token_of_a_list_with_other_selectors_is_not_a_way_around_them() {
    let api = TestApi::start();
    for name in ["a", "b", "c"] {
        api.post(MAPS, &mk_map(name, "1")).expect(201);
    }
    let page = api.get(&format!("{MAPS}?limit=1")).expect(200);
    let token = page["metadata"]["continue"].as_str().unwrap();
    assert!(version(&page) > 0);
    // In another namespace the token refers to no existing key: it must not reveal objects of the first namespace.
    let elsewhere = api.get(&format!("/api/v1/namespaces/kube-public/configmaps?limit=5&continue={token}"));
    expect_proper("another namespace", &elsewhere);
    let names = elsewhere.text();
    assert!(!names.contains("\"name\":\"b\"") && !names.contains("\"name\":\"c\""), "{names}");
}
