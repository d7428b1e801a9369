//! The errors of expressions that do not compile, with cel-go's texts and carets.

use std::sync::Arc;

use rdd_cel::{Declarations, Environment, JsonSchema, Shape};
use serde_json::json;

fn environment() -> Environment {
    let schema = json!({"type": "object", "properties": {
        "replicas": {"type": "integer"},
        "port": {"x-kubernetes-int-or-string": true},
        "since": {"type": "string", "format": "date-time"},
        "my-name": {"type": "string"},
        "namespace": {"type": "string"},
        "free": {"x-kubernetes-preserve-unknown-fields": true},
        "list": {"type": "array", "items": {"type": "object", "properties": {"key": {"type": "string"}}}}}});
    let (root, declarations) = Declarations::of(&Shape::new(&JsonSchema::new(&schema), false), "selfType");
    Environment::new().with_types(Arc::new(declarations)).with_variable("self", root.expect("the schema has a type"))
}

#[track_caller]
fn refused(rows: &[(&str, &str)]) {
    for (expression, words) in rows {
        let error = environment().compile(expression).expect_err(expression).to_string();
        assert_eq!(&error, words, "{expression}");
    }
}

#[test]
fn types_are_checked_and_places_shown() {
    refused(&[
        ("self.replica > 1", "ERROR: <input>:1:5: undefined field 'replica'\n | self.replica > 1\n | ....^"),
        (
            "self.replicas + 'a'",
            "ERROR: <input>:1:15: found no matching overload for '_+_' applied to '(int, string)'\n | self.replicas + 'a'\n | ..............^",
        ),
        ("other > 1", "ERROR: <input>:1:1: undeclared reference to 'other' (in container '')\n | other > 1\n | ^"),
        ("self.free == 1", "ERROR: <input>:1:5: undefined field 'free'\n | self.free == 1\n | ....^"),
        (
            "self.list[0].key.nope",
            "ERROR: <input>:1:17: type 'string' does not support field selection\n | self.list[0].key.nope\n | ................^",
        ),
        (
            "self.list == 1",
            "ERROR: <input>:1:11: found no matching overload for '_==_' applied to '(list(selfType.list.@idx), int)'\n | self.list == 1\n | ..........^",
        ),
        ("[1, 'a'] == []", "ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a'] == []\n | ....^"),
        ("'x'.matches('(')", "ERROR: <input>:1:13: invalid matches argument\n | 'x'.matches('(')\n | ............^"),
        (
            "duration('1 hour') > duration('1s')",
            "ERROR: <input>:1:10: invalid duration argument\n | duration('1 hour') > duration('1s')\n | .........^",
        ),
        ("true && 1", "ERROR: <input>:1:9: expected type 'bool' but found 'int'\n | true && 1\n | ........^"),
        (
            "'%d'.format(['a'])",
            "ERROR: <input>:1:14: error during formatting: decimal clause can only be used on integers, was given string\n | '%d'.format(['a'])\n | .............^",
        ),
    ]);
}

#[test]
fn syntax_is_refused_in_the_generated_parsers_words() {
    const START: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
    refused(&[
        (
            "1 +",
            &format!("ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {START}\n | 1 +\n | ...^"),
        ),
        ("(1", "ERROR: <input>:1:3: Syntax error: missing ')' at '<EOF>'\n | (1\n | ..^"),
        ("1 2", "ERROR: <input>:1:3: Syntax error: extraneous input '2' expecting <EOF>\n | 1 2\n | ..^"),
        ("a.true", "ERROR: <input>:1:3: Syntax error: mismatched input 'true' expecting IDENTIFIER\n | a.true\n | ..^"),
        (
            "'é' == #",
            &format!(
                "ERROR: <input>:1:8: Syntax error: token recognition error at: '#'\n | 'é' == #\n | .．.....^\nERROR: <input>:1:9: Syntax error: mismatched input '<EOF>' expecting {START}\n | 'é' == #\n | .．......^"
            ),
        ),
        ("for", "ERROR: <input>:1:1: reserved identifier: for\n | for\n | ^"),
        ("99999999999999999999", "ERROR: <input>:1:1: invalid int literal\n | 99999999999999999999\n | ^"),
        ("has(1)", "ERROR: <input>:1:5: invalid argument to has() macro\n | has(1)\n | ....^"),
        ("[1].all(1, true)", "ERROR: <input>:1:9: argument must be a simple name\n | [1].all(1, true)\n | ........^"),
        ("self.`my-name` == ''", "ERROR: <input>:1:6: unsupported syntax: '`'\n | self.`my-name` == ''\n | .....^"),
        (&"(".repeat(300), "ERROR: <input>:-1:0: expression recursion limit exceeded: 250"),
    ]);
}

#[test]
fn names_are_escaped_and_keywords_need_not_be() {
    for expression in [
        "self.my__dash__name == ''",
        "self.namespace == ''",
        "self.__namespace__ == ''",
        "self.since > timestamp(0)",
        "self.port == 1 || self.port == 'http'",
    ] {
        environment().compile(expression).unwrap_or_else(|error| panic!("{error}"));
    }
    environment().with_escaped_identifiers().compile("{'a-b': 1}.`a-b` == 1").expect("backticks are on");
}

#[test]
fn constants_without_a_value_make_no_program() {
    let error = environment().compile("int('x') == 1").expect_err("not a number").to_string();
    assert_eq!(error, "type conversion error from 'string' to 'int'");
}
