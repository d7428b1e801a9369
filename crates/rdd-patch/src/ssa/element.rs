//! Path elements: a field, or an item of a list by its key fields, value or index.

use super::value;
use serde_json::Value;
use std::{cmp::Ordering, fmt, sync::Arc};

/// The path from the root of an object to a part of it.
pub type Path = Vec<PathElement>;

/// One step of a path: selects a child of a container.
#[derive(Debug, Clone)]
pub enum PathElement {
    /// A field of a map or struct.
    Field(Arc<str>),
    /// An item of a keyed list, by its key fields sorted by name.
    Key(Arc<[(String, Value)]>),
    /// An item of a set, by its value.
    Value(Value),
    /// An item of a list, by its position.
    Index(i64),
}

impl PathElement {
    /// The element of a field.
    pub fn field(name: impl AsRef<str>) -> Self {
        Self::Field(name.as_ref().into())
    }

    /// The element of a keyed list's item; the key fields may be in any order.
    pub fn key(mut fields: Vec<(String, Value)>) -> Self {
        fields.sort_by(|left, right| left.0.cmp(&right.0));
        Self::Key(fields.into())
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// The path through nested fields, as in `["metadata", "name"]`.
pub(crate) fn fields_path(names: &[&str]) -> Path {
    names.iter().map(|name| PathElement::field(*name)).collect()
}

impl Ord for PathElement {
    /// Orders by kind (fields, keys, values, indices), then by content. Numbers compare by value.
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => {
                for ((left_name, left), (right_name, right)) in left.iter().zip(right.iter()) {
                    let order = left_name.cmp(right_name).then_with(|| value::compare(left, right));
                    if order.is_ne() {
                        return order;
                    }
                }
                left.len().cmp(&right.len())
            }
            (Self::Value(left), Self::Value(right)) => value::compare(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let fields: Vec<_> =
                    fields.iter().map(|(name, field)| format!("{name}={}", value::display(field))).collect();
                write!(f, "[{}]", fields.join(","))
            }
            Self::Value(item) => write!(f, "[={}]", value::display(item)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Formats a path as in `.spec.containers[name="app"].image`.
pub(crate) fn display_path(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_read_as_upstream_prints_them() {
        let path = vec![
            PathElement::field("spec"),
            PathElement::key(vec![("protocol".into(), json!("TCP")), ("port".into(), json!(80))]),
            PathElement::Value(json!("x")),
            PathElement::Index(3),
        ];
        assert_eq!(display_path(&path), r#".spec[port=80,protocol="TCP"][="x"][3]"#);
    }
}
