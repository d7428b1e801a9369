//! Compares regular expressions with Go's engine: matches, and errors of invalid patterns.

use crate::generate::Random;
use crate::ours::Ground;
use rdd_testkit::oracle::GoOracle;
use serde_json::{Value as Json, json};

const CASES: u64 = 5_000;
const PARTS: [&str; 62] = [
    "a",
    "b",
    "x",
    "é",
    "1",
    "_",
    "-",
    " ",
    ".",
    "^",
    "$",
    "*",
    "+",
    "?",
    "|",
    "(",
    ")",
    "(?:",
    "(?i)",
    "(?P<n>",
    "(?<m>",
    "(?=",
    "(?s:",
    "[",
    "]",
    "[a-z]",
    "[^0-9]",
    "[[:alpha:]]",
    "[\\d_]",
    "[\\w-]",
    "[]a]",
    "[a-]",
    "[z-a]",
    "[&&]",
    "[[]",
    "\\d",
    "\\D",
    "\\w",
    "\\W",
    "\\s",
    "\\S",
    "\\b",
    "\\.",
    "\\-",
    "\\Q.\\E",
    "\\x41",
    "\\x{e9}",
    "\\pL",
    "\\p{Greek}",
    "\\y",
    "\\1",
    "{2}",
    "{1,3}",
    "{,2}",
    "{2,1}",
    "{1001}",
    "{",
    "}",
    "*?",
    "\\n",
    "\\\\",
    "\\z",
];
const INPUTS: [&str; 14] = ["", "a", "ab", "aab", "xéy", "1a2b", "A B", "a.b", "日本", "٣", "_-_", "{,2}", "\n", "ΩE"];

#[test]
fn patterns_match_the_same_text() {
    let Some(oracle) = GoOracle::build("oracle-cel") else { return };
    let ground =
        Ground::new(json!({"type": "object", "properties": {"p": {"type": "string"}, "s": {"type": "string"}}}));
    let cases: Vec<Json> = (0..CASES)
        .map(|index| {
            let mut random = Random::new(5_000_000 + index);
            let pattern: String = (0..1 + random.below(5)).map(|_| PARTS[random.below(PARTS.len())]).collect();
            // Known difference: Go applies a repetition after a flag to the part before the flag.
            let pattern =
                ["(?i)*", "(?i)+", "(?i)?", "(?i){"].iter().fold(pattern, |text, odd| text.replace(odd, "(?i)"));
            json!({"p": pattern, "s": INPUTS[random.below(INPUTS.len())]})
        })
        .collect();
    let expression = "self.s.findAll(self.p)";
    let requests: Vec<Json> = cases
        .iter()
        .map(|own| json!({"op": "eval", "expr": expression, "schema": ground.schema, "self": own}))
        .collect();
    let answers = oracle.ask(&requests);
    let (mut wrong, mut other_words, mut refused) = (0, 0, 0);
    for (own, theirs) in cases.iter().zip(&answers) {
        let ours = ground.answer(expression, own, None, 1_000_000);
        refused += usize::from(theirs.get("error").is_some());
        if ours.get("value") != theirs.get("value") {
            wrong += 1;
            println!("PATTERN {own}\n  ours   {ours}\n  theirs {theirs}");
        } else if ours != *theirs {
            other_words += 1;
            if other_words < 30 {
                println!("WORDS {own}\n  ours   {ours}\n  theirs {theirs}");
            }
        }
    }
    println!(
        "patterns: {CASES} compared, {refused} refused; {wrong} match differently, {other_words} are refused in other words"
    );
    assert_eq!((wrong, other_words), (0, 0));
}
