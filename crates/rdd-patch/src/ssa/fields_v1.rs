//! FieldsV1: the JSON encoding of field sets, byte for byte as upstream writes it.

use super::{
    element::PathElement,
    set::{Entry, Set},
};
use crate::{
    go::{self, Escape},
    limits::DEPTH_MAX,
};
use serde_json::{Map, Number, Value};

/// Why a document is not a FieldsV1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldsError {
    #[error("read field set: expected an object, found {found}")]
    NotAnObject { found: &'static str },
    #[error("read field set: path element {key:?} is malformed")]
    BadElement { key: String },
    #[error("read field set: nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
}

impl Set {
    /// The set as FieldsV1 text in upstream's order: fields, keys, values, indices.
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        write_entries(&mut text, self.entries(), false);
        text
    }

    /// The set as a FieldsV1 document. A JSON map sorts its keys; use [`to_json`](Self::to_json) where upstream's order
    /// matters.
    pub fn to_value(&self) -> Value {
        Value::Object(self.entries().iter().map(|entry| (encode_element(&entry.element), entry_value(entry))).collect())
    }

    /// Parses a FieldsV1 document. Like upstream, it ignores elements of unknown kinds.
    pub fn from_value(document: &Value) -> Result<Self, FieldsError> {
        Ok(read_set(document, 0)?.0)
    }
}

fn entry_value(entry: &Entry) -> Value {
    let mut fields = Map::new();
    if entry.member && !entry.children.is_empty() {
        fields.insert(".".to_owned(), Value::Object(Map::new()));
    }
    for child in entry.children.entries() {
        fields.insert(encode_element(&child.element), entry_value(child));
    }
    Value::Object(fields)
}

fn write_entries(text: &mut String, entries: &[Entry], member: bool) {
    text.push('{');
    let mut separator = "";
    if member && !entries.is_empty() {
        text.push_str("\".\":{}");
        separator = ",";
    }
    for entry in entries {
        text.push_str(separator);
        separator = ",";
        go::write_jsoniter_string(text, &encode_element(&entry.element), Escape::Name);
        text.push(':');
        write_entries(text, entry.children.entries(), entry.member);
    }
    text.push('}');
}

/// The FieldsV1 key of an element: `f:name`, `k:{"port":80}`, `v:"x"` or `i:3`.
pub(crate) fn encode_element(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => format!("f:{name}"),
        PathElement::Key(fields) => {
            let mut text = "k:{".to_owned();
            for (index, (name, value)) in fields.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                go::write_jsoniter_string(&mut text, name, Escape::Name);
                text.push(':');
                go::write_jsoniter(&mut text, value);
            }
            text.push('}');
            text
        }
        PathElement::Value(value) => {
            let mut text = "v:".to_owned();
            go::write_jsoniter(&mut text, value);
            text
        }
        PathElement::Index(index) => format!("i:{index}"),
    }
}

/// Parses a FieldsV1 key; `None` for a kind that a later version may define.
pub(crate) fn decode_element(key: &str) -> Result<Option<PathElement>, FieldsError> {
    let malformed = || FieldsError::BadElement { key: key.to_owned() };
    let mut bytes = key.bytes();
    let (Some(kind), Some(b':')) = (bytes.next(), bytes.next()) else { return Err(malformed()) };
    let content = &key[2..];
    Ok(Some(match kind {
        b'f' => PathElement::field(content),
        b'v' => PathElement::Value(floats(serde_json::from_str(content).map_err(|_| malformed())?)),
        b'k' => match serde_json::from_str(content).map_err(|_| malformed())? {
            Value::Object(fields) => {
                PathElement::key(fields.into_iter().map(|(name, value)| (name, floats(value))).collect())
            }
            Value::Null => PathElement::key(Vec::new()),
            _ => return Err(malformed()),
        },
        b'i' => PathElement::Index(content.parse().map_err(|_| malformed())?),
        _ => return Ok(None),
    }))
}

/// Converts numbers to floats, since upstream decodes all numbers in path elements as float64. Comparisons ignore the
/// difference, but texts show it.
fn floats(value: Value) -> Value {
    match value {
        Value::Number(number) => {
            let float = number.as_f64().and_then(Number::from_f64);
            Value::Number(float.unwrap_or(number))
        }
        Value::Array(items) => Value::Array(items.into_iter().map(floats).collect()),
        Value::Object(fields) => Value::Object(fields.into_iter().map(|(name, field)| (name, floats(field))).collect()),
        other => other,
    }
}

/// Parses a node: the set below it, and whether the node itself is a member. It is one if it has a `.` or nothing below
/// it.
fn read_set(document: &Value, depth: usize) -> Result<(Set, bool), FieldsError> {
    if depth > DEPTH_MAX {
        return Err(FieldsError::TooDeep);
    }
    let fields = match document {
        Value::Object(fields) => fields,
        Value::Null => return Ok((Set::new(), true)),
        other => return Err(FieldsError::NotAnObject { found: rdd_meta::go_json::type_name(other) }),
    };
    let (mut entries, mut member) = (Vec::with_capacity(fields.len()), false);
    for (key, below) in fields {
        if key == "." {
            member = true;
        } else if let Some(element) = decode_element(key)? {
            let (children, child_is_member) = read_set(below, depth + 1)?;
            entries.push(Entry { element, member: child_is_member, children });
        }
    }
    let set = Set::from_unsorted(entries);
    let member = member || set.is_empty();
    Ok((set, member))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_set_survives_the_wire() {
        let document = json!({"f:spec": {".": {}, "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}},
            "f:set": {"v:\"a\"": {}, "v:1": {}}, "f:list": {"i:0": {}}}});
        let set = Set::from_value(&document).unwrap();
        assert_eq!(set.to_value(), document);
        assert_eq!(Set::from_value(&serde_json::from_str(&set.to_json()).unwrap()).unwrap(), set);
    }

    #[test]
    fn keys_are_ordered_by_worth_and_escaped_twice() {
        let document = json!({"f:a<": {"k:{\"p\":10}": {}, "k:{\"p\":9}": {}, "v:\"<\"": {}, "i:1": {}}});
        assert_eq!(
            Set::from_value(&document).unwrap().to_json(),
            r#"{"f:a<":{"k:{\"p\":9}":{},"k:{\"p\":10}":{},"v:\"\\u003c\"":{},"i:1":{}}}"#
        );
    }

    #[test]
    fn what_a_later_version_may_know_is_left_out_and_nonsense_is_refused() {
        assert!(Set::from_value(&json!({"x:what": {}})).unwrap().is_empty());
        for key in ["f", "fx", "i:x", "v:{", "k:[]", "é"] {
            assert!(Set::from_value(&json!({ key: {} })).is_err(), "{key}");
        }
        assert!(Set::from_value(&json!({"f:a": 1})).is_err());
    }
}
