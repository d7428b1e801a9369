//! Generates `docs/reference/conditions.md` from the table.

use std::fmt::Write as _;

use super::{ConditionSpec, ConditionType, all};

const PREAMBLE: &str = "\
# Conditions

Generated from `rdd_types::conditions`; do not edit. `UPDATE_REFERENCE=1 cargo test -p rdd-types reference` writes it.

Every condition carries the `observedGeneration` that it is about. `lastTransitionTime` changes with the status only. A message is cut at 32,768
characters and then ends in `… (truncated)`.

An App mirrors the conditions of its LimaVM, with the App's own generation; a condition removed there is removed here. `Settled` takes over
reason and message of the condition that it waits for. A change is complete when `Settled=True` has an `observedGeneration` that is not below the
generation that was written.
";

/// The text of the page.
pub fn conditions() -> String {
    let mut text = PREAMBLE.to_owned();
    let mut written: Vec<Section> = Vec::new();
    for spec in all() {
        let section = section(spec);
        if !written.contains(&section) {
            write_section(&mut text, section);
            written.push(section);
        }
    }
    text
}

/// The rows of one kind, type and controller have a heading of their own.
type Section = (&'static str, ConditionType, &'static str);

fn section(spec: &ConditionSpec) -> Section {
    (spec.kind, spec.condition, spec.controller)
}

fn write_section(text: &mut String, (kind, condition, controller): Section) {
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "\n## {kind} `{condition}` (by the `{controller}` controller)\n\n| Status | Reason | Message | Meaning |\n|---|---|---|---|\n"
    );
    for spec in all().filter(|spec| section(spec) == (kind, condition, controller)) {
        let reasons: Vec<String> = spec.reasons.iter().map(|reason| format!("`{reason}`")).collect();
        let (reasons, message, meaning) = (reasons.join(", "), format_message(spec.message), escape_cell(spec.meaning));
        let _ = writeln!(text, "| {} | {reasons} | {message} | {meaning} |", spec.status);
    }
}

/// A fixed message as code; in italics, the description of one that is made at run time (`<…>` in the table).
fn format_message(message: &str) -> String {
    match message.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
        Some(description) => format!("*{}*", escape_cell(description)),
        None => format!("`{}`", escape_cell(message)),
    }
}

/// Escapes text for a cell of a Markdown table.
fn escape_cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    // Finding 361-S1
    #[test]
    fn the_reference_page_matches_the_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/conditions.md");
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            std::fs::write(&path, conditions()).unwrap();
        }
        let present = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(present == conditions(), "{} does not match the table: see its first lines", path.display());
    }
}
