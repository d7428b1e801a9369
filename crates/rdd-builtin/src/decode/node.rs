//! The decoder's input: a JSON value, or a parsed text that keeps its order and duplicates.

use std::{borrow::Cow, slice};

use rdd_schema::ordered::Ordered;
use serde_json::{Value, map};

/// A node of the input.
#[derive(Debug, Clone, Copy)]
pub(super) enum Node<'n> {
    Value(&'n Value),
    Ordered(&'n Ordered),
}

/// The content of a node.
pub(super) enum View<'n> {
    Leaf(&'n Value),
    Array(Items<'n>),
    Object(Entries<'n>),
}

/// The items of a list.
pub(super) enum Items<'n> {
    Values(slice::Iter<'n, Value>),
    Ordered(slice::Iter<'n, Ordered>),
}

/// The entries of an object: sorted by name, or in the order of the text with duplicates.
pub(super) enum Entries<'n> {
    Values(map::Iter<'n>),
    Ordered(slice::Iter<'n, (String, Ordered)>),
}

impl<'n> Node<'n> {
    pub(super) fn view(self) -> View<'n> {
        match self {
            Self::Value(Value::Object(entries)) => View::Object(Entries::Values(entries.iter())),
            Self::Value(Value::Array(items)) => View::Array(Items::Values(items.iter())),
            Self::Value(leaf) | Self::Ordered(Ordered::Leaf(leaf)) => View::Leaf(leaf),
            Self::Ordered(Ordered::Object(entries)) => View::Object(Entries::Ordered(entries.iter())),
            Self::Ordered(Ordered::Array(items)) => View::Array(Items::Ordered(items.iter())),
        }
    }

    pub(super) fn value(self) -> Cow<'n, Value> {
        match self {
            Self::Value(value) | Self::Ordered(Ordered::Leaf(value)) => Cow::Borrowed(value),
            Self::Ordered(document) => Cow::Owned(document.to_value()),
        }
    }
}

impl Entries<'_> {
    /// An empty iterator.
    pub(super) fn none() -> Self {
        Self::Ordered([].iter())
    }
}

impl<'n> Iterator for Items<'n> {
    type Item = Node<'n>;

    fn next(&mut self) -> Option<Node<'n>> {
        match self {
            Self::Values(items) => items.next().map(Node::Value),
            Self::Ordered(items) => items.next().map(Node::Ordered),
        }
    }
}

impl<'n> Iterator for Entries<'n> {
    type Item = (&'n str, Node<'n>);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Values(entries) => entries.next().map(|(key, entry)| (key.as_str(), Node::Value(entry))),
            Self::Ordered(entries) => entries.next().map(|(key, entry)| (key.as_str(), Node::Ordered(entry))),
        }
    }
}
