//! What is written, and that it is read back as it was.

use serde_json::json;

use super::*;

#[track_caller]
fn check(value: Value, expected: &str) {
    assert_eq!(write(&value), expected);
}

#[test]
fn collections_are_in_blocks_and_keys_in_natural_order() {
    check(
        json!({"a10": {"x": []}, "a2": [1, [2, {"b": {}}]], "A": null, "1": true}),
        "\"1\": true\nA: null\na2:\n- 1\n- - 2\n  - b: {}\na10:\n  x: []\n",
    );
    check(json!([]), "[]\n");
    check(
        json!({"v": [0, -5, 1.5, 1e21, 1e20, 123_456_789.25]}),
        "v:\n- 0\n- -5\n- 1.5\n- 1e+21\n- 1e+20\n- 1.2345678925e+08\n",
    );
}

#[test]
fn texts_are_quoted_where_they_would_be_something_else() {
    let texts = json!([
        "yes",
        "1",
        "2001-01-01",
        "12:30",
        "a: b",
        "- x",
        "it's",
        "",
        " x",
        "x:y",
        "#c",
        "<<",
        "ü",
        "tab\t",
        "😀",
        "-"
    ]);
    check(
        texts,
        "- \"yes\"\n- \"1\"\n- \"2001-01-01\"\n- \"12:30\"\n- 'a: b'\n- '- x'\n- it's\n- \"\"\n- ' x'\n- x:y\n- '#c'\n- <<\n- ü\n- \"tab\\t\"\n- \"\\U0001F600\"\n- '-'\n",
    );
}

#[test]
fn lines_are_blocks_and_long_ones_are_folded() {
    check(
        json!({"a": {"b": "x\ny\n", "c": "x\n\n", "d": " x\ny"}}),
        "a:\n  b: |\n    x\n    y\n  c: |+\n    x\n\n  d: |2-\n     x\n    y\n",
    );
    let long =
        "long words that go on and on until the line is far longer than eighty characters wide, and then some more";
    check(
        json!({ "v": long }),
        "v: long words that go on and on until the line is far longer than eighty characters\n  wide, and then some more\n",
    );
    check(json!({"k\nl": 1}), "? |-\n  k\n  l\n: 1\n");
}

#[track_caller]
fn check_v3(value: Value, expected: &str) {
    assert_eq!(write_v3(&value), expected);
}

#[test]
fn version_3_aligns_collections_to_four_and_keeps_the_order_of_json() {
    check_v3(
        json!([{"group": "", "kind": "X"}, [1, [2.5, {"a": {"b": ["c"]}, "l": "x\ny"}]], "x\ny\n"]),
        "- group: \"\"\n  kind: X\n- - 1\n  - - 2.5\n    - a:\n        b:\n            - c\n      l: |-\n        x\n        y\n- |\n  x\n  y\n",
    );
    check_v3(
        json!({"list": ["a", "b"], "map": {"k": {"deep": [{"x": 1, "y": []}]}}, "text": " x\ny"}),
        "list:\n    - a\n    - b\nmap:\n    k:\n        deep:\n            - x: 1\n              y: []\ntext: |4-\n     x\n    y\n",
    );
    check_v3(json!({"k\nl": 1, "": 2, "10": 3, "9": 4}), "\"\": 2\n\"10\": 3\n\"9\": 4\n? |-\n    k\n    l\n: 1\n");
    let long = "a long line ".repeat(20) + "end";
    check_v3(json!(long), &format!("{long}\n"));
}

#[test]
fn version_3_quotes_what_its_own_reader_would_take_for_something_else() {
    let texts = json!([
        "yes",
        "true",
        "1",
        "2001-01-01",
        "12:30",
        "a: b",
        "- x",
        "it's",
        "",
        " x",
        "x:y",
        "#c",
        "<<",
        "ü",
        "tab\t",
        "😀",
        "-",
        "0x1f",
        "1_000",
        "0o7",
        ".5",
        "~",
        "null",
        "y",
        "a,b",
        "x \ny",
        "\n",
        "x\n\n",
        "x ",
        "\u{7}",
        "a\tb\nc"
    ]);
    check_v3(
        texts,
        "- yes\n- \"true\"\n- \"1\"\n- \"2001-01-01\"\n- 12:30\n- 'a: b'\n- '- x'\n- it's\n- \"\"\n- ' x'\n- x:y\n- '#c'\n- <<\n- ü\n- \"tab\\t\"\n- \"\\U0001F600\"\n- '-'\n- \"0x1f\"\n- \"1_000\"\n- \"0o7\"\n- \".5\"\n- \"~\"\n- \"null\"\n- y\n- a,b\n- \"x \\ny\"\n- |4+\n\n- |+\n  x\n\n- 'x '\n- \"\\a\"\n- |-\n  a\tb\n  c\n",
    );
    for (value, expected) in [
        (json!("get"), "get\n"),
        (json!(true), "true\n"),
        (json!("x\ny"), "|-\n    x\n    y\n"),
        (json!(1e21), "1e+21\n"),
        (json!(null), "null\n"),
        (json!(""), "\"\"\n"),
        (json!({}), "{}\n"),
        (json!(-0.5), "-0.5\n"),
        (json!("self.a == 'b' ? \"x\" : y"), "'self.a == ''b'' ? \"x\" : y'\n"),
    ] {
        check_v3(value, expected);
    }
}

#[test]
fn an_order_that_is_none_does_not_disturb_the_writer() {
    let keys = ["a0", "a00", "a1", "a01", "a", "b", "-", "9", "09", "90", "0a", "ü1", "_1"];
    let entries: Map<String, Value> = (0..500).map(|n| (format!("{}{}", keys[n % keys.len()], n), json!(n))).collect();
    assert_eq!(naturally_sorted(&entries).len(), entries.len());
}
