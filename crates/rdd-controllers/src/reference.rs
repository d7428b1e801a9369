//! Generates the reference page of conditions from the tables that the controllers use at run time.

use std::{collections::BTreeSet, fmt::Write as _};

use rdd_types::reasons::{ConditionType, Reason, Row, TABLE};

use crate::{app, engine, kubernetes, limavm, saying::Saying};

const PREAMBLE: &str = "\
# Conditions

Generated from `rdd_types::reasons::TABLE` and the condition tables of the controllers; do not edit. `UPDATE_REFERENCE=1 cargo test -p rdd-controllers reference` writes it.

Every condition carries the `observedGeneration` that it is about. `lastTransitionTime` changes with the status only. A message is cut at 32,768
characters and then ends in `… (truncated)`.

An App mirrors the conditions of its LimaVM, with the App's own generation; a condition removed there is removed here. `Settled` takes over
reason and message of the condition that it waits for. A change is complete when `Settled=True` has an `observedGeneration` that is not below the
generation that was written.
";

/// The text of `docs/reference/conditions.md`.
pub fn conditions() -> String {
    let mut text = PREAMBLE.to_owned();
    let mut written = BTreeSet::new();
    for row in TABLE {
        let section = (row.kind, row.condition, row.writer);
        if written.insert(section) {
            write_section(&mut text, section);
        }
    }
    text
}

fn write_section(text: &mut String, (kind, condition, writer): (&str, ConditionType, &str)) {
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "\n## {kind} `{condition}` (by the `{writer}` controller)\n\n| Status | Reason | Message | Meaning |\n|---|---|---|---|\n"
    );
    let rows = TABLE.iter().filter(|row| (row.kind, row.condition, row.writer) == (kind, condition, writer));
    for row in rows {
        for (message, meaning) in told(row) {
            let _ = writeln!(text, "| {} | `{}` | {message} | {} |", row.status, row.reason, cell(&meaning));
        }
    }
}

/// The conditions that this controller can set; empty for controllers that do not use such a table.
fn sayings(writer: &str) -> &'static [&'static Saying] {
    match writer {
        "limavm" => &limavm::conditions::ALL,
        "app" => &app::conditions::ALL,
        "engine" => &engine::conditions::ALL,
        "kubernetes" => &kubernetes::conditions::ALL,
        _ => &[],
    }
}

fn of_row(row: &Row) -> Vec<&'static Saying> {
    let is_same_row = |saying: &&&Saying| {
        (saying.condition, saying.status, saying.reason)
            == (row.condition.as_str(), row.status.as_str(), row.reason.as_str())
    };
    sayings(row.writer).iter().filter(is_same_row).copied().collect()
}

/// Message and meaning of a row, one pair for each message that the controller can set with this reason.
fn told(row: &Row) -> Vec<(String, String)> {
    let found = of_row(row);
    if !found.is_empty() {
        return found.iter().map(|saying| (shown(saying.message), saying.when.to_owned())).collect();
    }
    let is_forwarded = row.condition == ConditionType::Settled && row.writer == "app";
    vec![(if is_forwarded { forwarded(row) } else { String::new() }, sentence(row.meaning))]
}

/// A fixed message as code; in italics, the description of one that is made at run time (`<…>` in the table).
fn shown(message: &str) -> String {
    match message.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
        Some(description) => format!("*{}*", cell(description)),
        None => format!("`{}`", cell(message)),
    }
}

/// The message of `Settled` when it takes over the reason of another condition.
fn forwarded(row: &Row) -> String {
    match row.reason {
        Reason::Started => "`LimaVM has not yet reached Stopped`".to_owned(),
        Reason::Reconciling | Reason::Starting | Reason::Stopped => "`LimaVM has not yet reached Started`".to_owned(),
        _ => "*that of the condition it waits for*".to_owned(),
    }
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// Escapes text for a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rdd_types::reasons::Status;

    use super::*;

    // Finding 361-S1
    #[test]
    fn the_reference_is_what_the_code_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/conditions.md");
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            std::fs::write(&path, conditions()).unwrap();
        }
        let present = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(present == conditions(), "{} is not what the tables say: see its first lines", path.display());
    }

    // Finding 361-S1
    #[test]
    fn whatever_a_controller_can_say_is_in_the_table_and_the_other_way_round() {
        for (writer, all) in ["limavm", "app", "engine", "kubernetes"].map(|writer| (writer, sayings(writer))) {
            for saying in all.iter().filter(|saying| !saying.reason.starts_with('<')) {
                let known = TABLE.iter().any(|row| row.writer == writer && of_row(row).contains(saying));
                assert!(known, "{writer} says what the table does not know: {saying:?}");
            }
        }
        for row in TABLE.iter().filter(|row| matches!(row.writer, "limavm" | "engine" | "kubernetes")) {
            assert!(!of_row(row).is_empty(), "nobody says {row:?}");
        }
        for row in TABLE.iter().filter(|row| row.writer == "app" && row.status == Status::False) {
            let is_forwarded = TABLE.iter().any(|other| other.writer != "app" && other.reason == row.reason);
            assert!(is_forwarded || !of_row(row).is_empty(), "nobody says {row:?}");
        }
    }
}
