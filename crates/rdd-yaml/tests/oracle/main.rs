//! Reading against goyaml itself: written probes, and thousands of generated texts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod probes;
mod texts;

use rdd_testkit::{
    oracle::{ask, integral_numbers},
    random::SeededRandom,
};
use rdd_yaml::{Error, Read, read};
use serde_json::{Value, json};

const GENERATED: u64 = 12_000;

/// What we say of a text, if goyaml says otherwise.
fn difference(text: &str, answer: &Value) -> Option<String> {
    let ours = read(text);
    let loose = answer["loose"].as_array().unwrap();
    if !loose.iter().any(|theirs| agrees(&ours, theirs)) {
        return Some(format!("{text:?}\n  ours:   {ours:?}\n  theirs: {}", answer["loose"]));
    }
    let strict = answer["strict"][0]["error"].as_str().filter(|error| error.starts_with("yaml: unmarshal errors:"));
    match &ours {
        Ok(Read { duplicates, .. }) if duplicates.as_deref() != strict => {
            Some(format!("{text:?}\n  our duplicates: {duplicates:?}\n  theirs: {strict:?}"))
        }
        _ => None,
    }
}

fn agrees(ours: &Result<Read, Error>, theirs: &Value) -> bool {
    // Where Go itself fails there is nothing to agree with.
    if theirs.get("panic").is_some() {
        return true;
    }
    match ours {
        Ok(read) => theirs.get("json").is_some_and(|theirs| integral_numbers(theirs) == integral_numbers(&read.value)),
        Err(error) => theirs["error"].as_str().is_some_and(|theirs| general(theirs) == general(&error.to_string())),
    }
}

/// The words of an error without the Go syntax of what it is about.
fn general(error: &str) -> &str {
    ["yaml: invalid map key", "unsupported map key of type", "json: unsupported value"]
        .into_iter()
        .find(|prefix| error.starts_with(prefix))
        .unwrap_or(error)
}

#[track_caller]
fn compare(texts: &[String]) {
    let questions: Vec<Value> = texts.iter().map(|text| json!({"op": "yaml", "text": text})).collect();
    let Some(answers) = ask("oracle", &questions) else { return };
    let differences: Vec<String> =
        texts.iter().zip(&answers).filter_map(|(text, answer)| difference(text, answer)).collect();
    let shown = differences[..differences.len().min(40)].join("\n");
    assert!(differences.is_empty(), "{} of {} texts differ:\n{shown}", differences.len(), texts.len());
}

// Finding E-12: a quoted scalar that went on at the key's indentation was refused, a block scalar at the end of the text gained
// a line break, and `"\/"`, halves of surrogate pairs and NEL were read in ways of their own.
#[test]
fn written_probes_are_read_as_goyaml_reads_them() {
    let texts: Vec<String> = probes::PROBES.iter().map(|text| (*text).to_owned()).collect();
    compare(&texts);
}

// Finding E-12.
#[test]
fn generated_texts_are_read_as_goyaml_reads_them() {
    let texts: Vec<String> = (0..GENERATED)
        .map(|seed| {
            let mut random = SeededRandom::new(seed);
            match seed % 3 {
                0 => texts::soup(&mut random),
                1 => texts::document(&mut random),
                _ => texts::spoiled(&mut random),
            }
        })
        .collect();
    compare(&texts);
}

// Finding E-12: goyaml decodes its input in pieces, which decides whether a forbidden character is noticed.
#[test]
fn what_stands_near_the_end_of_a_piece_is_read_as_goyaml_reads_it() {
    let ends = ["", "\u{1}", "\u{feff}x: 1\n", "ü: \u{7f}", "---\nb: \u{0}", "'x\n", "b: |\n  \u{9f}"];
    let texts: Vec<String> = (500..520)
        .chain(1020..1030)
        .flat_map(|length| ends.iter().map(move |end| format!("a: {}\n{end}", "x".repeat(length))))
        .chain((500..520).map(|length| format!("a: {}\n---\n\u{1}", "ü".repeat(length / 2))))
        .chain((500..520).map(|length| format!("{{a: {}}} \u{2028}\u{feff}b", "x".repeat(length * 2))))
        .collect();
    compare(&texts);
}
