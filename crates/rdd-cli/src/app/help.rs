//! The list of properties at the end of `rdd set --help`.

use super::{
    api::Api,
    names, schema,
    schema::{Field, Kind},
};
use crate::{context::Context, report::Outcome, service::ControlPlane};

/// Width when standard output is not a terminal.
const COLUMNS: usize = 80;
/// Descriptions get at least this many columns, however narrow the terminal is.
const ROOM_MIN: usize = 20;

/// The list of properties, with a heading. Starts the service to read them; empty if that fails, because help must not fail.
pub fn block(context: &Context<'_>) -> String {
    fetch_spec_schema(context).map(|root| render(&root, columns())).unwrap_or_default()
}

fn fetch_spec_schema(context: &Context<'_>) -> Outcome<Field> {
    let plane = ControlPlane::of(context)?;
    let definition = Api::ensure(&plane)?.get(names::APP_DEFINITION)?;
    Ok(schema::read(&definition)?)
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.map_or(0, |size| usize::from(size.ws_col)).max(if size.is_ok() { 1 } else { COLUMNS })
}

fn render(root: &Field, columns: usize) -> String {
    let mut rows = Vec::new();
    root.fields.iter().for_each(|field| collect(field, &mut rows));
    let width = |column: fn(&Row) -> &str| rows.iter().map(|row| column(row).chars().count()).max().unwrap_or(0);
    let (paths, kinds) = (width(|row| &row.path), width(|row| &row.kind));
    // Three separators of two spaces each.
    let indent = paths + kinds + 6;
    let room = columns.saturating_sub(indent).max(ROOM_MIN);
    let mut text = String::from("Available properties:\n");
    for row in &rows {
        let mut lines = wrap(&row.description, room).into_iter();
        let first = lines.next().unwrap_or_default();
        let line = format!("  {:paths$}  {:kinds$}  {first}", row.path, row.kind);
        text.push_str(&format!("{}\n", line.trim_end()));
        lines.for_each(|line| text.push_str(&format!("{:indent$}{line}\n", "")));
    }
    text
}

struct Row {
    path: String,
    kind: String,
    description: String,
}

fn collect(field: &Field, rows: &mut Vec<Row>) {
    let kind = match &field.kind {
        Kind::Boolean => "boolean".to_owned(),
        Kind::Integer => "integer".to_owned(),
        Kind::Text => "string".to_owned(),
        Kind::Choice(choices) => choices.join("|"),
        Kind::Quantity => "quantity".to_owned(),
        Kind::Object => "object".to_owned(),
        Kind::Other(kind) => kind.clone(),
    };
    let description = summary(&field.description);
    rows.push(Row { path: field.path.clone(), kind: format!("({kind})"), description });
    field.fields.iter().for_each(|field| collect(field, rows));
}

/// The first sentence, with a capital first letter. A sentence ends at a full stop and a blank that a capital letter follows.
fn summary(description: &str) -> String {
    let mut end = description.len();
    for (index, _) in description.match_indices(". ") {
        if description[index + 2..].chars().next().is_some_and(char::is_uppercase) {
            end = index + 1;
            break;
        }
    }
    let sentence = description[..end].split_whitespace().collect::<Vec<_>>().join(" ");
    // Go comments begin with the field's name, in lower case.
    let mut characters = sentence.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().chain(characters).collect(),
        None => sentence,
    }
}

/// Wraps text to lines of this width. A longer word gets a line of its own.
pub(super) fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::schema::tests::definition;

    #[test]
    fn properties_are_listed_in_columns_with_objects_before_their_fields() {
        let root = schema::read(&definition()).unwrap();
        let expected = "\
Available properties:
  containerEngine        (object)
  containerEngine.name   (moby|containerd)  Name of the engine, e.g. moby.
  free                   (object)
  kubernetes             (object)
  kubernetes.enabled     (boolean)
  kubernetes.version     (string)           Version or channel
  list                   (array)
  running                (boolean)          Running says whether the machine
                                            should run.
  virtualMachine         (object)
  virtualMachine.cpus    (integer)
  virtualMachine.memory  (quantity)
";
        assert_eq!(render(&root, 80), expected);
        assert!(!render(&root, 80).contains("namespace"));
        assert!(
            render(&root, 10).lines().count() > expected.lines().count(),
            "a narrow terminal wraps, and does not hang"
        );
    }

    #[test]
    fn a_description_is_cut_after_its_first_sentence() {
        for (description, expected) in [
            ("one. two. Three. Four.", "One. two."),
            ("one.\nTwo. Three", "One. Two."),
            ("e.g. this", "E.g. this"),
            ("ünder. Way", "Ünder."),
            ("", ""),
        ] {
            assert_eq!(summary(description), expected, "{description:?}");
        }
    }
}
