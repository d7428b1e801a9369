//! The document of a JSON patch: opened only along the paths of operations, with long lists in chunks.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::pointer::existing_index;

/// The maximum number of items in a piece of a list. An insertion or removal moves at most one piece and the list of
/// pieces.
const PIECE_MAX: usize = 1024;

/// A value whose containers are open along the paths of earlier operations.
#[derive(Debug, Clone)]
pub(super) enum Node {
    /// A value as it came, into which no operation has led yet.
    Closed(Value),
    Object(BTreeMap<String, Node>),
    List(List),
}

impl Node {
    pub(super) const NULL: Self = Self::Closed(Value::Null);

    /// Opens a container; a scalar stays as it is. The cost is the number of children, once per container.
    pub(super) fn open(&mut self) -> &mut Self {
        if let Self::Closed(value) = self
            && (value.is_object() || value.is_array())
        {
            *self = match value.take() {
                Value::Object(fields) => {
                    Self::Object(fields.into_iter().map(|(name, field)| (name, Self::Closed(field))).collect())
                }
                Value::Array(items) => Self::List(items.into_iter().map(Self::Closed).collect()),
                scalar => Self::Closed(scalar),
            };
        }
        self
    }

    pub(super) fn into_value(self) -> Value {
        match self {
            Self::Closed(value) => value,
            Self::Object(fields) => {
                let fields: Map<String, Value> =
                    fields.into_iter().map(|(name, field)| (name, field.into_value())).collect();
                Value::Object(fields)
            }
            Self::List(list) => Value::Array(list.pieces.into_iter().flatten().map(Self::into_value).collect()),
        }
    }

    /// Whether the node equals a value. Stops at the first difference, so the cost is at most that of the smaller one.
    pub(super) fn equals(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Closed(closed), value) => closed == value,
            (Self::Object(fields), Value::Object(values)) => {
                fields.len() == values.len()
                    && values.iter().all(|(name, value)| fields.get(name).is_some_and(|field| field.equals(value)))
            }
            (Self::List(list), Value::Array(values)) => {
                list.length == values.len() && list.iter().zip(values).all(|(item, value)| item.equals(value))
            }
            _ => false,
        }
    }

    /// The depth of the node and the number of visited values, like [`depth_of`].
    pub(super) fn depth(&self) -> (usize, usize) {
        let (mut deepest, mut seen) = (0, 0);
        let mut nodes = vec![(self, 0)];
        let mut values: Vec<(&Value, usize)> = Vec::new();
        while let Some((node, depth)) = nodes.pop() {
            seen += 1;
            match node {
                Self::Closed(value) => values.push((value, depth)),
                Self::Object(fields) => {
                    deepest = deepest.max(depth + 1);
                    nodes.extend(fields.values().map(|field| (field, depth + 1)));
                }
                Self::List(list) => {
                    deepest = deepest.max(depth + 1);
                    nodes.extend(list.iter().map(|item| (item, depth + 1)));
                }
            }
        }
        for (value, depth) in values {
            let (below, walked) = depth_of(value);
            (deepest, seen) = (deepest.max(depth + below), seen + walked);
        }
        (deepest, seen)
    }

    /// The child at a token of a pointer.
    pub(super) fn child(&mut self, key: &str) -> Option<&mut Self> {
        match self.open() {
            Self::Object(fields) => fields.get_mut(key),
            Self::List(list) => list.get_mut(existing_index(key, list.length).ok()?),
            Self::Closed(_) => None,
        }
    }
}

/// The nesting depth of a value (0 for a scalar), and the number of values that were visited to find it.
pub(super) fn depth_of(value: &Value) -> (usize, usize) {
    let (mut deepest, mut seen) = (0, 0);
    let mut values = vec![(value, 0)];
    while let Some((value, depth)) = values.pop() {
        seen += 1;
        match value {
            Value::Object(fields) => {
                deepest = deepest.max(depth + 1);
                values.extend(fields.values().map(|field| (field, depth + 1)));
            }
            Value::Array(items) => {
                deepest = deepest.max(depth + 1);
                values.extend(items.iter().map(|item| (item, depth + 1)));
            }
            _ => {}
        }
    }
    (deepest, seen)
}

/// A list in pieces, so that an insertion or removal does not move all items behind it.
///
/// Invariant: no piece is empty or longer than [`PIECE_MAX`].
#[derive(Debug, Clone, Default)]
pub(super) struct List {
    pieces: Vec<Vec<Node>>,
    length: usize,
}

impl FromIterator<Node> for List {
    fn from_iter<I: IntoIterator<Item = Node>>(items: I) -> Self {
        let mut list = Self::default();
        items.into_iter().for_each(|item| list.push(item));
        list
    }
}

impl List {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    fn iter(&self) -> impl Iterator<Item = &Node> {
        self.pieces.iter().flatten()
    }

    /// The piece of an index and the position in it; `None` past the end.
    fn locate(&self, index: usize) -> Option<(usize, usize)> {
        let mut left = index;
        for (at, piece) in self.pieces.iter().enumerate() {
            if left < piece.len() {
                return Some((at, left));
            }
            left -= piece.len();
        }
        None
    }

    pub(super) fn get(&self, index: usize) -> Option<&Node> {
        let (piece, at) = self.locate(index)?;
        self.pieces[piece].get(at)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Node> {
        let (piece, at) = self.locate(index)?;
        self.pieces[piece].get_mut(at)
    }

    pub(super) fn push(&mut self, item: Node) {
        match self.pieces.last_mut() {
            Some(last) if last.len() < PIECE_MAX => last.push(item),
            _ => self.pieces.push(vec![item]),
        }
        self.length += 1;
    }

    /// Inserts an item before the one at `index`, or at the end.
    pub(super) fn insert(&mut self, index: usize, item: Node) {
        let Some((piece, at)) = self.locate(index) else { return self.push(item) };
        if self.pieces[piece].len() == PIECE_MAX {
            let second = self.pieces[piece].split_off(PIECE_MAX / 2);
            self.pieces.insert(piece + 1, second);
            return self.insert(index, item);
        }
        self.pieces[piece].insert(at, item);
        self.length += 1;
    }

    pub(super) fn remove(&mut self, index: usize) -> Option<Node> {
        let (piece, at) = self.locate(index)?;
        let item = self.pieces[piece].remove(at);
        if self.pieces[piece].is_empty() {
            self.pieces.remove(piece);
        }
        self.length -= 1;
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_list_in_pieces_is_the_list() {
        let mut plain: Vec<Value> = (0..5000).map(Value::from).collect();
        let mut node = Node::Closed(Value::Array(plain.clone()));
        let Node::List(list) = node.open() else { panic!("a list opens as one") };
        let mut index = 1;
        for step in 0..4000_usize {
            index = index * 7919 % 4999;
            if step % 3 == 0 {
                plain.remove(index % plain.len());
                list.remove(index % list.len());
            } else {
                let index = index % (plain.len() + 1);
                plain.insert(index, json!({"step": step}));
                list.insert(index, Node::Closed(json!({"step": step})));
            }
            assert_eq!(plain.len(), list.len());
        }
        assert!(list.get(plain.len()).is_none() && list.remove(plain.len()).is_none());
        assert!(node.equals(&Value::Array(plain.clone())));
        assert_eq!(node.into_value(), Value::Array(plain));
    }

    #[test]
    fn opening_changes_nothing() {
        let value = json!({"a": [1, {"b": [[]]}], "c": "x"});
        let mut node = Node::Closed(value.clone());
        assert_eq!(node.depth().0, 5);
        node.child("a").and_then(|list| list.child("1")).and_then(|item| item.child("b")).expect("it is there").open();
        assert_eq!(node.depth().0, 5);
        assert!(node.equals(&value) && !node.equals(&json!({"a": [1, {"b": [[]]}], "d": "x"})));
        assert_eq!(node.into_value(), value);
    }
}
