//! Validation of objects: the error of every restriction, with its text and its path.

use serde_json::json;

use super::*;
use crate::props::Props;

fn compile(schema: Value) -> std::sync::Arc<Structural> {
    Structural::compile(&Props::parse(&schema).unwrap()).unwrap()
}

fn errors(schema: Value, value: Value) -> Vec<String> {
    validate(&Path::Nil, &compile(schema), &value).iter().map(Error::to_string).collect()
}

#[test]
fn each_restriction_has_upstreams_words() {
    let schema = json!({"type": "object", "required": ["r"], "maxProperties": 9, "properties": {
        "e": {"type": "string", "enum": ["a", "b"]}, "l": {"type": "string", "maxLength": 2},
        "m": {"type": "integer", "maximum": 3, "exclusiveMaximum": true}, "p": {"type": "string", "pattern": "^x$"},
        "a": {"type": "array", "maxItems": 1, "items": {"type": "integer"}}, "f": {"type": "string", "format": "ipv4"},
        "d": {"type": "number", "multipleOf": 0.5}, "n": {"type": "string", "minLength": 2},
    }});
    let value = json!({"e": "c", "l": "abc", "m": 3, "p": "y", "a": [1, "2"], "f": "x", "d": 0.7, "n": "é"});
    assert_eq!(
        errors(schema, value),
        [
            "a[1]: Invalid value: \"string\": a[1] in body must be of type integer: \"string\"",
            "a: Too many: 2: must have at most 1 item",
            "d: Invalid value: 0.7: d in body should be a multiple of 0.5",
            "e: Unsupported value: \"c\": supported values: \"a\", \"b\"",
            "f: Invalid value: \"x\": f in body must be of type ipv4: \"x\"",
            "l: Too long: may not be more than 2 bytes",
            "m: Invalid value: 3: m in body should be less than 3",
            "n: Invalid value: \"é\": n in body should be at least 2 chars long",
            "p: Invalid value: \"y\": p in body should match '^x$'",
            "r: Required value",
        ]
    );
}

#[test]
fn a_failed_one_of_is_an_error_of_the_whole_object() {
    let schema = json!({"type": "object", "properties": {"s": {"type": "object",
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}}});
    assert_eq!(
        errors(schema.clone(), json!({"s": {"a": "", "b": ""}})),
        ["<nil>: Invalid value: \"\": \"s\" must validate one and only one schema (oneOf). Found 2 valid alternatives"]
    );
    assert_eq!(errors(schema, json!({"s": {}})).len(), 2);
}

#[test]
fn unchanged_values_keep_their_errors_to_themselves() {
    let schema = compile(json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 1}, "b": {"type": "array", "items": {"type": "string", "maxLength": 1}},
        "c": {"type": "object", "additionalProperties": {"type": "integer", "maximum": 1}},
    }}));
    let old = json!({"a": "long", "b": ["long"], "c": {"x": 5, "y": 6}});
    let new = json!({"a": "long", "b": ["long", "also"], "c": {"x": 5, "y": 7}});
    let errors: Vec<String> = validate_update(&Path::Nil, &schema, &new, &old).iter().map(Error::to_string).collect();
    assert_eq!(
        errors,
        [
            "b[0]: Too long: may not be more than 1 byte",
            "b[1]: Too long: may not be more than 1 byte",
            "c.y: Invalid value: 7: c.y in body should be less than or equal to 1",
        ]
    );
}

#[test]
fn the_conversions_of_enums_are_gos() {
    assert!(
        converts_to(&json!(65), &json!("A"))
            && converts_to(&json!(1.7), &json!(1))
            && converts_to(&json!(1), &json!(1.0))
    );
    assert!(!converts_to(&json!("1"), &json!(1)) && !converts_to(&Value::Null, &Value::Null));
}

// Finding E-13
#[test]
fn many_strings_below_one_large_pattern_share_its_steps_and_the_error_names_the_field() {
    let pattern = r"^\pL{1,1000}$";
    let schema = compile(json!({"type": "object", "properties": {
        "names": {"type": "array", "items": {"type": "string", "pattern": pattern}},
        "other": {"not": {"type": "string", "pattern": pattern}},
    }}));
    let errors_within = |steps: u64, value: &Value| -> Vec<String> {
        let walk = Walk { reading: Reading::Object, steps: StepBudget::new(steps) };
        let errors = walk.node(&schema, value, &Trail::Root, None).into_errors(&Path::Nil);
        errors.iter().map(Error::to_string).collect()
    };
    let text = "é".repeat(600);
    // Steps that suffice for some texts, and not for all of them together.
    const STEPS: u64 = 20_000;
    assert_eq!(errors_within(STEPS, &json!({"names": [text]})), Vec::<String>::new());
    let found = errors_within(STEPS, &json!({"names": vec![&text; 20], "other": 1}));
    let said = format!("in body cannot be matched against '{pattern}': the patterns of one object may take ");
    assert!(found.iter().any(|error| error.starts_with("names[19]: ") && error.contains(&said)), "{found:?}");
    assert!(!found.iter().any(|error| error.starts_with("names[0]: ")), "{found:?}");
    // What could not be matched does not make a negation true.
    let found = errors_within(10, &json!({"other": text}));
    assert!(found.iter().any(|error| error.contains("\"other\" cannot be validated: ")), "{found:?}");
}
