//! The order of merged lists: the patch's order first, then the live order.

use super::Error;
use crate::go;
use rdd_meta::go_text;
use serde_json::{Map, Value};
use std::collections::{BTreeSet, HashMap};

/// The type of a list's items. Upstream only merges lists of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Scalar,
    Map,
}

/// The common type of all items in these lists.
///
/// # Errors
/// When the lists are empty, have items of different types, or have lists as items.
pub(super) fn kind_of_items(lists: [&[Value]; 2]) -> Result<Kind, Error> {
    let mut all = lists.into_iter().flatten();
    let Some(first) = all.next() else {
        return Err(Error::Mismatch("no elements in any of the given slices".to_owned()));
    };
    match first {
        Value::Array(_) => return Err(Error::ListOfLists),
        Value::Null => return Err(Error::Incomparable("a list begins with null")),
        _ => {}
    }
    if all.any(|item| go_text::type_name(item) != go_text::type_name(first)) {
        let lists = lists.map(|list| go_text::plain(&Value::Array(list.to_vec())));
        return Err(Error::Mismatch(format!("list element types are not identical: [{}]", lists.join(" "))));
    }
    Ok(if first.is_object() { Kind::Map } else { Kind::Scalar })
}

/// Compares like Go's `==`, with an error where Go panics.
pub(super) fn same(left: &Value, right: &Value) -> Result<bool, Error> {
    go::interface_equal(left, right).ok_or(Error::Incomparable("a key is no scalar"))
}

pub(super) fn no_merge_key(item: &Map<String, Value>, merge_key: &str) -> Error {
    let item = go_text::plain(&Value::Object(item.clone()));
    Error::Mismatch(format!("map: {item} does not contain declared merge key: {merge_key}"))
}

pub(super) fn bad_type(expected: &str, found: &Value) -> Error {
    let found = if found.is_null() { "%!s(<nil>)" } else { go_text::type_name(found) };
    Error::Mismatch(format!("expected a {expected}, but received a {found}"))
}

pub(super) fn as_object(item: &Value) -> Result<&Map<String, Value>, Error> {
    item.as_object().ok_or_else(|| bad_type("map[string]interface {}", item))
}

/// The value of an item's merge key.
pub(super) fn key_of<'v>(item: &'v Value, merge_key: &str) -> Result<&'v Value, Error> {
    let item = as_object(item)?;
    item.get(merge_key).ok_or_else(|| no_merge_key(item, merge_key))
}

/// Splits a merged list into the items that `by` contains and those that only the live list contains.
pub(super) fn partition(merged: Vec<Value>, by: &[Value], merge_key: &str) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let mut scalars = merged.iter().chain(by).map(|item| !item.is_object() && !item.is_array());
    if merge_key.is_empty() && !scalars.all(|is_scalar| is_scalar) {
        return Err(Error::Incomparable("a list without merge key has items that are no scalars"));
    }
    let index = if merge_key.is_empty() { Index::of_scalars(by) } else { Index::of_objects(by, merge_key) };
    let (mut present, mut absent) = (Vec::new(), Vec::new());
    for item in merged {
        let key = if merge_key.is_empty() { &item } else { key_of(&item, merge_key)? };
        let is_present = index.get(key)?.is_some();
        if is_present { present.push(item) } else { absent.push(item) }
    }
    Ok((present, absent))
}

/// The first position of each value in a list. Lists can be long and each item is looked up, so this is a hash map.
#[derive(Default)]
pub(super) struct Index {
    scalars: HashMap<String, usize>,
    has_list: bool,
    has_map: bool,
    /// The position of the first item that is not an object, in a list of objects.
    misfit: Option<usize>,
}

impl Index {
    pub(super) fn of_scalars(list: &[Value]) -> Self {
        let mut index = Self::default();
        for (position, item) in list.iter().enumerate() {
            index.insert(item, position);
        }
        index
    }

    /// Indexes objects by the value of their merge key; objects without the key are left out.
    pub(super) fn of_objects(list: &[Value], merge_key: &str) -> Self {
        let mut index = Self { misfit: list.iter().position(|item| !item.is_object()), ..Self::default() };
        for (position, item) in list.iter().enumerate() {
            if let Some(key) = item.get(merge_key) {
                index.insert(key, position);
            }
        }
        index
    }

    /// Adds a value at a position, unless the index has it already.
    pub(super) fn insert(&mut self, key: &Value, position: usize) {
        match key {
            Value::Array(_) => self.has_list = true,
            Value::Object(_) => self.has_map = true,
            scalar => {
                self.scalars.entry(spelled(scalar)).or_insert(position);
            }
        }
    }

    /// The first position of a value. An error if upstream would compare two lists or two objects, or fail at an item
    /// that is not an object before it finds the value.
    pub(super) fn get(&self, key: &Value) -> Result<Option<usize>, Error> {
        if (key.is_array() && self.has_list) || (key.is_object() && self.has_map) {
            return Err(Error::Incomparable("a key is no scalar"));
        }
        let found = self.scalars.get(&spelled(key)).copied();
        match self.misfit {
            Some(misfit) if found.is_none_or(|found| found > misfit) => {
                Err(Error::Mismatch(format!("value for key {misfit} is not a map")))
            }
            _ => Ok(found),
        }
    }
}

/// All positions of each value in a list.
pub(super) struct Places {
    index: Index,
    all: HashMap<String, BTreeSet<usize>>,
}

impl Places {
    pub(super) fn of_scalars(list: &[Value]) -> Self {
        let mut places = Self { index: Index::default(), all: HashMap::new() };
        for (position, item) in list.iter().enumerate() {
            places.insert(item, position);
        }
        places
    }

    /// Indexes objects by the value of their merge key, like [`Index::of_objects`].
    pub(super) fn of_objects(list: &[Value], merge_key: &str) -> Self {
        let mut places = Self { index: Index::of_objects(list, merge_key), all: HashMap::new() };
        let keys = list.iter().map(|item| item.get(merge_key)).enumerate();
        for (position, key) in keys.filter_map(|(position, key)| Some((position, key?))) {
            places.insert(key, position);
        }
        places
    }

    pub(super) fn insert(&mut self, value: &Value, position: usize) {
        self.all.entry(spelled(value)).or_default().insert(position);
    }

    pub(super) fn remove(&mut self, value: &Value, position: usize) {
        if let Some(places) = self.all.get_mut(&spelled(value)) {
            places.remove(&position);
        }
    }

    /// The first position of a value after this position.
    pub(super) fn after(&self, value: &Value, position: usize) -> Option<usize> {
        self.all.get(&spelled(value))?.range(position + 1..).next().copied()
    }

    /// Removes a value and returns all its positions.
    pub(super) fn take(&mut self, key: &Value) -> Result<BTreeSet<usize>, Error> {
        self.index.get(key)?;
        Ok(self.all.remove(&spelled(key)).unwrap_or_default())
    }
}

/// A key under which two scalars are equal if and only if Go's `==` holds.
fn spelled(scalar: &Value) -> String {
    format!("{} {}", go_text::type_name(scalar), go_text::plain(scalar))
}

/// Up to this length, Go's sort uses insertion sort.
const INSERTION_MAX: usize = 20;

/// The input for ordering a merged list.
pub(super) struct Ordering<'a> {
    pub(super) merge_key: &'a str,
    pub(super) kind: Kind,
    /// The order for items of the patch.
    pub(super) patch: &'a [Value],
    /// The order for items of the live list.
    pub(super) live: &'a [Value],
}

impl Ordering<'_> {
    /// Sorts both lists by their own order, then merges them by the live order, as far as it contains the items.
    pub(super) fn arrange(&self, patch_items: Vec<Value>, live_items: Vec<Value>) -> Result<Vec<Value>, Error> {
        let patch_items = self.sort(patch_items, self.patch)?;
        let live_items = self.sort(live_items, self.live)?;
        let (patch_places, live_places) = (self.places(&patch_items, self.live)?, self.places(&live_items, self.live)?);
        let mut arranged = Vec::with_capacity(patch_items.len() + live_items.len());
        let mut patch_items = patch_items.into_iter().zip(patch_places).peekable();
        let mut live_items = live_items.into_iter().zip(live_places).peekable();
        loop {
            let take_live = match (live_items.peek(), patch_items.peek()) {
                (None, None) => return Ok(arranged),
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some((_, Some(live))), Some((_, Some(patch)))) => live < patch,
                _ => false,
            };
            arranged.extend(if take_live { live_items.next() } else { patch_items.next() }.map(|(item, _)| item));
        }
    }

    /// Sorts items by an order. Items marked for deletion come last.
    fn sort(&self, items: Vec<Value>, order: &[Value]) -> Result<Vec<Value>, Error> {
        let (mut items, deleted) = match self.kind {
            Kind::Scalar => (items, Vec::new()),
            Kind::Map => {
                for item in items.iter().chain(order) {
                    key_of(item, self.merge_key)?;
                }
                items.into_iter().partition(|item| item[super::DIRECTIVE] != "delete")
            }
        };
        let mut places = self.places(&items, order)?;
        if places.iter().all(Option::is_some) {
            let mut placed: Vec<_> = places.into_iter().zip(items).collect();
            placed.sort_by_key(|(place, _)| *place);
            return Ok(placed.into_iter().map(|(_, item)| item).chain(deleted).collect());
        }
        if items.len() > INSERTION_MAX {
            // Upstream's result then depends on details of its algorithm, which no client can rely on.
            let mut placed: Vec<_> = places.into_iter().zip(items).collect();
            placed.sort_by_key(|(place, _)| *place);
            return Ok(placed.into_iter().map(|(_, item)| item).chain(deleted).collect());
        }
        // Upstream treats an item without a position as less than any other. Insertion sort reverses such items;
        // clients see the result.
        for end in 1..items.len() {
            for at in (1..=end).rev() {
                let is_less = match (places[at], places[at - 1]) {
                    (Some(at), Some(before)) => at < before,
                    _ => true,
                };
                if !is_less {
                    break;
                }
                items.swap(at, at - 1);
                places.swap(at, at - 1);
            }
        }
        items.extend(deleted);
        Ok(items)
    }

    /// The position of each item in an order, if the order contains it.
    fn places(&self, items: &[Value], order: &[Value]) -> Result<Vec<Option<usize>>, Error> {
        match self.kind {
            Kind::Scalar => {
                let index = Index::of_scalars(order);
                items.iter().map(|item| index.get(item)).collect()
            }
            Kind::Map => {
                // A missing key counts as null here.
                let key = |item: &Value| item.get(self.merge_key).cloned().unwrap_or_default();
                let index = Index::of_scalars(&order.iter().map(key).collect::<Vec<_>>());
                items.iter().map(|item| index.get(&key(item))).collect()
            }
        }
    }
}
