//! Merges a partial object into a full one: values of the partial one win, and nothing is removed.

use super::{
    super::element::PathElement, Errors, Form, Forms, ValidationErrors, as_list, as_map, error, into_result,
    item_element, prefixed, validate::validate_scalar,
};
use crate::shape::{Atom, List, ListKind, Map, Shape};
use serde_json::{Map as JsonMap, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Merges `partial` into `full`. Both must have this shape.
///
/// Items of sets and keyed lists are in the order of `partial`. Items that only `full` has stay where they were
/// relative to the shared ones. An empty result is null.
///
/// # Errors
/// When a value does not fit the shape.
pub fn merge(full: &Value, partial: &Value, shape: &Shape) -> Result<Value, ValidationErrors> {
    let (merged, errors) = merge_values(Some(full), Some(partial), Some(shape));
    into_result(merged.unwrap_or(Value::Null), errors)
}

/// The merged value; `None` if nothing is left of it.
fn merge_values(left: Option<&Value>, right: Option<&Value>, shape: Option<&Shape>) -> (Option<Value>, Errors) {
    let atom = shape.map(Shape::atom);
    let forms = |value| atom.map_or(Forms { scalar: false, list: false, map: false }, |atom| Forms::of(atom, value));
    let (left_forms, right_forms) = (forms(left), forms(right));
    match (left, right) {
        (None, None) => (None, error("at least one of lhs and rhs must be provided")),
        // Both sides are valid, so merging one of them with nothing returns it unchanged.
        (Some(only), None) | (None, Some(only)) => (Some(only.clone()), Errors::new()),
        (Some(_), Some(_)) if left_forms == right_forms => merge_as(right_forms, left, right, atom),
        (Some(_), Some(_)) => {
            // The value changes its form: the old form only reports its errors, the new one is the result.
            let (_, mut errors) = merge_as(left_forms, left, right, atom);
            let (merged, more) = merge_as(right_forms, left, right, atom);
            errors.extend(more);
            (merged, errors)
        }
    }
}

fn merge_as(forms: Forms, left: Option<&Value>, right: Option<&Value>, atom: Option<&Atom>) -> (Option<Value>, Errors) {
    let keep_right = || right.or(left).cloned();
    match forms.choose(atom) {
        Err(errors) => (None, errors),
        Ok(Form::Scalar(scalar)) => {
            let mut left_errors = validate_scalar(scalar, left, "lhs: ");
            let right_errors = validate_scalar(scalar, right, "rhs: ");
            if left_errors.is_empty() || right_errors.is_empty() {
                return (keep_right(), Errors::new());
            }
            left_errors.extend(right_errors);
            (None, left_errors)
        }
        Ok(Form::List(list)) => {
            let (left_items, right_items) = (as_list(left), as_list(right));
            let is_empty = left_items.is_none_or(Vec::is_empty) && right_items.is_none_or(Vec::is_empty);
            if list.kind == ListKind::Atomic || is_empty {
                return (keep_right(), Errors::new());
            }
            merge_items(list, left_items.map_or(&[], Vec::as_slice), right_items.map_or(&[], Vec::as_slice))
        }
        Ok(Form::Map(map)) => {
            let (left_fields, right_fields) = (as_map(left), as_map(right));
            let is_empty = left_fields.is_none_or(JsonMap::is_empty) && right_fields.is_none_or(JsonMap::is_empty);
            if map.atomic || is_empty {
                return (keep_right(), Errors::new());
            }
            merge_fields(map, left_fields, right_fields)
        }
    }
}

fn merge_fields(
    map: &Map,
    left: Option<&JsonMap<String, Value>>,
    right: Option<&JsonMap<String, Value>>,
) -> (Option<Value>, Errors) {
    let mut merged = JsonMap::new();
    let mut errors = Errors::new();
    let names: BTreeSet<&String> = left.into_iter().chain(right).flat_map(JsonMap::keys).collect();
    for name in names {
        let left = left.and_then(|fields| fields.get(name));
        let right = right.and_then(|fields| fields.get(name));
        let (value, inner) = merge_values(left, right, map.field_shape(name));
        errors.extend(prefixed(inner, &PathElement::field(name)));
        if let Some(value) = value {
            merged.insert(name.clone(), value);
        }
    }
    ((!merged.is_empty()).then_some(Value::Object(merged)), errors)
}

/// The items of one side by path element. `None` marks an element with several items, which is replaced and not merged.
struct Indexed<'a> {
    elements: Vec<PathElement>,
    items: BTreeMap<PathElement, Option<&'a Value>>,
}

impl<'a> Indexed<'a> {
    fn new(list: &List, items: &'a [Value], allow_duplicates: bool, errors: &mut Errors) -> Self {
        let mut indexed = Self { elements: Vec::with_capacity(items.len()), items: BTreeMap::new() };
        for (index, item) in items.iter().enumerate() {
            let element = match item_element(list, item) {
                Ok(element) => element,
                Err(message) => {
                    errors.extend(error(format!("element {index}: {message}")));
                    continue;
                }
            };
            match indexed.items.get_mut(&element) {
                Some(_) if !allow_duplicates => {
                    errors.extend(error(format!("duplicate entries for key {element}")));
                    continue;
                }
                Some(first) => *first = None,
                None => {
                    indexed.items.insert(element.clone(), Some(item));
                }
            }
            indexed.elements.push(element);
        }
        indexed
    }

    /// The item of an element; null if there are several.
    fn get(&self, element: &PathElement) -> Option<&'a Value> {
        self.items.get(element).map(|item| item.unwrap_or(&Value::Null))
    }
}

fn merge_items(list: &List, left: &[Value], right: &[Value]) -> (Option<Value>, Errors) {
    let mut errors = Errors::new();
    let right_index = Indexed::new(list, right, false, &mut errors);
    let left_index = Indexed::new(list, left, true, &mut errors);
    if !errors.is_empty() {
        return (None, errors);
    }
    let mut merged = Vec::with_capacity(left.len().max(right.len()));
    // Upstream shadows a variable and loses the errors of single items; both sides are valid, so there are none.
    let mut take = |left: Option<&Value>, right: Option<&Value>| {
        merged.extend(merge_values(left, right, Some(&list.element)).0);
    };
    let mut shared: VecDeque<&PathElement> =
        right_index.elements.iter().filter(|element| left_index.items.contains_key(element)).collect();
    let mut next_shared = shared.pop_front();
    let mut done: BTreeSet<&PathElement> = BTreeSet::new();
    let (mut l, mut r) = (0, 0);
    while l < left_index.elements.len() || r < right_index.elements.len() {
        let (left_element, right_element) = (left_index.elements.get(l), right_index.elements.get(r));
        if let (Some(left_element), Some(right_element)) = (left_element, right_element) {
            if left_element == right_element {
                done.insert(left_element);
                take(left_index.get(left_element), right_index.get(left_element));
                (l, r) = (l + 1, r + 1);
                next_shared = shared.pop_front();
                continue;
            }
            let is_shared = right_index.items.contains_key(left_element);
            if is_shared && next_shared.is_some_and(|next| next != left_element) {
                // A shared item that is not the next one: it is merged when its turn comes on the right side.
                l += 1;
                continue;
            }
        }
        if let Some(element) = left_element {
            if !right_index.items.contains_key(element) {
                take(Some(&left[l]), None);
                l += 1;
                continue;
            }
            if done.contains(element) {
                l += 1;
            }
        }
        if let Some(element) = right_element {
            done.insert(element);
            take(left_index.get(element), right_index.get(element));
            r += 1;
            if next_shared == Some(element) {
                next_shared = shared.pop_front();
            }
        }
    }
    ((!merged.is_empty()).then_some(Value::Array(merged)), errors)
}
