//! Property tests: no expression and no data cause a panic or endless work.

use proptest::prelude::*;
use rdd_cel::{Declarations, Environment, JsonSchema, Shape, Type, compile_pattern};
use serde_json::{Value as Json, json};
use std::sync::Arc;

fn json_value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        ".*".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map("[a-c]", inner, 0..4).prop_map(|map| Json::Object(map.into_iter().collect())),
        ]
    })
}

fn pieces() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "self",
        ".a",
        ".b",
        "[0]",
        "[?'x']",
        ".?c",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "?",
        "+",
        "-",
        "*",
        "/",
        "%",
        "!",
        "==",
        "<",
        "in",
        "&&",
        "||",
        "1",
        "1u",
        "1.5",
        "'é'",
        "b'\\xff'",
        "null",
        "true",
        "x",
        ".map(x, ",
        ".all(x, ",
        ".sortBy(x, ",
        ".optMap(x, ",
        "has(",
        "size(",
        "timestamp(",
        "duration(",
        "quantity(",
        "url(",
        "ip(",
        ".format([",
        "lists.range(",
        ".matches(",
        "9223372036854775807",
        "optional.of(",
        ".flatten(",
        "dyn(",
        "\n",
        "//",
        "'",
        "\"\"\"",
    ]);
    prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_a_program_or_refused(text in prop_oneof![".*", pieces()], own in json_value()) {
        let environment = Environment::new().with_variable("self", Type::Dyn).with_bindings().with_escaped_identifiers();
        if let Ok(program) = environment.compile(&text) {
            let variables = [("self", Ok(rdd_cel::Value::from_json(&own)))];
            let evaluation = program.evaluate(&variables, 20_000);
            prop_assert!(evaluation.outcome.is_err() || evaluation.cost <= 20_000);
        }
    }

    #[test]
    fn any_data_suits_a_schema_or_fails(own in json_value()) {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"], "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "b": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "number"}},
            "c": {"type": "string", "format": "date-time"}}});
        let shape = Shape::new(&JsonSchema::new(&schema), false);
        let (root, declarations) = Declarations::of(&shape, "selfType");
        let environment = Environment::new().with_types(Arc::new(declarations)).with_variable("self", root.expect("a type"));
        for text in ["self == self", "self.a + self.a == self.a", "self.b == self.b.reverse()", "self.c < self.c || self.c >= timestamp(0)", "dyn(self).all(k, dyn(self)[k] == 1)"] {
            let program = environment.compile(text).expect(text);
            let _ = program.evaluate(&[("self", shape.value(&own))], 100_000);
        }
    }

    #[test]
    fn any_pattern_compiles_or_is_refused(pattern in prop_oneof![".*", "[a-z\\[\\](){}*+?|^$.\\\\QE0-9,:<>P-]*"]) {
        let _ = compile_pattern(&pattern);
    }

    #[test]
    fn any_text_is_read_or_refused_by_the_libraries(text in ".*") {
        let environment = Environment::new().with_variable("t", Type::String);
        for call in ["quantity(t)", "url(t)", "ip(t)", "cidr(t)", "semver(t, true)", "duration(t)", "timestamp(t)", "int(t)", "double(t)",
            "format.uri().validate(t)", "format.datetime().validate(t)", "format.dns1123LabelPrefix().validate(t)", "t.format([1])", "strings.quote(t)"] {
            let program = environment.compile(call).expect(call);
            let _ = program.evaluate(&[("t", Ok(rdd_cel::Value::String(rdd_cel::Text::Borrowed(&text))))], 100_000);
        }
    }
}

#[test]
fn depth_and_length_are_bounded() {
    let environment = Environment::new().with_variable("self", Type::Dyn);
    for text in [
        "(".repeat(100_000),
        "[".repeat(5_000),
        "-".repeat(90_000) + "1",
        "!".repeat(90_000) + "true",
        "self".to_owned() + &".a".repeat(40_000),
        "1".to_owned() + &"+1".repeat(40_000),
        "1".repeat(200_000),
        "true ? ".repeat(1_000) + "1" + &" : 1".repeat(1_000),
        "optional.of(1)".to_owned() + &".optMap(x, x)".repeat(200),
    ] {
        assert!(environment.compile(&text).is_err() || text.starts_with(['-', '!']), "{}…", &text[..20]);
    }
    // The deepest expressions of the grammar still fit on the stack of a server's thread.
    let deepest = |open: &str, inner: &str, close: &str| open.repeat(240) + inner + &close.repeat(240);
    let texts = [
        deepest("[", "1", "]"),
        deepest("(!", "true", ")"),
        deepest("[1].map(x, ", "1", ")"),
        "true && ".repeat(10_000) + "true",
    ];
    std::thread::Builder::new()
        .stack_size(512 << 10)
        .spawn(move || {
            let environment = Environment::new();
            for text in texts {
                let program = environment.compile(&text).unwrap_or_else(|error| panic!("{error}"));
                assert!(program.evaluate(&[], 1_000_000).outcome.is_ok());
            }
        })
        .expect("a thread starts")
        .join()
        .expect("nothing overflows");
}
