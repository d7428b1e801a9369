//! `-o custom-columns`: a header and a JSONPath for each column.

use serde_json::Value;

use super::tabs::Tabs;
use crate::{
    error::{Error, Result},
    jsonpath::{Template, relaxed},
};

/// The columns that the user chose.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    headers: Vec<String>,
    paths: Vec<Template>,
    no_headers: bool,
    printed_headers: bool,
}

impl Columns {
    /// Parses `HEADER:path,HEADER:path`.
    pub(crate) fn of_spec(spec: &str, no_headers: bool) -> Result<Self> {
        let mut pairs = Vec::new();
        for part in spec.split(',') {
            let Some((header, path)) = part.split_once(':') else {
                return Err(Error::text(format!(
                    "unexpected custom-columns spec: {part}, expected <header>:<json-path-expr>"
                )));
            };
            pairs.push((header.to_owned(), path));
        }
        Self::of_pairs(pairs, no_headers)
    }

    /// Parses a file with a line of headers and a line of paths.
    pub(crate) fn of_file(text: &str) -> Result<Self> {
        const SHAPE: &str =
            "Expected format is one line of space separated headers, one line of space separated column specs.";
        let mut lines = text.lines();
        let missing = |what| Error::text(format!("invalid template, missing {what} line. {SHAPE}"));
        let headers: Vec<&str> = lines.next().ok_or_else(|| missing("header"))?.split_whitespace().collect();
        let paths: Vec<&str> = lines.next().ok_or_else(|| missing("spec"))?.split_whitespace().collect();
        if headers.len() != paths.len() {
            return Err(Error::text(format!(
                "number of headers ({}) and field specifications ({}) don't match",
                headers.len(),
                paths.len()
            )));
        }
        Self::of_pairs(headers.into_iter().map(str::to_owned).zip(paths).collect(), false)
    }

    fn of_pairs(pairs: Vec<(String, &str)>, no_headers: bool) -> Result<Self> {
        let mut columns = Self { headers: Vec::new(), paths: Vec::new(), no_headers, printed_headers: false };
        for (header, path) in pairs {
            let template = relaxed(path).map_err(|error| Error::text(error.to_string()))?;
            columns.headers.push(header);
            let parsed = Template::parse(&template).map_err(|error| Error::text(error.to_string()))?;
            columns.paths.push(parsed.allow_missing_keys(true));
        }
        Ok(columns)
    }

    /// Adds a line for an object, or for each item of a list.
    pub(crate) fn print(&mut self, object: &Value, tabs: &mut Tabs) -> Result<()> {
        if !self.no_headers && !self.printed_headers {
            tabs.push(&format!("{}\n", self.headers.join("\t")));
            self.printed_headers = true;
        }
        let single = std::slice::from_ref(object);
        for object in object["items"].as_array().map_or(single, Vec::as_slice) {
            let cells: Vec<String> = self.paths.iter().map(|path| cell(path, object)).collect::<Result<_>>()?;
            tabs.push(&format!("{}\n", cells.join("\t")));
        }
        Ok(())
    }
}

fn cell(path: &Template, object: &Value) -> Result<String> {
    let found = path.find(object).map_err(|error| Error::text(error.to_string()))?;
    if found.first().is_none_or(Vec::is_empty) {
        return Ok("<none>".to_owned());
    }
    let texts: Vec<String> =
        found.iter().flatten().map(|value| rdd_meta::terminal::escape(&rdd_meta::go_text::plain(value))).collect();
    Ok(texts.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // Finding A-8
    #[test]
    fn what_a_terminal_would_obey_is_spelled_out_in_custom_columns() {
        let mut columns = Columns::of_spec("NAME:.metadata.name", false).unwrap();
        let mut tabs = Tabs::for_tables();
        columns.print(&json!({"metadata": {"name": "a\u{1b}[2Jb"}}), &mut tabs).unwrap();
        let mut columns = Columns::of_spec("VALUES:.values[*]", true).unwrap();
        columns.print(&json!({"values": ["\u{202e}cod.exe", "bell\u{7}", "\u{9b}31m"]}), &mut tabs).unwrap();
        let text = tabs.flush();
        assert!(text.contains("a^[[2Jb") && text.contains("\\u202ecod.exe,bell^G,\\u009b31m"), "{text}");
        assert!(!text.chars().any(rdd_meta::terminal::is_hostile), "{text:?}");
    }
}
