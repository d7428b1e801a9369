//! Test vectors: recorded results of upstream's functions. `tests/README.md` explains how they were recorded.

use std::sync::OnceLock;

use serde_json::Value;

/// One recorded call: its arguments and its result.
#[derive(Debug)]
pub(crate) struct Row(&'static Value);

/// The rows of a table. Panics if the table is missing or empty, so that a test without rows cannot pass.
pub(crate) fn rows(table: &str) -> Vec<Row> {
    static ALL: OnceLock<Value> = OnceLock::new();
    let all = ALL.get_or_init(|| serde_json::from_str(include_str!("../tests/vectors.json")).unwrap());
    let rows: Vec<Row> = all[table].as_array().unwrap().iter().map(Row).collect();
    assert!(!rows.is_empty(), "{table}");
    rows
}

impl Row {
    pub(crate) fn value(&self, key: &str) -> &'static Value {
        &self.0[key]
    }

    pub(crate) fn text(&self, key: &str) -> String {
        self.0[key].as_str().unwrap_or_else(|| panic!("{key} in {:?}", self.0)).to_owned()
    }

    pub(crate) fn texts(&self, key: &str) -> Vec<String> {
        let texts = self.0[key].as_array().map(Vec::as_slice).unwrap_or_default();
        texts.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    }

    /// The recorded result: `ok` or `error`.
    pub(crate) fn result(&self) -> Result<String, String> {
        self.0["error"].as_str().map_or_else(|| Ok(self.text("ok")), |error| Err(error.to_owned()))
    }
}
