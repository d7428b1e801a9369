//! Lists and maps: either parts of an object, with their schema, or computed.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::{Fault, Outcome, Text, Value};
use crate::go;
use crate::shape::Shape;

/// How a list compares and concatenates, by its `x-kubernetes-list-type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListKind {
    Plain,
    Set,
    Map(Vec<String>),
}

/// A list, either of an object or computed.
#[derive(Debug, Clone)]
pub enum List<'a> {
    /// An array of the object; without a shape, its items are converted without a schema
    Json(&'a [Json], Option<&'a Shape>),
    /// Computed
    Values(Arc<ListValues<'a>>),
}

/// A computed list.
#[derive(Debug, Clone)]
pub struct ListValues<'a> {
    pub(crate) items: Vec<Value<'a>>,
    pub(crate) kind: ListKind,
}

impl<'a> List<'a> {
    pub(crate) fn new(items: Vec<Value<'a>>) -> Self {
        List::Values(Arc::new(ListValues { items, kind: ListKind::Plain }))
    }

    /// The number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            List::Json(items, _) => items.len(),
            List::Values(values) => values.items.len(),
        }
    }

    /// Whether it has no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the item at `index`, or the error of its conversion.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn get(&self, index: usize) -> Outcome<'a> {
        match self {
            List::Json(items, Some(shape)) => match shape.items() {
                Some(item) => item.value(&items[index]),
                None => Err(Fault::error("invalid array type, expected Items with a non-empty Schema")),
            },
            List::Json(items, None) => Ok(Value::from_json(&items[index])),
            List::Values(values) => Ok(values.items[index].clone()),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Outcome<'a>> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }

    pub(crate) fn to_vec(&self) -> Result<Vec<Value<'a>>, Fault> {
        self.iter().collect()
    }

    pub(crate) fn kind(&self) -> ListKind {
        match self {
            List::Json(_, Some(shape)) => shape.list_kind(),
            List::Json(_, None) => ListKind::Plain,
            List::Values(values) => values.kind.clone(),
        }
    }
}

/// A map, either of an object or computed.
#[derive(Debug, Clone)]
pub enum Map<'a> {
    /// An object of the JSON; without a shape, its values are converted without a schema
    Json(&'a serde_json::Map<String, Json>, Option<&'a Shape>),
    /// Computed
    Values(Arc<MapValues<'a>>),
}

/// A computed map, in order of insertion.
#[derive(Debug, Clone, Default)]
pub struct MapValues<'a> {
    entries: Vec<(Value<'a>, Value<'a>)>,
    index: HashMap<Key, usize>,
}

/// The identity of a map key; `1`, `1u` and `1.0` are three different keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(u64),
    String(Arc<str>),
    Timestamp(i64, u32),
    Duration(i64),
}

impl Key {
    pub(crate) fn of(value: &Value<'_>) -> Result<Self, Fault> {
        Ok(match value {
            Value::Null => Key::Null,
            Value::Bool(value) => Key::Bool(*value),
            Value::Int(value) => Key::Int(*value),
            Value::Uint(value) => Key::Uint(*value),
            // -0.0 equals 0.0, so the two are one key.
            Value::Double(value) => Key::Double(if *value == 0.0 { 0 } else { value.to_bits() }),
            // Shared strings are not copied.
            Value::String(Text::Shared(text)) => Key::String(Arc::clone(text)),
            Value::String(text) => Key::String(Arc::from(&**text)),
            Value::Timestamp(moment) => Key::Timestamp(moment.seconds, moment.nanos),
            Value::Duration(nanos) => Key::Duration(*nanos),
            Value::Bytes(_) => {
                return Err(Fault::error("internal error: runtime error: hash of unhashable type types.Bytes"));
            }
            other => return Err(Fault::error(format!("unsupported map key type: {}", other.type_name()))),
        })
    }
}

impl<'a> MapValues<'a> {
    /// Sets an entry. It replaces an entry with the same key.
    pub(crate) fn insert(&mut self, key: Value<'a>, value: Value<'a>) -> Result<(), Fault> {
        let id = Key::of(&key)?;
        match self.index.get(&id) {
            Some(at) => self.entries[*at].1 = value,
            None => {
                self.index.insert(id, self.entries.len());
                self.entries.push((key, value));
            }
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self, key: &Value<'a>) -> Result<(), Fault> {
        let id = Key::of(key)?;
        if let Some(at) = self.index.remove(&id) {
            self.entries.remove(at);
            // Removal keeps the order of entries, so the later ones move up.
            self.index.values_mut().filter(|index| **index > at).for_each(|index| *index -= 1);
        }
        Ok(())
    }

    /// Finds a value. Numeric keys that are equal match across their types.
    pub(crate) fn find(&self, key: &Value<'_>) -> Option<&Value<'a>> {
        let at = |id: Key| self.index.get(&id).map(|at| &self.entries[*at].1);
        let found = Key::of(key).ok().and_then(at);
        if found.is_some() {
            return found;
        }
        match key {
            Value::Double(value) => go::whole_int(*value)
                .and_then(|whole| at(Key::Int(whole)))
                .or_else(|| go::whole_uint(*value).and_then(|whole| at(Key::Uint(whole)))),
            Value::Int(value) => u64::try_from(*value).ok().and_then(|value| at(Key::Uint(value))),
            Value::Uint(value) => i64::try_from(*value).ok().and_then(|value| at(Key::Int(value))),
            _ => None,
        }
    }
}

impl<'a> Map<'a> {
    pub(crate) fn new(values: MapValues<'a>) -> Self {
        Map::Values(Arc::new(values))
    }

    /// The number of entries. Of an object, undeclared fields count too, as upstream.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Map::Json(object, _) => object.len(),
            Map::Values(values) => values.entries.len(),
        }
    }

    /// Whether it has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of a key, `None` if it is absent, or an error if the key's type or the value is invalid.
    pub fn find(&self, key: &Value<'_>) -> Result<Option<Value<'a>>, Fault> {
        match self {
            Map::Values(values) => Ok(values.find(key).cloned()),
            Map::Json(object, shape) => match (key, shape) {
                (Value::String(text), Some(shape)) => shape.field(object, text),
                (Value::String(text), None) => Ok(object.get(&**text).map(Value::from_json)),
                // An object has only string keys, so another key is an error; in a map without a schema it is just absent.
                (_, Some(_)) => Err(Fault::no_such_overload()),
                (_, None) => Ok(None),
            },
        }
    }

    /// The keys that a comprehension iterates over: of an object, only the declared ones.
    #[must_use]
    pub fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Map::Values(values) => values.entries.iter().map(|(key, _)| key.clone()).collect(),
            Map::Json(object, Some(shape)) => shape.keys(object),
            Map::Json(object, None) => object.keys().map(|key| Value::String(Text::Borrowed(key))).collect(),
        }
    }

    pub(crate) fn entries(&self) -> Result<Vec<(Value<'a>, Value<'a>)>, Fault> {
        self.keys()
            .into_iter()
            .map(|key| {
                let value = self.find(&key)?.ok_or_else(|| Fault::error(format!("no such key: {}", key.shown())))?;
                Ok((key, value))
            })
            .collect()
    }
}
