//! Merges lists: scalars as sets, objects by their merge key, with directives and `$setElementOrder`.

use super::{
    DIRECTIVE, Error, Fields, SET_ORDER, list_name, list_of, merge_objects,
    order::{self, Index, Kind, Ordering, Places, as_object, bad_type, key_of, kind_of_items, no_merge_key, same},
    unknown_directive, without_directives,
};
use crate::shape::{PatchRule, PatchStrategy, Shape};
use rdd_meta::go_text;
use serde_json::Value;

/// A merged list, and the contents that the merge left in the live list's slice.
///
/// Upstream edits the slice of the live list in place and later takes the order from that slice: after a deletion the
/// items have moved up, and appended items may use the freed slots.
pub(super) struct MergedList {
    pub(super) items: Vec<Value>,
    pub(super) live: Vec<Value>,
}

/// A live list, and the capacity of upstream's slice for it.
pub(super) struct Live {
    pub(super) items: Vec<Value>,
    pub(super) room: usize,
}

/// The live list of a merge. Imitates a Go slice: deletions and, within the capacity, additions change it in place.
struct Edited {
    place: Vec<Value>,
    length: usize,
    /// The reallocated list, once the list has outgrown its slice.
    moved: Option<Vec<Value>>,
}

impl Edited {
    fn new(items: Vec<Value>) -> Self {
        Self { length: items.len(), place: items, moved: None }
    }

    fn items(&self) -> &[Value] {
        self.moved.as_deref().unwrap_or(&self.place[..self.length])
    }

    /// Removes the items at these distinct positions, in this order. Like in Go, each removal moves the items behind up
    /// and leaves a copy of the last one in the freed slot. Only valid before the first addition, while the list is in
    /// its slice.
    fn remove_all(&mut self, positions: &[usize]) {
        if positions.is_empty() {
            return;
        }
        let mut is_left = vec![true; self.length];
        let (mut last, mut behind) = (self.length - 1, Vec::with_capacity(positions.len()));
        for position in positions {
            behind.push(self.place[last].clone());
            is_left[*position] = false;
            while last > 0 && !is_left[last] {
                last -= 1;
            }
        }
        let mut is_left = is_left.into_iter();
        self.place.retain(|_| is_left.next().unwrap_or(true));
        self.length = self.place.len();
        self.place.extend(behind.into_iter().rev());
    }

    fn push(&mut self, item: Value) {
        if let Some(moved) = &mut self.moved {
            moved.push(item);
        } else if self.length < self.place.len() {
            self.place[self.length] = item;
            self.length += 1;
        } else {
            let mut moved = self.place.clone();
            moved.push(item);
            self.moved = Some(moved);
        }
    }

    fn replace(&mut self, index: usize, item: Value) {
        if let Some(moved) = &mut self.moved {
            moved[index] = item.clone();
        }
        if index < self.place.len() {
            self.place[index] = item;
        }
    }

    fn take(&mut self, index: usize) -> Value {
        self.items()[index].clone()
    }
}

/// Merges two lists by the patch rule of their field. Without the merge strategy, the patch replaces the list.
pub(super) fn merge_by_rule(
    Live { items: live, room }: Live,
    patch: Vec<Value>,
    element: &Shape,
    rule: &PatchRule,
    is_deletion: bool,
) -> Result<MergedList, Error> {
    if rule.strategy != PatchStrategy::Merge && !is_deletion {
        return Ok(MergedList { items: patch, live });
    }
    if live.is_empty() && patch.is_empty() {
        return Ok(MergedList { items: Vec::new(), live });
    }
    let merge_key = rule.merge_key.as_deref().unwrap_or("");
    match kind_of_items([&live, &patch])? {
        Kind::Scalar if is_deletion => without(live, &patch),
        Kind::Scalar => merge_scalars(Live { items: live, room }, patch, merge_key),
        Kind::Map if merge_key.is_empty() => {
            Err(Error::Mismatch(format!("cannot merge lists without merge key for {}", super::kind_of(element))))
        }
        Kind::Map => merge_maps(live, patch, element, merge_key),
    }
}

fn without(live: Vec<Value>, gone: &[Value]) -> Result<MergedList, Error> {
    let index = Index::of_scalars(gone);
    let mut items = Vec::with_capacity(live.len());
    for item in &live {
        if index.get(item)?.is_none() {
            items.push(item.clone());
        }
    }
    Ok(MergedList { items, live })
}

fn merge_scalars(Live { items: live, room }: Live, patch: Vec<Value>, merge_key: &str) -> Result<MergedList, Error> {
    let mut both: Vec<Value> = live.iter().chain(&patch).cloned().collect();
    let count = distinct(&mut both);
    let merged = both[..count].to_vec();
    // If the capacity suffices, upstream appends in the live list's slice, and so takes the order from the result.
    let live = if both.len() <= room { both[..live.len()].to_vec() } else { live };
    let (patch_items, live_items) = order::partition(merged, &patch, merge_key)?;
    let ordering = Ordering { merge_key, kind: Kind::Scalar, patch: &patch, live: &live };
    Ok(MergedList { items: ordering.arrange(patch_items, live_items)?, live })
}

/// Moves each distinct value to the front and returns how many there are. Like upstream, it overwrites a duplicate with
/// the last remaining item.
fn distinct(items: &mut [Value]) -> usize {
    let mut places = Places::of_scalars(items);
    let (mut count, mut first) = (items.len(), 0);
    while first < count {
        while let Some(repeated) = places.after(&items[first], first).filter(|place| *place < count) {
            count -= 1;
            places.remove(&items[repeated], repeated);
            if repeated < count {
                let last = items[count].clone();
                places.remove(&last, count);
                places.insert(&last, repeated);
                items[repeated] = last;
            }
        }
        first += 1;
    }
    count
}

fn merge_maps(live: Vec<Value>, patch: Vec<Value>, element: &Shape, merge_key: &str) -> Result<MergedList, Error> {
    let mut edited = Edited::new(live);
    let mut plain = Vec::with_capacity(patch.len());
    let mut is_replaced = false;
    let (mut places, mut removed) = (Places::of_objects(edited.items(), merge_key), Vec::new());
    for item in patch {
        let fields = as_object(&item)?;
        match fields.get(DIRECTIVE) {
            None => plain.push(item),
            Some(directive) => match directive.as_str() {
                Some("delete") => {
                    let key = fields.get(merge_key).ok_or_else(|| no_merge_key(fields, merge_key))?;
                    removed.extend(places.take(key)?);
                }
                Some("replace") => is_replaced = true,
                Some("merge") => {
                    return Err(Error::Mismatch("merging lists cannot yet be specified in the patch".to_owned()));
                }
                _ => return Err(unknown_directive(directive, fields)),
            },
        }
    }
    edited.remove_all(&removed);
    let place = edited.place.clone();
    let patch = if is_replaced {
        edited = Edited::new(std::mem::take(&mut plain));
        Vec::new()
    } else {
        plain
    };
    let before_additions = edited.items().to_vec();
    let mut index = Index::of_objects(edited.items(), merge_key);
    for item in &patch {
        let key = key_of(item, merge_key)?;
        match index.get(key)? {
            None => {
                index.insert(key, edited.items().len());
                edited.push(item.clone());
            }
            Some(index) => {
                let (Value::Object(old), Value::Object(new)) = (edited.take(index), item.clone()) else {
                    continue; // all items are objects, or their kind would have been refused
                };
                edited.replace(index, Value::Object(merge_objects(old, new, element)?));
            }
        }
    }
    let (patch_items, live_items) = order::partition(edited.items().to_vec(), &patch, merge_key)?;
    let ordering = Ordering { merge_key, kind: Kind::Map, patch: &patch, live: &before_additions };
    let items = ordering.arrange(patch_items, live_items)?;
    Ok(MergedList { items, live: if is_replaced { place } else { edited.place } })
}

/// Merges the lists that have a `$setElementOrder/NAME` directive: the list NAME gets that order, after merging with
/// the patch's list.
pub(super) fn merge_ordered_lists(original: &mut Fields, patch: &mut Fields, shape: &Shape) -> Result<(), Error> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let Some(wished) = patch.remove(&directive) else { continue };
        let Value::Array(wished) = wished else { return Err(bad_type("[]interface {}", &wished)) };
        let name = list_name(&directive, SET_ORDER).ok_or(Error::BadElementOrder)?;
        let live = list_at(original, name)?;
        let patched = list_at(patch, name)?;
        let (element, rule) = list_of(shape, name)?;
        let merge_key = rule.merge_key.as_deref().unwrap_or("");
        check_wished_order(patched.as_deref().unwrap_or_default(), &wished, merge_key)?;
        let merged = match (live, patched.clone()) {
            (None, None) => continue,
            (Some(live), None) => MergedList { items: live.clone(), live },
            (None, Some(patched)) => {
                MergedList { items: patched.into_iter().filter_map(without_directives).collect(), live: Vec::new() }
            }
            (Some(live), Some(patched)) => {
                let live = Live { room: live.len(), items: live };
                merge_by_rule(live, patched, &element, &rule, false)?
            }
        };
        let (patch_items, live_items) = order::partition(merged.items, &wished, merge_key)?;
        let kind = kind_of_items([&merged.live, patched.as_deref().unwrap_or_default()])?;
        let ordering = Ordering { merge_key, kind, patch: &wished, live: &merged.live };
        original.insert(name.to_owned(), Value::Array(ordering.arrange(patch_items, live_items)?));
        patch.remove(name);
    }
    Ok(())
}

fn list_at(fields: &Fields, name: &str) -> Result<Option<Vec<Value>>, Error> {
    match fields.get(name) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items.clone())),
        Some(other) => Err(bad_type("[]interface {}", other)),
    }
}

/// Checks that the items of the patch are in the order of `$setElementOrder`, and all in it; deletions do not count.
fn check_wished_order(patch: &[Value], wished: &[Value], merge_key: &str) -> Result<(), Error> {
    if patch.is_empty() || wished.is_empty() {
        return Ok(());
    }
    let mut items = Vec::with_capacity(patch.len());
    for item in patch {
        let is_deletion =
            !merge_key.is_empty() && as_object(item)?.get(DIRECTIVE).is_some_and(|found| found == "delete");
        if !is_deletion {
            items.push(item);
        }
    }
    let (mut at, mut wished_at) = (0, 0);
    while at < items.len() && wished_at < wished.len() {
        if items[at].get(DIRECTIVE).is_some() {
            at += 1;
            continue;
        }
        let is_same = if merge_key.is_empty() {
            same(items[at], &wished[wished_at])?
        } else {
            // Upstream checks both types before it looks for either key.
            as_object(items[at])?;
            as_object(&wished[wished_at])?;
            same(key_of(items[at], merge_key)?, key_of(&wished[wished_at], merge_key)?)?
        };
        at += usize::from(is_same);
        wished_at += 1;
    }
    if at < items.len() && wished_at >= wished.len() {
        let text = |list: &[Value]| go_text::plain(&Value::Array(list.to_vec()));
        return Err(Error::Mismatch(format!(
            "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
            text(patch),
            text(wished)
        )));
    }
    Ok(())
}
