//! Finds the next small edit toward a change; the text is parsed again after each.

use std::ops::Range;

use serde_json::Value;

use super::{
    Change, List, Others, Refused,
    fragment::{Fragment, block_pair, flow_pair},
    model::{CURRENT, SKELETON, is_named},
    splice::{self, Splice},
    tree::{Shape, Tree},
};

/// A text with its tree and its value.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) text: &'a str,
    pub(super) tree: &'a Tree,
    pub(super) value: &'a Value,
}

/// The next edits; `None` when the change is complete.
type Next = Result<Option<Vec<Splice>>, Refused>;

/// A mapping in the tree.
#[derive(Clone, Copy)]
struct Mapping<'a> {
    at: usize,
    is_flow: bool,
    pairs: &'a [(usize, usize)],
}

pub(super) fn next(seen: &Seen<'_>, change: &Change) -> Next {
    let Some(root) = seen.tree.root.filter(|root| !seen.tree.node(*root).is_null()) else {
        return seen.begin().map(Some);
    };
    let root = seen.mapping(root)?;
    match change {
        Change::Put { list, name, fields, others } => seen.put(root, *list, name, fields, *others),
        Change::Remove { list, name } => seen.remove(root, *list, name),
        Change::SetCurrent(name) => seen.set_current(root, name),
    }
}

impl<'a> Seen<'a> {
    fn refuse<T>(&self, at: usize, why: impl Into<String>) -> Result<T, Refused> {
        Err(Refused::at(self.text, at, why))
    }

    /// Adds the first content to an empty document.
    fn begin(&self) -> Result<Vec<Splice>, Refused> {
        let ends = splice::line_end(self.text);
        let lines: Vec<String> = SKELETON.iter().map(|line| (*line).to_owned()).collect();
        match self.tree.root.map(|root| self.tree.node(root)) {
            None if self.text.is_empty() || self.text.ends_with('\n') => {
                Ok(vec![Splice::insert(self.text.len(), lines.join(ends) + ends)])
            }
            None => Ok(vec![splice::insert_lines(self.text, self.text.len(), 0, &lines)]),
            Some(node) if node.has_properties() => self.refuse(node.start, "nothing is given a tag or an anchor"),
            Some(node) if node.body == node.end => Ok(vec![splice::insert_lines(self.text, node.end, 0, &lines)]),
            Some(node) => Ok(vec![Splice::new(node.body..node.end, lines.join(ends))]),
        }
    }

    /// The mapping at a node. Fails if the node is an alias, or if keys are merged from elsewhere.
    fn mapping(&self, at: usize) -> Result<Mapping<'a>, Refused> {
        let node = self.tree.node(at);
        let Shape::Mapping { is_flow, pairs, .. } = &node.shape else {
            return self.refuse(node.start, "it should be a mapping that is written out here");
        };
        if *is_flow && !self.text[node.body..].starts_with('{') {
            return self.refuse(node.start, "a mapping has no braces");
        }
        for (key, _) in pairs {
            let key = self.tree.node(*key);
            if key.scalar() == Some("<<") {
                return self.refuse(key.start, "its keys are merged from elsewhere");
            }
        }
        Ok(Mapping { at, is_flow: *is_flow, pairs })
    }

    /// The index of a key's pair and its value.
    fn find(&self, mapping: Mapping<'a>, key: &str) -> Result<Option<(usize, usize)>, Refused> {
        let is_it = |pair: &&(usize, usize)| self.tree.node(pair.0).scalar() == Some(key);
        let mut found = mapping.pairs.iter().filter(is_it);
        match (found.next(), found.next()) {
            (_, Some(second)) => self.refuse(self.tree.node(second.0).start, format!("the key {key:?} is there twice")),
            (Some(pair), None) => {
                let at = mapping.pairs.iter().position(|other| other == pair).expect("it was found in there");
                Ok(Some((at, pair.1)))
            }
            (None, _) => Ok(None),
        }
    }

    fn set_current(&self, root: Mapping<'a>, name: &str) -> Next {
        if self.value.get(CURRENT).and_then(Value::as_str).unwrap_or_default() == name {
            return Ok(None);
        }
        self.set(root, CURRENT, &Fragment::Text(name.to_owned()))
    }

    fn put(
        &self,
        root: Mapping<'a>,
        list: List,
        name: &str,
        fields: &[(&'static str, String)],
        others: Others,
    ) -> Next {
        let Some((pair, entries)) = self.find(root, list.key())? else {
            return self.insert_pair(root, list.key(), &Fragment::EmptySequence).map(Some);
        };
        let named = self.named(list, name);
        let Some(first) = named.first() else {
            let inner = fields.iter().map(|(field, text)| (*field, Fragment::Text(text.clone()))).collect();
            let name = Fragment::Text(name.to_owned());
            let mut entry = vec![(list.inner(), Fragment::Mapping(inner)), ("name", name)];
            entry.sort_by_key(|(key, _)| *key);
            return self.insert_item(root, pair, entries, &Fragment::Mapping(entry)).map(Some);
        };
        let Shape::Sequence { items, .. } = &self.tree.node(entries).shape else {
            return self.refuse(self.tree.node(entries).start, "the list is not written out here");
        };
        if named.len() > 1 {
            // Duplicates go one per step, from the end, so that the first entry stays.
            return self.remove_item(root, pair, entries, named[named.len() - 1]).map(Some);
        }
        let entry = self.mapping(items[*first])?;
        self.find(entry, "name")?;
        match self.find(entry, list.inner())? {
            Some((_, inner)) if matches!(self.tree.node(inner).shape, Shape::Mapping { .. }) => {
                self.put_fields(self.mapping(inner)?, fields, others)
            }
            Some(_) | None => {
                let inner = fields.iter().map(|(field, text)| (*field, Fragment::Text(text.clone()))).collect();
                self.set(entry, list.inner(), &Fragment::Mapping(inner))
            }
        }
    }

    fn put_fields(&self, inner: Mapping<'a>, fields: &[(&'static str, String)], others: Others) -> Next {
        for (field, text) in fields {
            let is_set = match self.find(inner, field)? {
                Some((_, value)) => {
                    let node = self.tree.node(value);
                    let parsed = self.text.get(node.start..node.end).map(rdd_yaml::read);
                    // Compare as the reader does: `token: 0123` is a number, not the text.
                    node.scalar() == Some(text) && parsed.is_some_and(|read| is_text(read, node.scalar(), &node.shape))
                }
                None => false,
            };
            if !is_set {
                return self.set(inner, field, &Fragment::Text(text.clone()));
            }
        }
        let is_left = |key: &str| fields.iter().any(|(field, _)| *field == key) || others.keeps(key);
        for (at, (key, _)) in inner.pairs.iter().enumerate() {
            let node = self.tree.node(*key);
            match node.scalar() {
                Some(key) if is_left(key) => {}
                Some(_) => return self.remove_pair(inner, at).map(Some),
                None => return self.refuse(node.start, "a key is not a word"),
            }
        }
        Ok(None)
    }

    fn remove(&self, root: Mapping<'a>, list: List, name: &str) -> Next {
        let (Some((pair, entries)), Some(last)) = (self.find(root, list.key())?, self.named(list, name).pop()) else {
            return Ok(None);
        };
        self.remove_item(root, pair, entries, last).map(Some)
    }

    /// The indices of a list's entries that have this name.
    fn named(&self, list: List, name: &str) -> Vec<usize> {
        let entries = self.value.get(list.key()).and_then(Value::as_array).into_iter().flatten();
        entries.enumerate().filter(|(_, entry)| is_named(entry, name)).map(|(at, _)| at).collect()
    }

    /// Sets the value of a key, which may be absent.
    fn set(&self, mapping: Mapping<'a>, key: &'static str, value: &Fragment) -> Next {
        let Some((pair, at)) = self.find(mapping, key)? else {
            return self.insert_pair(mapping, key, value).map(Some);
        };
        let (node, start) = (self.tree.node(at), self.tree.node(mapping.pairs[pair].0).start);
        let is_one_line = !self.text[node.start..node.end].contains('\n') && node.body != node.end;
        if let (Fragment::Text(_), Shape::Scalar { .. } | Shape::Alias, true) = (value, &node.shape, is_one_line) {
            let new = if mapping.is_flow { value.flow() } else { value.inline() };
            return self.replace(node.start..node.end, new).map(Some);
        }
        if mapping.is_flow {
            return self.replace(start..node.end, flow_pair(key, value)).map(Some);
        }
        let indent = self.indent_of(start)?;
        let ends = format!("{}{}", splice::line_end(self.text), " ".repeat(indent));
        // A value on one line keeps the comment behind it; one that ends with a line ending has none.
        let end = node.end.min(splice::last_line_end(self.text, node.end));
        if let Fragment::Mapping(_) = value
            && splice::last_line_end(self.text, end) != end
        {
            return self.refuse(node.start, "something stands behind a value that has to become a block");
        }
        self.replace(start..end, block_pair(key, value).join(&ends)).map(Some)
    }

    fn replace(&self, place: Range<usize>, new: String) -> Result<Vec<Splice>, Refused> {
        self.gone(&place)?;
        Ok(vec![Splice::new(place, new)])
    }

    /// Rejects removing an anchor to which other parts refer.
    fn gone(&self, place: &Range<usize>) -> Result<(), Refused> {
        match self.tree.needed_anchor(place) {
            Some(anchor) => self.refuse(anchor, "an anchor here is referred to from elsewhere"),
            None => Ok(()),
        }
    }

    fn insert_pair(&self, mapping: Mapping<'a>, key: &str, value: &Fragment) -> Result<Vec<Splice>, Refused> {
        let node = self.tree.node(mapping.at);
        if mapping.is_flow {
            let outer = node.body..node.end;
            return Ok(vec![splice::insert_flow(self.text, &outer, &self.units(mapping), &flow_pair(key, value))]);
        }
        let Some((first, _)) = mapping.pairs.first() else {
            return self.refuse(node.start, "a block has nothing in it");
        };
        let indent = self.indent_of(self.tree.node(*first).start)?;
        Ok(vec![splice::insert_lines(self.text, node.end, indent, &block_pair(key, value))])
    }

    fn remove_pair(&self, mapping: Mapping<'a>, at: usize) -> Result<Vec<Splice>, Refused> {
        let (key, value) = mapping.pairs[at];
        let place = self.tree.node(key).start..self.tree.node(value).end;
        self.gone(&place)?;
        if mapping.is_flow {
            return Ok(splice::remove_flow(self.text, &self.units(mapping), at));
        }
        self.first_on_its_line(place.start)?;
        Ok(vec![splice::remove_lines(self.text, &place)])
    }

    fn insert_item(
        &self,
        root: Mapping<'a>,
        pair: usize,
        entries: usize,
        entry: &Fragment,
    ) -> Result<Vec<Splice>, Refused> {
        let node = self.tree.node(entries);
        match &node.shape {
            Shape::Sequence { is_flow: true, items } => {
                let is_bare = items.is_empty() && self.text[node.body + 1..node.end - 1].trim().is_empty();
                if is_bare && !root.is_flow {
                    return self.block_for(root, pair, node.body..node.end, entry);
                }
                let outer = node.body..node.end;
                Ok(vec![splice::insert_flow(self.text, &outer, &self.items(items), &entry.flow())])
            }
            Shape::Sequence { is_flow: false, items } => {
                let dash = self.dash(root, pair, items, 0)?;
                let indent = self.indent_of(dash)?;
                Ok(vec![splice::insert_lines(self.text, node.end, indent, &entry.block_item())])
            }
            _ if node.is_null() && root.is_flow && node.body != node.end => {
                self.replace(node.body..node.end, format!("[{}]", entry.flow()))
            }
            _ if node.is_null() && !root.is_flow => self.block_for(root, pair, node.body..node.end, entry),
            _ => self.refuse(node.start, "it should be a list that is written out here"),
        }
    }

    /// Replaces `[]` or an absent value with a block list.
    fn block_for(
        &self,
        root: Mapping<'a>,
        pair: usize,
        old: Range<usize>,
        entry: &Fragment,
    ) -> Result<Vec<Splice>, Refused> {
        let indent = self.indent_of(self.tree.node(root.pairs[pair].0).start)? + self.list_indent(root);
        let lines = splice::insert_lines(self.text, old.end, indent, &entry.block_item());
        let colon = self.colon(root, pair)?;
        let is_blank = self.text.get(colon + 1..old.start).is_some_and(|gap| gap.trim().is_empty());
        let from = if is_blank { colon + 1 } else { old.start };
        self.gone(&(from..old.end))?;
        Ok(vec![Splice::new(from..old.end, ""), lines])
    }

    /// The indentation of the other lists in this file, which the new list follows.
    fn list_indent(&self, root: Mapping<'a>) -> usize {
        let column = |at: usize| at - splice::line_start(self.text, at);
        let of_pair = |(at, (key, value)): (usize, &(usize, usize))| match &self.tree.node(*value).shape {
            Shape::Sequence { is_flow: false, items } => {
                let dash = self.dash(root, at, items, 0).ok()?;
                column(dash).checked_sub(column(self.tree.node(*key).start))
            }
            _ => None,
        };
        root.pairs.iter().enumerate().find_map(of_pair).unwrap_or(0)
    }

    fn remove_item(&self, root: Mapping<'a>, pair: usize, entries: usize, at: usize) -> Result<Vec<Splice>, Refused> {
        let node = self.tree.node(entries);
        let (is_flow, items) = match &node.shape {
            Shape::Sequence { is_flow, items } if at < items.len() => (*is_flow, items),
            _ => return self.refuse(node.start, "the list is not written out here"),
        };
        let item = self.tree.node(items[at]);
        if is_flow {
            self.gone(&(item.start..item.end))?;
            return Ok(splice::remove_flow(self.text, &self.items(items), at));
        }
        let dash = self.dash(root, pair, items, at)?;
        self.first_on_its_line(dash)?;
        let place = dash..item.end.max(dash + 1);
        self.gone(&place)?;
        let lines = splice::remove_lines(self.text, &place);
        if items.len() > 1 {
            return Ok(vec![lines]);
        }
        let after = if node.has_properties() { self.properties_end(node.start) } else { self.colon(root, pair)? + 1 };
        Ok(vec![Splice::insert(after, " []"), lines])
    }

    /// The end of the anchors and tags that start here.
    fn properties_end(&self, start: usize) -> usize {
        let line = &self.text[start..splice::last_line_end(self.text, start)];
        let comment = line.find(" #").unwrap_or(line.len());
        start + line[..comment].trim_end().len()
    }

    fn colon(&self, mapping: Mapping<'a>, pair: usize) -> Result<usize, Refused> {
        let key = self.tree.node(mapping.pairs[pair].0);
        match splice::find_indicator(self.text, key.end, b':') {
            Some(colon) => Ok(colon),
            None => self.refuse(key.start, "a key has no colon behind it"),
        }
    }

    /// The position of an item's dash.
    fn dash(&self, root: Mapping<'a>, pair: usize, items: &[usize], at: usize) -> Result<usize, Refused> {
        let from = match at.checked_sub(1) {
            Some(before) => self.tree.node(items[before]).end,
            None => {
                let list = self.tree.node(root.pairs[pair].1);
                let first = self.tree.node(items[0]).start;
                if list.start < first && list.has_properties() {
                    self.properties_end(list.start)
                } else {
                    self.colon(root, pair)? + 1
                }
            }
        };
        match splice::find_indicator(self.text, from, b'-') {
            Some(dash) => Ok(dash),
            None => self.refuse(from, "an entry has no dash before it"),
        }
    }

    /// The column of a node that stands first on its line or after dashes.
    fn indent_of(&self, at: usize) -> Result<usize, Refused> {
        let before = &self.text[splice::line_start(self.text, at)..at];
        if before.bytes().all(|byte| matches!(byte, b' ' | b'-')) {
            return Ok(before.len());
        }
        self.refuse(at, "something unusual stands before a key")
    }

    fn first_on_its_line(&self, at: usize) -> Result<(), Refused> {
        let before = &self.text[splice::line_start(self.text, at)..at];
        if before.bytes().all(|byte| byte == b' ') {
            return Ok(());
        }
        self.refuse(at, "what has to go shares its line with something else")
    }

    fn units(&self, mapping: Mapping<'a>) -> Vec<Range<usize>> {
        let place = |(key, value): &(usize, usize)| self.tree.node(*key).start..self.tree.node(*value).end;
        mapping.pairs.iter().map(place).collect()
    }

    fn items(&self, items: &[usize]) -> Vec<Range<usize>> {
        items.iter().map(|item| self.tree.node(*item).start..self.tree.node(*item).end).collect()
    }
}

/// Whether the reader takes a scalar as text, and not as a number or a keyword.
fn is_text(read: Result<rdd_yaml::Read, rdd_yaml::Error>, scalar: Option<&str>, shape: &Shape) -> bool {
    match shape {
        Shape::Scalar { style: granit_parser::ScalarStyle::Plain, .. } => {
            read.is_ok_and(|read| read.value.as_str() == scalar)
        }
        _ => true,
    }
}
