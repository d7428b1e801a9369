//! Printer columns, selectable fields and scale paths: kubectl's JSONPath, and the cells of a table.

mod eval;
mod parse;

use std::borrow::Cow;

use rdd_meta::{go_json, go_text, time::Timestamp};
use serde_json::Value;

use crate::{format, validate::number::float_to_int};
use parse::Node;

/// The text is not a JSONPath; the message is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonPathError(String);

/// The path does not apply to a value: an index is out of bounds, or a filter or slice meets a value that is not a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FindError(String);

/// A parsed JSONPath: fields, `['key']`, `[*]`, indexes, slices, unions, `..`, and filters such as `[?(@.type=="Ready")]`.
#[derive(Clone, Debug)]
pub struct JsonPath {
    nodes: Vec<Node>,
}

impl JsonPath {
    /// Parses the path of a printer column, which has no braces around it.
    ///
    /// # Errors
    /// When upstream's parser fails. `range` and `end` parse, but such a path finds nothing.
    pub fn parse(path: &str) -> Result<JsonPath, JsonPathError> {
        Ok(JsonPath { nodes: parse::template_action(path).map_err(JsonPathError)? })
    }

    /// Returns all values at the path. A missing field is not an error.
    ///
    /// # Errors
    /// See [`FindError`].
    pub fn find<'v>(&self, value: &'v Value) -> Result<Vec<Cow<'v, Value>>, FindError> {
        let found = eval::list(&self.nodes, vec![Cow::Borrowed(value)]).map_err(|failed| FindError(failed.message))?;
        // A `range` repeats the template after it for each value; the path of a column has no such template.
        let loops = self.nodes.iter().any(|node| matches!(node, Node::Identifier(_)));
        Ok(if loops { Vec::new() } else { found })
    }

    /// Renders the cell of a column of type `kind` for `object`, null if there is no value. `now` is in seconds since the
    /// epoch, for ages.
    pub fn cell(&self, kind: &str, object: &Value, now: i64) -> Value {
        match self.find(object).ok().and_then(|found| found.into_iter().next()) {
            None => Value::Null,
            // A column of type string shows any value; other types need a value of their type.
            Some(value) if kind == "string" => printed(&value).into(),
            Some(value) => cell_of(kind, &value, now),
        }
    }
}

/// Renders a value as text: strings without quotes, numbers as Go prints them, the rest as JSON.
pub fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Array(_) | Value::Object(_) => go_json::to_string(value),
        scalar => go_text::plain(scalar),
    }
}

/// Converts a value to the type of its column; null if it does not fit.
fn cell_of(kind: &str, value: &Value, now: i64) -> Value {
    match (kind, value) {
        ("integer", Value::Number(number)) => match number.as_i64() {
            Some(integer) => integer.into(),
            None => float_to_int(number.as_f64().unwrap_or(0.0)).into(),
        },
        ("number", Value::Number(number)) => number.as_f64().into(),
        ("boolean", Value::Bool(flag)) => (*flag).into(),
        ("date", Value::String(text)) => age_of(text, now).into(),
        _ => Value::Null,
    }
}

/// Renders the age of a timestamp.
fn age_of(text: &str, now: i64) -> String {
    if text.is_empty() || text == "null" {
        return "<unknown>".to_owned();
    }
    match format::parse_rfc3339(text) {
        Err(_) => "<invalid>".to_owned(),
        // Go's zero time means that there is no time.
        Ok(instant) if instant.is_zero() => "<unknown>".to_owned(),
        Ok(instant) => Timestamp::new(instant.seconds, 0).age(Timestamp::new(now, 0)),
    }
}

/// Returns the value of a selectable field or a scale path, which consist of plain fields joined by dots.
pub fn simple<'v>(path: &str, object: &'v Value) -> Option<&'v Value> {
    let path = path.strip_prefix('.').unwrap_or(path);
    path.split('.').try_fold(object, |value, name| value.as_object()?.get(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn find(path: &str, value: &Value) -> Vec<Value> {
        JsonPath::parse(path).unwrap().find(value).unwrap().into_iter().map(Cow::into_owned).collect()
    }

    #[test]
    fn the_paths_that_columns_use_find_what_they_name() {
        let value = json!({"spec": {"a.b": 1, "list": [1, 2, 3]}, "status": {"conditions": [
            {"type": "Ready", "status": "True"}, {"type": "Other", "status": "False", "n": 3}]}});
        assert_eq!(find(r#".status.conditions[?(@.type=="Ready")].status"#, &value), [json!("True")]);
        assert_eq!(find(".status.conditions[?(@.n>2)].type", &value), [json!("Other")]);
        assert_eq!(find(".status.conditions[*].type", &value), [json!("Ready"), json!("Other")]);
        assert_eq!(find(r".spec.a\.b", &value), [json!(1)]);
        assert_eq!(find(".spec.list[-1]", &value), [json!(3)]);
        assert_eq!(find(".spec.list[0:3:2]", &value), [json!(1), json!(3)]);
        assert_eq!(find(".spec.list[0,2]", &value), [json!(1), json!(3)]);
        assert_eq!(find("..status", &value).len(), 3);
        assert!(find(".none.at.all", &value).is_empty());
    }

    #[test]
    fn bad_paths_are_refused_in_upstreams_words() {
        for (path, text) in [
            (".a[x]", "invalid array index x"),
            (".a[", "unterminated array"),
            ("#", "unrecognized character in action: U+0023 '#'"),
            (".a[?(@.b", "unterminated filter"),
            ("'x", "unterminated quoted string"),
        ] {
            assert_eq!(JsonPath::parse(path).unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn cells_have_the_type_of_their_column() {
        let object = json!({"i": 3.9, "s": {"b": 1}, "d": "2024-01-01T00:00:00Z", "t": true});
        let cell = |path: &str, kind: &str| JsonPath::parse(path).unwrap().cell(kind, &object, 1_704_067_200 + 3700);
        assert_eq!(cell(".i", "integer"), 3);
        assert_eq!(cell(".s", "string"), "{\"b\":1}");
        assert_eq!(cell(".d", "date"), "61m");
        assert_eq!(cell(".t", "integer"), Value::Null);
    }
}
