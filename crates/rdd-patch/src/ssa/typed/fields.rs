//! Lists the fields of a value.

use super::{
    super::{
        element::PathElement,
        set::{Entry, Set},
    },
    Errors, Form, ValidationErrors, form, into_result, item_element,
};
use crate::shape::{List, ListKind, Map, Shape};
use serde_json::{Map as JsonMap, Value};

/// All leaves and list items of a value, which are the fields that a manager owns by applying it.
pub fn to_set(value: &Value, shape: &Shape) -> Result<Set, ValidationErrors> {
    let mut errors = Errors::new();
    let mentioned = of_value(value, Some(shape), &mut errors);
    into_result(mentioned.below, errors)
}

/// The fields of a value: it is a leaf, or has fields below it, or neither.
#[derive(Default)]
struct Mentioned {
    is_leaf: bool,
    below: Set,
}

fn of_value(value: &Value, shape: Option<&Shape>, errors: &mut Errors) -> Mentioned {
    let below = match (form(shape, value), value) {
        (Err(more), _) => {
            errors.extend(more);
            return Mentioned::default();
        }
        (Ok(Form::Map(map)), _) if !map.atomic => value.as_object().map(|fields| of_fields(fields, map, errors)),
        (Ok(Form::List(list)), _) if list.kind != ListKind::Atomic => {
            value.as_array().map(|items| of_items(items, list, errors))
        }
        (Ok(_), _) => return Mentioned { is_leaf: true, below: Set::new() },
    };
    Mentioned { is_leaf: false, below: below.unwrap_or_default() }
}

fn of_fields(fields: &JsonMap<String, Value>, map: &Map, errors: &mut Errors) -> Set {
    let entries = fields.iter().map(|(name, value)| {
        let is_empty = value.is_null() || value.as_object().is_some_and(JsonMap::is_empty);
        let is_own = is_empty || !map.fields.contains_key(name.as_str());
        let mentioned = of_value(value, map.field_shape(name), errors);
        Entry { element: PathElement::field(name), member: is_own || mentioned.is_leaf, children: mentioned.below }
    });
    // A JSON map is sorted by name, like the entries of a set.
    Set::from_sorted(entries.collect())
}

fn of_items(items: &[Value], list: &List, errors: &mut Errors) -> Set {
    let mut known: Vec<(PathElement, &Value)> =
        items.iter().filter_map(|item| Some((item_element(list, item).ok()?, item))).collect();
    known.sort_by(|left, right| left.0.cmp(&right.0));
    let entries = known.chunk_by(|left, right| left.0 == right.0).map(|same| {
        let children = match same {
            [(_, only)] => of_value(only, Some(&list.element), errors).below,
            // Items with the same element cannot be distinguished, so they are owned as one.
            _ => Set::new(),
        };
        Entry { element: same[0].0.clone(), member: true, children }
    });
    Set::from_sorted(entries.collect())
}
