//! JSON pointers (RFC 6901): resolving them in a document, and the operations on the container they lead into.

use super::node::{List, Node};
use rdd_meta::go_text;
use std::collections::BTreeMap;

/// The container that a pointer leads into, and the unescaped last token. `None` if a token on the way is missing or
/// leads into a scalar.
pub(super) fn find<'a>(root: &'a mut Node, pointer: &str) -> Option<(Container<'a>, String)> {
    let (first, rest) = pointer.split_once('/')?;
    let _ignored_by_upstream = first;
    let (parents, key) = match rest.rsplit_once('/') {
        Some((parents, key)) => (Some(parents), key),
        None => (None, rest),
    };
    let mut node = root;
    for token in parents.into_iter().flat_map(|parents| parents.split('/')) {
        node = node.child(&unescape(token))?;
    }
    Some((Container::of(node)?, unescape(key)))
}

/// The number of containers around a value at this pointer.
pub(super) fn levels(pointer: &str) -> usize {
    pointer.bytes().filter(|byte| *byte == b'/').count()
}

/// Resolves the escapes of RFC 6901 in one pass from left to right.
fn unescape(token: &str) -> String {
    let mut text = String::with_capacity(token.len());
    let mut rest = token;
    while let Some(position) = rest.find('~') {
        text.push_str(&rest[..position]);
        rest = &rest[position..];
        let (replacement, length) = match rest.as_bytes().get(1) {
            Some(b'0') => ("~", 2),
            Some(b'1') => ("/", 2),
            _ => ("~", 1),
        };
        text.push_str(replacement);
        rest = &rest[length..];
    }
    text.push_str(rest);
    text
}

/// The container of a pointer's last token.
pub(super) enum Container<'a> {
    Object(&'a mut BTreeMap<String, Node>),
    List(&'a mut List),
}

impl<'a> Container<'a> {
    fn of(node: &'a mut Node) -> Option<Self> {
        match node.open() {
            Node::Object(fields) => Some(Self::Object(fields)),
            Node::List(items) => Some(Self::List(items)),
            Node::Closed(_) => None,
        }
    }

    /// The value at a key. A missing field of an object is `None`; a missing index of a list is an error.
    pub(super) fn get(&self, key: &str) -> Result<Option<&Node>, String> {
        match self {
            Self::Object(fields) => Ok(fields.get(key)),
            Self::List(items) => Ok(items.get(existing_index(key, items.len())?)),
        }
    }

    pub(super) fn set(self, key: &str, value: Node) -> Result<(), String> {
        match self {
            Self::Object(fields) => {
                fields.insert(key.to_owned(), value);
            }
            Self::List(items) => {
                let index = existing_index(key, items.len())?;
                if let Some(item) = items.get_mut(index) {
                    *item = value;
                }
            }
        }
        Ok(())
    }

    pub(super) fn add(self, key: &str, value: Node) -> Result<(), String> {
        match self {
            Self::Object(fields) => {
                fields.insert(key.to_owned(), value);
            }
            Self::List(items) if key == "-" => items.push(value),
            Self::List(items) => {
                let index = parse_index(key)
                    .map_err(|error| format!("value was not a proper array index: '{key}': {error}"))?;
                let index = resolve_index(index, items.len() + 1)?;
                items.insert(index, value);
            }
        }
        Ok(())
    }

    pub(super) fn remove(self, key: &str) -> Result<Node, String> {
        match self {
            Self::Object(fields) => {
                fields.remove(key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value"))
            }
            Self::List(items) => {
                let index = existing_index(key, items.len())?;
                Ok(items.remove(index).unwrap_or(Node::NULL))
            }
        }
    }
}

pub(super) fn existing_index(key: &str, length: usize) -> Result<usize, String> {
    resolve_index(parse_index(key)?, length)
}

/// Parses an index like Go's `strconv.Atoi`, with the same errors.
fn parse_index(key: &str) -> Result<i64, String> {
    let digits = key.strip_prefix(['+', '-']).unwrap_or(key);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("strconv.Atoi: parsing {}: invalid syntax", go_text::quote(key)));
    }
    key.parse().map_err(|_| format!("strconv.Atoi: parsing {}: value out of range", go_text::quote(key)))
}

/// Resolves an index below `length`; a negative index counts from the end.
fn resolve_index(index: i64, length: usize) -> Result<usize, String> {
    let invalid = || format!("Unable to access invalid index: {index}: invalid index referenced");
    let length_signed = i64::try_from(length).map_err(|_| invalid())?;
    let resolved = if index < 0 { index.checked_add(length_signed).ok_or_else(invalid)? } else { index };
    if resolved >= length_signed {
        return Err(invalid());
    }
    usize::try_from(resolved).map_err(|_| invalid())
}
