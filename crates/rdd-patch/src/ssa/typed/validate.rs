//! Validates values against their shape.

use super::{
    super::element::PathElement, Errors, Form, ValidationErrors, error, form, into_result, item_element, prefixed,
};
use crate::{
    go,
    shape::{List, ListKind, Map, Scalar, Shape},
};
use rdd_meta::go_text;
use serde_json::{Map as JsonMap, Value};
use std::collections::BTreeSet;

/// Whether sets and keyed lists may have duplicate items. Existing objects may, applied configurations may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    Allow,
    Refuse,
}

/// Validates all parts of a value against its shape.
pub fn validate(value: &Value, shape: &Shape, duplicates: Duplicates) -> Result<(), ValidationErrors> {
    into_result((), validate_value(value, Some(shape), duplicates))
}

fn validate_value(value: &Value, shape: Option<&Shape>, duplicates: Duplicates) -> Errors {
    match form(shape, value) {
        Err(errors) => errors,
        Ok(Form::Scalar(scalar)) => validate_scalar(scalar, Some(value), ""),
        Ok(Form::List(list)) => match value {
            Value::Array(items) => validate_items(items, list, duplicates),
            Value::Null => Errors::new(),
            other => error(format!("expected list, got &{{{}}}", go_text::plain(other))),
        },
        Ok(Form::Map(map)) => match value {
            Value::Object(fields) => validate_fields(fields, map, duplicates),
            Value::Null => Errors::new(),
            other => error(format!("expected map, got &{{{}}}", go_text::plain(other))),
        },
    }
}

pub(super) fn validate_scalar(scalar: Scalar, value: Option<&Value>, prefix: &str) -> Errors {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Errors::new() };
    match scalar {
        Scalar::Numeric if !value.is_number() => {
            error(format!("{prefix}expected numeric (int or float), got {}", go_text::type_name(value)))
        }
        Scalar::String if !value.is_string() => {
            error(format!("{prefix}expected string, got &value.valueUnstructured{{Value:{}}}", go::syntax(value)))
        }
        Scalar::Boolean if !value.is_boolean() => {
            error(format!("{prefix}expected boolean, got &{{{}}}", go_text::plain(value)))
        }
        Scalar::Untyped if value.is_array() || value.is_object() => {
            error(format!("{prefix}expected any scalar, got &{{{}}}", go_text::plain(value)))
        }
        _ => Errors::new(),
    }
}

fn validate_items(items: &[Value], list: &List, duplicates: Duplicates) -> Errors {
    let mut errors = Errors::new();
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let element = if list.kind == ListKind::Atomic {
            PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX))
        } else {
            match item_element(list, item) {
                // Without a path element there is nothing deeper to report; upstream stops validating the list.
                Err(message) => {
                    errors.extend(error(format!("element {index}: {message}")));
                    return errors;
                }
                Ok(element) => {
                    if duplicates == Duplicates::Refuse && !seen.insert(element.clone()) {
                        errors.extend(error(format!("duplicate entries for key {element}")));
                    }
                    element
                }
            }
        };
        errors.extend(prefixed(validate_value(item, Some(&list.element), duplicates), &element));
    }
    errors
}

fn validate_fields(fields: &JsonMap<String, Value>, map: &Map, duplicates: Duplicates) -> Errors {
    let mut errors = Errors::new();
    for (name, value) in fields {
        let Some(shape) = map.field_shape(name) else {
            // Upstream stops at the first unknown field.
            errors.extend(prefixed(error("field not declared in schema"), &PathElement::field(name)));
            break;
        };
        // Usually there are no errors, so the path element is only created for them.
        let inner = validate_value(value, Some(shape), duplicates);
        if !inner.is_empty() {
            errors.extend(prefixed(inner, &PathElement::field(name)));
        }
    }
    errors
}
