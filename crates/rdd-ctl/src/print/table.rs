//! Tables that the server rendered, with the columns that the user asked for.

use rdd_meta::{go_text, metadata::Metadata, terminal, time::Timestamp};
use serde_json::Value;

use super::tabs::Tabs;

/// The options of a table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Look {
    /// `-o wide`.
    pub(crate) wide: bool,
    /// `--no-headers`.
    pub(crate) no_headers: bool,
    /// `--show-labels`.
    pub(crate) show_labels: bool,
    /// `-L`.
    pub(crate) label_columns: Vec<String>,
    /// Whether to show a namespace column.
    pub(crate) with_namespace: bool,
    /// The prefix of each name, `kind.group`.
    pub(crate) kind: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    name: String,
    is_name: bool,
    is_wide: bool,
}

/// Prints tables; repeats the headers only when the columns change.
#[derive(Debug, Default)]
pub(crate) struct TablePrinter {
    look: Look,
    last_columns: Vec<Value>,
    printed_headers: bool,
    plain_headers: bool,
}

impl TablePrinter {
    /// A printer with these options.
    pub(crate) fn new(look: Look) -> Self {
        Self { look, ..Self::default() }
    }

    /// Prints a table, or an object that the server did not render as a table. `event` is the type of the watch event.
    pub(crate) fn print(&mut self, object: &Value, event: Option<&str>, now: Timestamp, tabs: &mut Tabs) {
        if object["kind"] == "Table" { self.table(object, event, tabs) } else { self.plain(object, event, now, tabs) }
    }

    fn table(&mut self, table: &Value, event: Option<&str>, tabs: &mut Tabs) {
        let told = table["columnDefinitions"].as_array().map_or(&[][..], Vec::as_slice);
        let rows = table["rows"].as_array().map_or(&[][..], Vec::as_slice);
        let no_headers =
            self.look.no_headers || (self.printed_headers && (told.is_empty() || told == self.last_columns));
        if !told.is_empty() && told != self.last_columns {
            self.last_columns = told.to_vec();
            self.printed_headers = false;
        }
        if rows.is_empty() {
            return;
        }
        self.printed_headers = true;
        let columns: Vec<Column> = self.last_columns.iter().map(column).collect();
        if !no_headers {
            tabs.push(&format!("{}\n", self.headers(&columns, event.is_some()).join("\t")));
        }
        for row in rows {
            tabs.push(&format!("{}\n", self.cells(&columns, row, event).join("\t")));
        }
    }

    fn headers(&self, columns: &[Column], with_event: bool) -> Vec<String> {
        let mut headers = Vec::new();
        if with_event {
            headers.push("EVENT".to_owned());
        }
        if self.look.with_namespace {
            headers.push("NAMESPACE".to_owned());
        }
        let shown = columns.iter().filter(|column| self.look.wide || !column.is_wide);
        headers.extend(shown.map(|column| column.name.to_uppercase()));
        headers.extend(self.label_headers());
        headers
    }

    fn label_headers(&self) -> Vec<String> {
        let of_label = |label: &String| label.rsplit('/').next().unwrap_or(label).to_uppercase();
        let mut headers: Vec<String> = self.look.label_columns.iter().map(of_label).collect();
        if self.look.show_labels {
            headers.push("LABELS".to_owned());
        }
        headers
    }

    fn cells(&self, columns: &[Column], row: &Value, event: Option<&str>) -> Vec<String> {
        let mut cells = Vec::new();
        cells.extend(event.map(padded));
        if self.look.with_namespace {
            cells.push(Metadata::of(&row["object"]).namespace().to_owned());
        }
        let told = row["cells"].as_array().map_or(&[][..], Vec::as_slice);
        let name_column = columns.iter().position(|column| column.is_name);
        for (index, (cell, column)) in told.iter().zip(columns).enumerate() {
            if column.is_wide && !self.look.wide {
                continue;
            }
            let text = cell_text(cell);
            cells.push(match &self.look.kind {
                Some(kind) if name_column == Some(index) => format!("{kind}/{text}"),
                _ => text,
            });
        }
        cells.extend(self.label_cells(&row["object"]));
        cells
    }

    fn label_cells(&self, object: &Value) -> Vec<String> {
        let metadata = Metadata::of(object);
        let value = |label: &String| metadata.label(label).unwrap_or_default().to_owned();
        let mut cells: Vec<String> = self.look.label_columns.iter().map(value).collect();
        if self.look.show_labels {
            cells.push(format_labels(object));
        }
        cells
    }

    /// Prints name and age of an object that is not a table.
    fn plain(&mut self, object: &Value, event: Option<&str>, now: Timestamp, tabs: &mut Tabs) {
        if !self.plain_headers && !self.look.no_headers {
            let mut headers: Vec<String> = Vec::new();
            headers.extend(event.map(|_| "EVENT".to_owned()));
            headers.extend(self.look.with_namespace.then(|| "NAMESPACE".to_owned()));
            headers.extend(["NAME".to_owned(), "AGE".to_owned()]);
            headers.extend(self.label_headers());
            tabs.push(&format!("{}\n", headers.join("\t")));
        }
        self.plain_headers = true;
        let single = std::slice::from_ref(object);
        for object in object["items"].as_array().map_or(single, Vec::as_slice) {
            let metadata = Metadata::of(object);
            let mut cells: Vec<String> = Vec::new();
            cells.extend(event.map(padded));
            cells.extend(self.look.with_namespace.then(|| metadata.namespace().to_owned()));
            let name = metadata.name();
            cells.push(self.look.kind.as_ref().map_or_else(|| name.to_owned(), |kind| format!("{kind}/{name}")));
            cells
                .push(metadata.creation_timestamp().map_or_else(|| "<unknown>".to_owned(), |created| created.age(now)));
            cells.extend(self.label_cells(object));
            tabs.push(&format!("{}\n", cells.join("\t")));
        }
    }
}

fn column(told: &Value) -> Column {
    Column {
        name: told["name"].as_str().unwrap_or_default().to_owned(),
        is_name: told["format"] == "name" && told["type"] == "string",
        is_wide: told["priority"].as_i64().unwrap_or(0) != 0,
    }
}

fn padded(event: &str) -> String {
    format!("{event:<8}")
}

/// The cell as one line, with control characters escaped.
fn cell_text(cell: &Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(text) => match text.find(['\u{c}', '\n', '\r']) {
            Some(end) => format!("{}...", terminal::escape(&text[..end])),
            None => terminal::escape(text),
        },
        other => terminal::escape(&go_text::plain(other)),
    }
}

/// Labels as `a=b,c=d`, or `<none>`.
pub(crate) fn format_labels(object: &Value) -> String {
    let labels: Vec<String> = Metadata::of(object).labels().map(|(key, value)| format!("{key}={value}")).collect();
    if labels.is_empty() { "<none>".to_owned() } else { labels.join(",") }
}
