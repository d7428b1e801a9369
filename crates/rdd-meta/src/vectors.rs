//! What upstream's functions answered, as rows for our tests; `tests/README.md` says how they were made.

use std::sync::OnceLock;

use serde_json::Value;

/// One question and its answer.
#[derive(Debug)]
pub(crate) struct Row(&'static Value);

/// The rows of one table. A table that is missing or empty fails the test, so that none passes for lack of rows.
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

    /// The answer: `ok` or `error`.
    pub(crate) fn result(&self) -> Result<String, String> {
        self.0["error"].as_str().map_or_else(|| Ok(self.text("ok")), |error| Err(error.to_owned()))
    }
}
