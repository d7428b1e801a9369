//! Random kubeconfigs in random styles: publishing and withdrawing leaves every byte as it was.

use proptest::prelude::*;
use rdd_kubeconfig::{Change, List, Others, edit};
use serde_json::Value;

const NAME: &str = "rancher-desktop-2";

/// A random style of YAML.
#[derive(Debug, Clone)]
struct Style {
    ends: &'static str,
    indent: usize,
    root: usize,
    mark: bool,
    start: bool,
    last_end: bool,
    comment: bool,
    flow_items: bool,
}

fn style() -> impl Strategy<Value = Style> {
    (prop_oneof![Just("\n"), Just("\r\n")], 0..5_usize, 0..3_usize, any::<[bool; 5]>()).prop_map(
        |(ends, indent, root, [mark, start, last_end, comment, flow_items])| Style {
            ends,
            indent,
            root,
            mark,
            start,
            last_end,
            comment,
            flow_items,
        },
    )
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-z0-9-]{0,8}",
        Just("'it''s'".to_owned()),
        Just("\"a\\u00e9\\n\"".to_owned()),
        Just("é".to_owned())
    ]
}

/// The items of one list: a word for each, and a style.
fn items() -> impl Strategy<Value = Vec<(String, u8)>> {
    proptest::collection::vec((word(), 0..7_u8), 0..4)
}

fn list(key: &str, inner: &str, items: &[(String, u8)], style: &Style, out: &mut Vec<String>) {
    let comment = if style.comment { " # mine: [" } else { "" };
    if items.is_empty() {
        out.push(format!("{key}: []{comment}"));
        return;
    }
    if style.flow_items && items.iter().all(|(word, _)| !word.contains('\n')) {
        let all: Vec<String> =
            items.iter().map(|(word, _)| format!("{{name: {word}, {inner}: {{a: {word}}}}}")).collect();
        out.push(format!("{key}: [{}]{comment}", all.join(", ")));
        return;
    }
    out.push(format!("{key}:{comment}"));
    let pad = " ".repeat(style.indent);
    for (at, (word, shape)) in items.iter().enumerate() {
        let lines: Vec<String> = match shape {
            0 => vec![format!("- name: {word}"), format!("  {inner}: {{a: 1}} # x")],
            1 => vec![format!("- {inner}:"), format!("      a: {word}"), format!("  name: {word}{comment}")],
            2 => vec![format!("-   name: {word}"), format!("    {inner}: |"), "        text".to_owned(), String::new()],
            3 => vec![format!("- {{name: {word}, {inner}: {{}}}}")],
            4 => vec!["-".to_owned()],
            5 => vec![
                format!("- &{inner}{at} name: {word}"),
                format!("  {inner}: >-"),
                "     folded".to_owned(),
                "     text".to_owned(),
            ],
            _ => vec!["# before".to_owned(), "- # behind".to_owned(), format!("  name: {word}"), String::new()],
        };
        out.extend(lines.into_iter().map(|line| if line.is_empty() { line } else { format!("{pad}{line}") }));
    }
}

fn document() -> impl Strategy<Value = String> {
    (style(), items(), items(), items(), any::<u8>()).prop_map(|(style, clusters, users, contexts, extras)| {
        let mut lines = Vec::new();
        let mut parts: Vec<Vec<String>> = Vec::new();
        for (key, inner, items) in
            [("clusters", "cluster", &clusters), ("users", "user", &users), ("contexts", "context", &contexts)]
        {
            let mut part = Vec::new();
            list(key, inner, items, &style, &mut part);
            parts.push(part);
        }
        parts.push(vec!["apiVersion: v1".to_owned()]);
        if extras & 1 == 1 {
            parts.push(vec!["current-context: \"work\"   # now".to_owned()]);
        }
        if extras & 2 == 2 {
            parts.push(vec!["preferences: {}".to_owned(), "# end of preferences".to_owned()]);
        }
        if extras & 4 == 4 {
            parts.push(vec!["note: |+".to_owned(), "  kept".to_owned(), String::new(), String::new()]);
        }
        let turns = usize::from(extras) % parts.len();
        parts.rotate_left(turns);
        let pad = " ".repeat(style.root);
        if style.start {
            lines.push("--- # begin".to_owned());
        }
        for line in parts.concat() {
            lines.push(if line.is_empty() { line } else { format!("{pad}{line}") });
        }
        let mut text = lines.join(style.ends);
        if style.last_end {
            text.push_str(style.ends);
        }
        if style.mark { format!("\u{feff}{text}") } else { text }
    })
}

fn put(list: List) -> Change {
    let fields = vec![("one", "https://127.0.0.1:7443".to_owned()), ("two", "=:'\"".to_owned())];
    Change::Put { list, name: NAME.to_owned(), fields, others: Others::KeepOnly(&[]) }
}

fn value(text: &str) -> Value {
    rdd_yaml::read(text.trim_start_matches('\u{feff}')).unwrap().value
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_put_in_and_taken_out_again_leaves_every_byte(text in document(), which in 0..3_usize) {
        prop_assume!(rdd_yaml::read(text.trim_start_matches('\u{feff}')).is_ok());
        let list = List::ALL[which];
        let with = edit(&text, &put(list)).map_err(|refused| TestCaseError::fail(format!("{refused}\n{text}")))?;
        let ours = value(&with)[list.key()].as_array().unwrap().last().unwrap().clone();
        prop_assert_eq!(&ours["name"], NAME);
        prop_assert_eq!(&ours[list.inner()]["two"], "=:'\"");
        let without = edit(&with, &Change::Remove { list, name: NAME.to_owned() }).unwrap();
        prop_assert_eq!(without, text);
    }

    #[test]
    fn a_switch_changes_one_line(text in document()) {
        prop_assume!(rdd_yaml::read(text.trim_start_matches('\u{feff}')).is_ok());
        let with = edit(&text, &Change::SetCurrent(NAME.to_owned())).unwrap();
        let lines = |text: &str| text.lines().filter(|line| !line.contains("current-context")).map(str::to_owned).collect::<Vec<_>>();
        prop_assert_eq!(lines(&with), lines(&text));
    }

    #[test]
    fn no_text_is_too_strange(text in "[ -~\n\r\t\u{feff}é]{0,60}", which in 0..3_usize) {
        let list = List::ALL[which];
        for change in [put(list), Change::Remove { list, name: NAME.to_owned() }, Change::SetCurrent(NAME.to_owned())] {
            if let Ok(after) = edit(&text, &change) {
                prop_assert_eq!(edit(&after, &change), Ok(after.clone()));
            }
        }
    }

    #[test]
    fn half_a_kubeconfig_is_changed_rightly_or_not_at_all(text in document(), cut in 0..400_usize, which in 0..3_usize) {
        let end = text.char_indices().map(|(at, _)| at).take(cut).last().unwrap_or(0);
        let list = List::ALL[which];
        if let Ok(with) = edit(&text[..end], &put(list)) {
            let without = edit(&with, &Change::Remove { list, name: NAME.to_owned() }).unwrap();
            let entries = |text: &str| value(text)[list.key()].as_array().cloned().unwrap_or_default();
            prop_assert_eq!(entries(&without), entries(&text[..end]));
        }
    }
}
