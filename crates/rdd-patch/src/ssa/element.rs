//! One step into an object: a field, an item by its keys, an item by its value, an item by its index.

use super::value;
use serde_json::Value;
use std::{cmp::Ordering, fmt, sync::Arc};

/// A way from the root of an object to a part of it.
pub type Path = Vec<PathElement>;

/// Selects a child of a container.
#[derive(Debug, Clone)]
pub enum PathElement {
    /// A field of a map or struct.
    Field(Arc<str>),
    /// The item of a keyed list with these key fields, sorted by name.
    Key(Arc<[(String, Value)]>),
    /// The item of a set.
    Value(Value),
    /// An item of a list by position.
    Index(i64),
}

impl PathElement {
    pub fn field(name: impl AsRef<str>) -> Self {
        Self::Field(name.as_ref().into())
    }

    /// An item of a keyed list; the key fields may come in any order.
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

/// The path of nested fields, `["metadata", "name"]`.
pub(crate) fn fields_path(names: &[&str]) -> Path {
    names.iter().map(|name| PathElement::field(*name)).collect()
}

impl Ord for PathElement {
    /// Fields, keys, values, indices; each by content, numbers by worth.
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

/// `.spec.containers[name="app"].image`.
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
