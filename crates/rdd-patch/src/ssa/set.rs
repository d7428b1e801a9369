//! Sets of fields as trees: each node records whether its path is a member, and the members below it.

use super::element::{Path, PathElement, display_path};
use crate::shape::Shape;
use std::{cmp::Ordering, fmt, sync::Arc};

/// A set of field paths. The empty path (the whole object) is never a member, since no manager owns it.
///
/// Invariant: entries are sorted by element, and an entry that is not a member has members below it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Set {
    /// Shared, since set operations mostly pass on whole subtrees. `None` for an empty set: most sets are those below a
    /// leaf, and an allocation for each would double the memory.
    entries: Option<Arc<Vec<Entry>>>,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) element: PathElement,
    pub(super) member: bool,
    pub(super) children: Set,
}

impl Entry {
    fn is_dead(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

/// One step of iterating over two sorted lists of entries together.
enum Joined<'a> {
    Left(&'a Entry),
    Right(&'a Entry),
    Both(&'a Entry, &'a Entry),
}

fn join<'a>(left: &'a Set, right: &'a Set) -> impl Iterator<Item = Joined<'a>> {
    let (mut left, mut right) = (left.entries().iter().peekable(), right.entries().iter().peekable());
    std::iter::from_fn(move || {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(left), Some(right)) => left.element.cmp(&right.element),
        };
        match order {
            Ordering::Less => left.next().map(Joined::Left),
            Ordering::Greater => right.next().map(Joined::Right),
            Ordering::Equal => left.next().zip(right.next()).map(|(left, right)| Joined::Both(left, right)),
        }
    })
}

/// Pairs each entry of `left` with the entry of the same element in `right`. The cost is close to that of the smaller
/// set.
fn pairs<'a>(left: &'a Set, right: &'a Set) -> impl Iterator<Item = (&'a Entry, Option<&'a Entry>)> {
    let mut rest = right.entries();
    left.entries().iter().map(move |entry| {
        rest = skip_below(rest, &entry.element);
        (entry, rest.first().filter(|other| other.element == entry.element))
    })
}

/// The sorted entries from `element` on. The element is usually near, so an exponential search precedes the binary one.
fn skip_below<'a>(entries: &'a [Entry], element: &PathElement) -> &'a [Entry] {
    let mut end = 1;
    while entries.get(end - 1).is_some_and(|entry| entry.element < *element) {
        end *= 2;
    }
    let (start, end) = (end / 2, end.min(entries.len()));
    let within = entries.get(start..end).map_or(0, |near| near.partition_point(|entry| entry.element < *element));
    &entries[(start + within).min(entries.len())..]
}

impl Set {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a set from sorted entries of distinct elements, without those that have no members.
    pub(super) fn from_sorted(mut entries: Vec<Entry>) -> Self {
        entries.retain(|entry| !entry.is_dead());
        Self::from_entries(entries)
    }

    /// Creates a set from sorted entries of distinct elements that all have members.
    fn from_entries(entries: Vec<Entry>) -> Self {
        Self { entries: (!entries.is_empty()).then(|| Arc::new(entries)) }
    }

    /// Mutable access to the entries. The caller must leave at least one.
    fn entries_mut(&mut self) -> &mut Vec<Entry> {
        Arc::make_mut(self.entries.get_or_insert_default())
    }

    /// Creates a set from entries in any order. Of several entries with the same element, any can make it a member, and
    /// the last one with children supplies the children: upstream reads repeated keys like this.
    pub(super) fn from_unsorted(mut entries: Vec<Entry>) -> Self {
        entries.sort_by(|left, right| left.element.cmp(&right.element));
        entries.dedup_by(|next, first| {
            let is_same = next.element == first.element;
            if is_same {
                first.member |= next.member;
                if !next.children.is_empty() {
                    first.children = std::mem::take(&mut next.children);
                }
            }
            is_same
        });
        Self::from_sorted(entries)
    }

    /// The union of many sets. Merges in pairs, so the time is that of sorting.
    pub(super) fn union_all(mut sets: Vec<Self>) -> Self {
        while sets.len() > 1 {
            sets = sets
                .chunks(2)
                .map(|pair| pair.iter().skip(1).fold(pair[0].clone(), |left, right| left.union(right)))
                .collect();
        }
        sets.pop().unwrap_or_default()
    }

    /// Whether the set has no members.
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.entries().iter().map(|entry| usize::from(entry.member) + entry.children.len()).sum()
    }

    /// Adds a path as a member; its parents do not become members.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else { return };
        let entry = self.descend(first);
        if rest.is_empty() {
            entry.member = true;
        } else {
            entry.children.insert(rest);
        }
    }

    /// The entry of an element, which is created if it is absent. The caller must make it a member or add members below
    /// it.
    fn descend(&mut self, element: &PathElement) -> &mut Entry {
        let index = match self.position(element) {
            Ok(index) => index,
            Err(index) => {
                let entry = Entry { element: element.clone(), member: false, children: Self::new() };
                self.entries_mut().insert(index, entry);
                index
            }
        };
        &mut self.entries_mut()[index]
    }

    fn position(&self, element: &PathElement) -> Result<usize, usize> {
        // Sets are usually built in order, so check the end first.
        if self.entries().last().is_none_or(|last| last.element < *element) {
            return Err(self.entries().len());
        }
        self.entries().binary_search_by(|entry| entry.element.cmp(element))
    }

    pub(super) fn entry(&self, element: &PathElement) -> Option<&Entry> {
        self.position(element).ok().map(|index| &self.entries()[index])
    }

    pub(super) fn entries(&self) -> &[Entry] {
        self.entries.as_ref().map_or(&[], |entries| entries)
    }

    /// Whether a path is a member.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        let Some(entry) = self.entry(first) else { return false };
        if rest.is_empty() { entry.member } else { entry.children.contains(rest) }
    }

    /// The members below an element, relative to it.
    pub fn below(&self, element: &PathElement) -> Option<&Self> {
        self.entry(element).map(|entry| &entry.children).filter(|children| !children.is_empty())
    }

    /// The members of either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return if self.is_empty() { other.clone() } else { self.clone() };
        }
        let merged = join(self, other).map(|step| match step {
            Joined::Left(entry) | Joined::Right(entry) => entry.clone(),
            Joined::Both(left, right) => Entry {
                element: right.element.clone(),
                member: left.member || right.member,
                children: left.children.union(&right.children),
            },
        });
        Self::from_entries(merged.collect())
    }

    /// The members of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let both = |left: &Entry, right: &Entry| Entry {
            element: left.element.clone(),
            member: left.member && right.member,
            children: left.children.intersection(&right.children),
        };
        let entries: Vec<Entry> = if self.entries().len() <= other.entries().len() {
            pairs(self, other).filter_map(|(left, right)| Some(both(left, right?))).collect()
        } else {
            pairs(other, self).filter_map(|(right, left)| Some(both(left?, right))).collect()
        };
        Self::from_sorted(entries)
    }

    /// The members of this set that are not members of the other. A member of the other does not remove the paths below
    /// it.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return self.clone();
        }
        let left = pairs(self, other).map(|(left, right)| match right {
            None => left.clone(),
            Some(right) => Entry {
                element: left.element.clone(),
                member: left.member && !right.member,
                children: left.children.difference(&right.children),
            },
        });
        Self::from_sorted(left.collect())
    }

    /// The members of this set that are neither members of the other nor below one.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return self.clone();
        }
        let left = pairs(self, other).filter_map(|(left, right)| match right {
            None => Some(left.clone()),
            Some(right) if right.member => None,
            Some(right) => Some(Entry {
                element: left.element.clone(),
                member: left.member,
                children: left.children.recursive_difference(&right.children),
            }),
        });
        Self::from_sorted(left.collect())
    }

    /// Adds each declared struct field that has members below it as a member.
    ///
    /// Managers do not own structs, only the fields in them. Pruning must treat structs as owned to remove those that
    /// become empty.
    #[must_use]
    pub fn with_named_fields(&self, shape: Option<&Shape>) -> Self {
        let atom = shape.map(Shape::atom);
        let map = atom.and_then(|atom| atom.map.as_ref());
        let list = atom.and_then(|atom| atom.list.as_ref());
        let entries = self.entries().iter().map(|entry| {
            let (declared, inner) = match &entry.element {
                PathElement::Field(name) => {
                    (map.is_some_and(|map| map.fields.contains_key(name)), map.and_then(|map| map.field_shape(name)))
                }
                PathElement::Key(_) => (false, list.map(|list| &list.element)),
                PathElement::Value(_) | PathElement::Index(_) => (false, None),
            };
            Entry {
                element: entry.element.clone(),
                member: entry.member || (declared && !entry.children.is_empty()),
                children: entry.children.with_named_fields(inner),
            }
        });
        Self::from_entries(entries.collect())
    }

    /// The members without members below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let entries = self.entries().iter().map(|entry| Entry {
            element: entry.element.clone(),
            member: entry.member && entry.children.is_empty(),
            children: entry.children.leaves(),
        });
        Self::from_entries(entries.collect())
    }

    /// All members: those of each level before the ones below, as upstream iterates.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &mut Path, paths: &mut Vec<Path>) {
        for entry in self.entries().iter().filter(|entry| entry.member) {
            let mut path = prefix.clone();
            path.push(entry.element.clone());
            paths.push(path);
        }
        for entry in self.entries().iter() {
            prefix.push(entry.element.clone());
            entry.children.collect_paths(prefix, paths);
            prefix.pop();
        }
    }
}

impl FromIterator<Path> for Set {
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> Self {
        let mut set = Self::new();
        for path in paths {
            set.insert(&path);
        }
        set
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.paths().iter().map(|path| display_path(path))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::element::fields_path, *};

    fn set(paths: &[&str]) -> Set {
        paths.iter().map(|path| fields_path(&path.split('.').collect::<Vec<_>>())).collect()
    }

    #[test]
    fn algebra_works_per_path() {
        let (left, right) = (set(&["a", "a.b", "a.c", "d"]), set(&["a.b", "d", "e"]));
        assert_eq!(left.union(&right), set(&["a", "a.b", "a.c", "d", "e"]));
        assert_eq!(left.intersection(&right), set(&["a.b", "d"]));
        assert_eq!(left.difference(&right), set(&["a", "a.c"]));
        assert_eq!(left.len(), 4);
    }

    #[test]
    fn sets_of_very_different_size_meet_in_the_right_places() {
        let large: Vec<String> = (0..500).map(|index| format!("f{index:03}")).collect();
        let large = set(&large.iter().map(String::as_str).collect::<Vec<_>>());
        for picked in [&["f000"][..], &["f499"], &["f001", "f002", "f250", "f499", "g"], &["a"], &["a", "f498", "f499"]]
        {
            let small = set(picked);
            let shared: Vec<&str> = picked.iter().copied().filter(|name| name.len() == 4).collect();
            assert_eq!(small.intersection(&large), set(&shared));
            assert_eq!(large.intersection(&small), set(&shared));
            assert_eq!(large.difference(&small).len(), 500 - shared.len());
            assert_eq!(small.difference(&large).len(), picked.len() - shared.len());
            assert_eq!(small.recursive_difference(&large).len(), picked.len() - shared.len());
        }
    }

    #[test]
    fn the_union_of_many_is_that_of_two_and_two() {
        let parts: Vec<Set> = ["b", "a.b", "c", "a", "b.x"].iter().map(|path| set(&[path])).collect();
        assert_eq!(Set::union_all(parts), set(&["a", "a.b", "b", "b.x", "c"]));
        assert!(Set::union_all(Vec::new()).is_empty());
    }

    #[test]
    fn only_the_recursive_difference_removes_what_is_below() {
        let (left, right) = (set(&["a.b", "a.c.d"]), set(&["a", "a.c"]));
        assert_eq!(left.difference(&right), left);
        assert!(left.recursive_difference(&right).is_empty());
    }

    #[test]
    fn no_entry_is_left_behind_without_members() {
        assert!(set(&["a.b.c"]).difference(&set(&["a.b.c"])).is_empty());
        assert!(set(&["a.b"]).intersection(&set(&["a.c"])).is_empty());
    }

    #[test]
    fn leaves_have_nothing_below_them() {
        assert_eq!(set(&["a", "a.b", "c"]).leaves(), set(&["a.b", "c"]));
    }
}
