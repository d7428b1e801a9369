//! A JSON reader that notices duplicate keys, and the words upstream's strict decoder has for them.

use std::{cell::RefCell, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::golang;

/// Upstream stops counting after this many.
const FINDINGS_MAX: usize = 100;

/// Something a strict reader objects to; the document is readable all the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// A key that occurs twice in one object; the last one won.
    DuplicateField(String),
    /// A key that the schema does not know.
    UnknownField(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::DuplicateField(path) => write!(f, "duplicate field {}", golang::quote(path)),
            // Between quotes as it is: so upstream words what pruning found.
            Finding::UnknownField(path) => write!(f, "unknown field \"{path}\""),
        }
    }
}

/// The error of `fieldValidation=Strict`; empty findings give no error.
pub fn decoding_error(findings: &[Finding]) -> Option<String> {
    if findings.is_empty() {
        return None;
    }
    let texts: Vec<String> = findings.iter().map(Finding::to_string).collect();
    Some(format!("strict decoding error: {}", texts.join(", ")))
}

/// What was read, and what a strict reader would object to, in document order.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub value: Value,
    pub findings: Vec<Finding>,
}

/// Reads one JSON document.
///
/// Numbers are as upstream's: an integer that fits `i64` stays one, everything else is a float. Of duplicate keys the last
/// wins. Nesting is limited to 127 levels, as `serde_json` does (upstream: 10,000).
///
/// # Errors
/// When the text is not one JSON document.
pub fn read(text: &[u8]) -> Result<Document, serde_json::Error> {
    let state = RefCell::new(State { path: Vec::new(), findings: Vec::new() });
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Reader(&state).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(Document { value, findings: state.into_inner().findings })
}

enum Step {
    Key(String),
    Index(usize),
}

struct State {
    path: Vec<Step>,
    findings: Vec<Finding>,
}

impl State {
    fn duplicate(&mut self, key: &str) {
        if self.findings.len() >= FINDINGS_MAX {
            return;
        }
        let mut text = String::new();
        for (at, step) in self.path.iter().enumerate() {
            match step {
                Step::Key(name) => {
                    if at > 0 {
                        text.push('.');
                    }
                    text.push_str(name);
                }
                Step::Index(index) => text.push_str(&format!("[{index}]")),
            }
        }
        if !self.path.is_empty() {
            text.push('.');
        }
        text.push_str(key);
        let finding = Finding::DuplicateField(text);
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }
}

struct Reader<'s>(&'s RefCell<State>);

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        match i64::try_from(value) {
            Ok(integer) => Ok(integer.into()),
            Err(_) => self.visit_f64(value as f64),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            self.0.borrow_mut().path.push(Step::Index(items.len()));
            let item = access.next_element_seed(Reader(self.0));
            self.0.borrow_mut().path.pop();
            match item? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut entries = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if entries.contains_key(&key) {
                self.0.borrow_mut().duplicate(&key);
            }
            self.0.borrow_mut().path.push(Step::Key(key));
            let entry = access.next_value_seed(Reader(self.0));
            let Some(Step::Key(key)) = self.0.borrow_mut().path.pop() else {
                return Err(A::Error::custom("unbalanced path"));
            };
            entries.insert(key, entry?);
        }
        Ok(Value::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_reported_once_with_their_path_and_the_last_value_wins() {
        let text = br#"{"a":1,"b":[{"c":1,"c":2},0],"a":3,"a":4,"d":{"e":{},"e":null}}"#;
        let document = read(text).unwrap();
        assert_eq!(document.value["a"], 4);
        assert_eq!(
            decoding_error(&document.findings).unwrap(),
            r#"strict decoding error: duplicate field "b[0].c", duplicate field "a", duplicate field "d.e""#
        );
    }

    #[test]
    fn integers_beyond_i64_become_floats() {
        let document = read(b"[9223372036854775807, 9223372036854775808]").unwrap();
        assert!(document.value[0].is_i64() && document.value[1].is_f64());
    }

    #[test]
    fn deep_nesting_is_refused_and_not_a_stack_overflow() {
        assert!(read("[".repeat(100_000).as_bytes()).is_err());
    }
}
