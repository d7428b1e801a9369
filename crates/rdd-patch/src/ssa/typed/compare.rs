//! Compares two values of one shape.

use super::{
    super::{
        element::{Path, PathElement},
        set::Set,
        value,
    },
    Errors, Form, Forms, ValidationErrors, as_list, as_map, error, into_result, item_element, prefixed,
    validate::validate_scalar,
};
use crate::shape::{Atom, List, ListKind, Map, Shape};
use serde_json::{Map as JsonMap, Value};
use std::collections::BTreeMap;

/// The fields that differ between two values. The sets are disjoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    pub removed: Set,
    pub modified: Set,
    pub added: Set,
}

impl Comparison {
    /// Whether the values are equal.
    pub fn is_same(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// Applies a filter to each of the sets.
    #[must_use]
    pub fn map(self, filter: impl Fn(&Set) -> Set) -> Self {
        Self { removed: filter(&self.removed), modified: filter(&self.modified), added: filter(&self.added) }
    }
}

/// Compares `new` with `old`. Both must have this shape.
///
/// # Errors
/// When a value does not fit the shape.
pub fn compare(old: &Value, new: &Value, shape: &Shape) -> Result<Comparison, ValidationErrors> {
    let mut walk = Walk::default();
    let errors = walk.values(Some(old), Some(new), Some(shape));
    into_result(walk.found, errors)
}

#[derive(Default)]
struct Walk {
    path: Path,
    found: Comparison,
}

impl Walk {
    fn values(&mut self, old: Option<&Value>, new: Option<&Value>, shape: Option<&Shape>) -> Errors {
        if old.is_some() && old == new && shape.is_some() {
            return Errors::new(); // what is the same has no fields that differ, and most of an object is
        }
        let atom = shape.map(Shape::atom);
        let forms =
            |value| atom.map_or(Forms { scalar: false, list: false, map: false }, |atom| Forms::of(atom, value));
        let (old_forms, new_forms) = (forms(old), forms(new));
        let (mut errors, forms) = match (old, new) {
            (None, None) => return error("at least one of lhs and rhs must be provided"),
            (Some(_), None) => (Errors::new(), old_forms),
            (Some(_), Some(_)) if old_forms != new_forms => (self.values_as(old_forms, old, new, atom).0, new_forms),
            _ => (Errors::new(), new_forms),
        };
        let (more, was_leaf) = self.values_as(forms, old, new, atom);
        errors.extend(more);
        if !was_leaf {
            match (old, new) {
                (None, _) => self.found.added.insert(&self.path),
                (_, None) => self.found.removed.insert(&self.path),
                _ => {}
            }
        }
        errors
    }

    /// Compares in one form. Returns also whether the value was a leaf, which is then recorded already.
    fn values_as(
        &mut self,
        forms: Forms,
        old: Option<&Value>,
        new: Option<&Value>,
        atom: Option<&Atom>,
    ) -> (Errors, bool) {
        match forms.choose(atom) {
            Err(errors) => (errors, false),
            Ok(Form::Scalar(scalar)) => {
                let mut old_errors = validate_scalar(scalar, old, "lhs: ");
                let new_errors = validate_scalar(scalar, new, "rhs: ");
                if !old_errors.is_empty() && !new_errors.is_empty() {
                    old_errors.extend(new_errors);
                    return (old_errors, false);
                }
                self.leaf(old, new)
            }
            Ok(Form::List(list)) => {
                let (old_items, new_items) = (as_list(old), as_list(new));
                let is_empty = old_items.is_none_or(Vec::is_empty) && new_items.is_none_or(Vec::is_empty);
                if list.kind == ListKind::Atomic || is_empty {
                    return self.leaf(old, new);
                }
                let (old_items, new_items) =
                    (old_items.map_or(&[][..], Vec::as_slice), new_items.map_or(&[][..], Vec::as_slice));
                (self.items(list, old_items, new_items), false)
            }
            Ok(Form::Map(map)) => {
                let (old_fields, new_fields) = (as_map(old), as_map(new));
                let is_empty = old_fields.is_none_or(JsonMap::is_empty) && new_fields.is_none_or(JsonMap::is_empty);
                if map.atomic || is_empty {
                    return self.leaf(old, new);
                }
                (self.fields(map, old_fields, new_fields), false)
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> (Errors, bool) {
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if !value::equal(old, new) => self.found.modified.insert(&self.path),
            _ => {}
        }
        (Errors::new(), true)
    }

    fn fields(
        &mut self,
        map: &Map,
        old: Option<&JsonMap<String, Value>>,
        new: Option<&JsonMap<String, Value>>,
    ) -> Errors {
        let mut names: Vec<&String> = old.into_iter().chain(new).flat_map(JsonMap::keys).collect();
        names.sort_unstable();
        names.dedup();
        let mut errors = Errors::new();
        for name in names {
            let old = old.and_then(|fields| fields.get(name));
            let new = new.and_then(|fields| fields.get(name));
            errors.extend(self.child(PathElement::field(name), old, new, map.field_shape(name)));
        }
        errors
    }

    fn child(
        &mut self,
        element: PathElement,
        old: Option<&Value>,
        new: Option<&Value>,
        shape: Option<&Shape>,
    ) -> Errors {
        self.path.push(element);
        let errors = self.values(old, new, shape);
        match self.path.pop() {
            Some(element) => prefixed(errors, &element),
            None => errors,
        }
    }

    fn items(&mut self, list: &List, old: &[Value], new: &[Value]) -> Errors {
        let mut errors = Errors::new();
        let mut by_element: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for (is_new, items) in [(false, old), (true, new)] {
            for (index, item) in items.iter().enumerate() {
                match item_element(list, item) {
                    Err(message) => errors.extend(error(format!("element {index}: {message}"))),
                    Ok(element) => {
                        let (olds, news) = by_element.entry(element).or_default();
                        if is_new { news.push(item) } else { olds.push(item) }
                    }
                }
            }
        }
        for (element, (olds, news)) in by_element {
            errors.extend(self.item(list, element, &olds, &news));
        }
        errors
    }

    /// Compares the items of one path element. If either list has several of them, they are compared as a group.
    fn item(&mut self, list: &List, element: PathElement, olds: &[&Value], news: &[&Value]) -> Errors {
        let marker: Path = self.path.iter().cloned().chain([element.clone()]).collect();
        let shape = Some(&list.element);
        match (olds, news) {
            ([] | [_], [] | [_]) => self.child(element, olds.first().copied(), news.first().copied(), shape),
            ([_, _, ..], [_, _, ..]) => {
                let is_same =
                    olds.len() == news.len() && olds.iter().zip(news).all(|(old, new)| value::equal(old, new));
                if !is_same {
                    self.found.modified.insert(&marker);
                }
                Errors::new()
            }
            ([_, _, ..], _) => {
                let errors = news.first().map(|new| self.child(element, None, Some(new), shape)).unwrap_or_default();
                self.found.removed.insert(&marker);
                errors
            }
            (_, _) => {
                let errors = olds.first().map(|old| self.child(element, Some(old), None, shape)).unwrap_or_default();
                self.found.added.insert(&marker);
                errors
            }
        }
    }
}
