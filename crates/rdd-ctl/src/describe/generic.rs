//! The description of any other kind: every field with a label derived from its name.

use rdd_meta::go_text::plain;
use serde_json::{Map, Value};

use super::{Page, events};
use crate::context::Ctl;

/// Fields that the head of the page shows already, or that are of no interest.
const SKIPPED: [&str; 5] =
    [".metadata.managedFields", ".metadata.name", ".metadata.namespace", ".metadata.labels", ".metadata.annotations"];

pub(super) fn any(ctl: &Ctl<'_>, object: &Value, page: &mut Page) {
    page.head(object, true);
    if let Some(fields) = object.as_object() {
        content(fields, 0, "", page);
    }
    if ctl.flags.is_on("show-events")
        && let Ok(found) = events::find(ctl, object)
    {
        events::write(ctl, &found, page);
    }
}

/// Writes the fields recursively. The recursion is bounded, because the JSON parser bounds nesting.
fn content(fields: &Map<String, Value>, level: usize, prefix: &str, page: &mut Page) {
    for (name, value) in fields {
        let path = format!("{prefix}.{name}");
        if SKIPPED.contains(&path.as_str()) {
            continue;
        }
        let label = label(name);
        match value {
            Value::Object(inner) => {
                page.write(level, &format!("{label}:\n"));
                content(inner, level + 1, &path, page);
            }
            Value::Array(items) => {
                page.write(level, &format!("{label}:\n"));
                for item in items {
                    match item {
                        Value::Object(inner) => content(inner, level + 1, &path, page),
                        other => page.write(level + 1, &format!("{}\n", plain(other))),
                    }
                }
            }
            other => page.write(level, &format!("{label}:\t{}\n", plain(other))),
        }
    }
}

/// The label of a field: `apiVersion` becomes `API Version`.
fn label(name: &str) -> String {
    if name.chars().any(|letter| !letter.is_alphabetic() && letter != '-') {
        return name.to_owned();
    }
    let words: Vec<String> = camel_case(name).into_iter().map(|word| title(&word)).collect();
    words.join(" ")
}

fn title(word: &str) -> String {
    let upper = word.to_uppercase();
    if ["API", "URL", "UID", "OSB", "GUID"].contains(&upper.as_str()) {
        return upper;
    }
    let mut letters = word.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters.flat_map(char::to_lowercase)).collect())
        .unwrap_or_default()
}

/// Splits at changes between lower case, upper case and other characters; the last of several capitals belongs to the next word.
fn camel_case(name: &str) -> Vec<String> {
    let class = |letter: char| match letter {
        letter if letter.is_lowercase() => 1,
        letter if letter.is_uppercase() => 2,
        _ => 4,
    };
    let mut runs: Vec<(i32, Vec<char>)> = Vec::new();
    for letter in name.chars() {
        match runs.last_mut() {
            Some((last, run)) if *last == class(letter) => run.push(letter),
            _ => runs.push((class(letter), vec![letter])),
        }
    }
    for index in 1..runs.len() {
        if runs[index - 1].0 == 2 && runs[index].0 == 1 {
            let moved = runs[index - 1].1.pop();
            runs[index].1.splice(0..0, moved);
        }
    }
    runs.into_iter().filter(|(_, run)| !run.is_empty()).map(|(_, run)| run.into_iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_words() {
        for (name, expected) in [
            ("apiVersion", "API Version"),
            ("uid", "UID"),
            ("resourceVersion", "Resource Version"),
            ("podCIDRs", "Pod Cid Rs"),
            ("a.b", "a.b"),
            ("x1", "x1"),
            ("some-name", "Some - Name"),
            ("URL", "URL"),
        ] {
            assert_eq!(label(name), expected, "{name}");
        }
    }
}
