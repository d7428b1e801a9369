//! Tests the stack with the deepest schemas that a body can contain, and with objects of the same depth, in the debug build.

use rdd_testkit::{
    Daemon,
    api::{Ask, Server, Wire},
};
use serde_json::{Value, json};

use crate::support::{DEFINITIONS, customs, expect_proper, expect_unharmed, mk_custom, mk_definition};

/// A way to nest a schema in another one, and a value in another one.
struct Form {
    kind: &'static str,
    schema: fn(Value) -> Value,
    value: fn(Value) -> Value,
    /// The deepest schema of this form that a body of the maximum depth can contain.
    depth: usize,
}

const FORMS: &[Form] = &[
    Form {
        kind: "Fielded",
        schema: |inner| {
            let rule = json!([{"rule": "!has(self.a) || true"}]);
            json!({"type": "object", "properties": {"a": inner}, "x-kubernetes-validations": rule})
        },
        value: |inner| json!({"a": inner}),
        depth: 58,
    },
    Form {
        kind: "Listed",
        schema: |inner| json!({"type": "array", "maxItems": 2, "items": inner}),
        value: |inner| json!([inner]),
        depth: 63,
    },
    Form {
        kind: "Mapped",
        schema: |inner| json!({"type": "object", "maxProperties": 2, "additionalProperties": inner}),
        value: |inner| json!({"a": inner}),
        depth: 63,
    },
    Form {
        kind: "Loose",
        schema: |inner| json!({"type": "object", "properties": {"a": inner}, "x-kubernetes-preserve-unknown-fields": true}),
        value: |inner| json!({"a": inner}),
        depth: 58,
    },
];

fn leaf() -> Value {
    let rule = json!([{"rule": "self.size() < 100 && self.matches('^(a+)+$')"}]);
    json!({"type": "string", "pattern": "^(a+)+$", "maxLength": 50, "x-kubernetes-validations": rule})
}

fn nest(inner: Value, depth: usize, around: fn(Value) -> Value) -> Value {
    (0..depth).fold(inner, |inner, _| around(inner))
}

#[test]
fn schemas_and_objects_as_deep_as_bodies_allow_do_not_overflow_the_stack() {
    let daemon = Daemon::start();
    let (wire, pid) = (Wire::of(&daemon), daemon.pid());
    for Form { kind, schema, value, depth } in FORMS {
        wire.post(DEFINITIONS, &mk_definition(kind, &nest(leaf(), *depth, *schema))).expect(201);
        let path = customs(kind, "default");
        let one = format!("{path}/x");
        let of = |leaf: &str, depth| nest(json!(leaf), depth, *value);
        wire.post(&path, &mk_custom(kind, "x", &of("aaa", *depth))).expect(201);
        let wrong = wire.post(&path, &mk_custom(kind, "y", &of("b", *depth)));
        expect_proper(kind, &wrong);
        assert_eq!(wrong.reason(), "Invalid", "{kind}");
        // Deeper than the schema, and as deep as a body may be.
        expect_proper(kind, &wire.post(&path, &mk_custom(kind, "z", &of("a", 120))));
        wire.apply(&one, "m", &mk_custom(kind, "x", &of("aaaa", *depth))).expect(200);
        wire.merge(&one, &json!({"spec": of("aaaaa", *depth)})).expect(200);
        expect_proper(kind, &wire.merge(&one, &json!({"spec": of("aa", 120)})));
        let pointer = "/a".repeat(*depth);
        let patch = json!([{"op": "add", "path": format!("/spec{pointer}"), "value": "a"}]).to_string();
        expect_proper(kind, &wire.ask(&Ask::new("PATCH", &one).body("application/json-patch+json", patch)));
        for accept in ["application/json;as=Table;g=meta.k8s.io;v=v1", "application/yaml"] {
            wire.ask(&Ask::new("GET", &one).header("Accept", accept)).expect(200);
        }
    }
    for document in ["/openapi/v3/apis/k.example/v1", "/openapi/v2"] {
        wire.get(document).expect(200);
    }
    for Form { kind, schema, .. } in FORMS {
        // Anything deeper is rejected, both as a body and as a schema.
        for depth in [70, 110, 2000] {
            let mut text = mk_definition(kind, &json!("HERE")).to_string();
            let deep = nest_text(depth, *schema);
            text = text.replace("\"HERE\"", &deep).replace("k.example", "deeper.example");
            let refused = wire.ask(&Ask::new("POST", DEFINITIONS).body("application/json", text));
            expect_proper(kind, &refused);
            assert!(matches!(refused.code, 400 | 422), "{kind} {depth}: {}", refused.code);
        }
    }
    expect_unharmed(&daemon, &wire, pid, 400);
}

/// Builds the text directly, so that the test's own stack suffices at any depth.
fn nest_text(depth: usize, around: fn(Value) -> Value) -> String {
    let one = around(json!("HERE")).to_string();
    let (before, after) = one.split_once("\"HERE\"").unwrap();
    format!("{}{{\"type\":\"string\"}}{}", before.repeat(depth), after.repeat(depth))
}

#[test]
fn rules_of_any_size_and_any_work_are_bounded() {
    let daemon = Daemon::start();
    let (wire, pid) = (Wire::of(&daemon), daemon.pid());
    let spec = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "string"}}}});
    let ruled = |rule: &str| {
        let mut definition = mk_definition("Ruled", &spec);
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] =
            json!([{"rule": rule}]);
        definition
    };
    for count in [100, 3_000, 100_000] {
        for rule in [
            "(".repeat(count) + "true" + &")".repeat(count),
            "!".repeat(count) + "true",
            "-".repeat(count) + "1 == 1",
            "[".repeat(count) + &"]".repeat(count) + " == []",
            "{1:".repeat(count) + "1" + &"}".repeat(count) + " == {}",
            vec!["1"; count].join("+") + " == 1",
            vec!["true"; count].join("&&"),
            "true?".repeat(count) + "true" + &":true".repeat(count),
            format!("self{} == 1", ".spec".repeat(count)),
            "self.spec.l.all(x,".repeat(count.min(20_000)) + "true" + &")".repeat(count.min(20_000)),
        ] {
            let reply = wire.post(&format!("{DEFINITIONS}?dryRun=All"), &ruled(&rule));
            expect_proper(&rule[..20], &reply);
        }
    }
    let work = "self.spec.l.all(a, self.spec.l.all(b, self.spec.l.all(c, self.spec.l.all(d, a + b + c + d != 'x'))))";
    let made = wire.post(DEFINITIONS, &ruled(work));
    expect_proper("work", &made);
    // The estimated cost decides whether such a rule is accepted; if it is, its evaluation is limited.
    if made.code == 201 {
        let items = vec!["aaaa"; 1000];
        let reply = wire.post(&customs("Ruled", "default"), &mk_custom("Ruled", "x", &json!({"l": items})));
        expect_proper("work", &reply);
        assert_eq!(reply.reason(), "Invalid", "{}", reply.text());
    }
    expect_unharmed(&daemon, &wire, pid, 500);
}
