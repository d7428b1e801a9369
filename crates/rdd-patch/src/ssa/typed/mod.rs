//! Operations on values of a known shape: validate, merge, compare, list the fields, remove or extract some.

mod compare;
mod fields;
mod merge;
mod reconcile;
mod remove;
mod validate;

pub use compare::{Comparison, compare};
pub use fields::to_set;
pub use merge::merge;
pub use reconcile::reconcile;
pub use remove::{extract, extract_with_keys, remove};
pub use validate::{Duplicates, validate};

use super::element::PathElement;
use crate::{
    go,
    shape::{Atom, List, ListKind, Map, Scalar, Shape},
};
use serde_json::{Map as JsonMap, Value};
use std::fmt;

/// The errors of a value that does not fit its shape, at least one. The messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationErrors(pub Vec<ValidationError>);

/// One part of a value does not fit the shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationError {
    pub path: String,
    pub message: String,
}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.path, self.message) }
    }
}

impl fmt::Display for ValidationErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [only] => only.fmt(f),
            errors => {
                f.write_str("errors:")?;
                errors.iter().try_for_each(|error| write!(f, "\n  {error}"))
            }
        }
    }
}

impl std::error::Error for ValidationErrors {}

/// Errors as the walk returns them from child to parent, which prefixes their paths.
type Errors = Vec<ValidationError>;

fn into_result<T>(value: T, errors: Errors) -> Result<T, ValidationErrors> {
    if errors.is_empty() { Ok(value) } else { Err(ValidationErrors(errors)) }
}

fn error(message: impl Into<String>) -> Errors {
    vec![ValidationError { path: String::new(), message: message.into() }]
}

fn prefixed(mut errors: Errors, element: &PathElement) -> Errors {
    if !errors.is_empty() {
        let prefix = element.to_string();
        for error in &mut errors {
            error.path.insert_str(0, &prefix);
        }
    }
    errors
}

/// The possible forms of a value under an atom: the form of the value if the atom has it, otherwise all forms of the
/// atom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Forms {
    scalar: bool,
    list: bool,
    map: bool,
}

/// The form in which a value is handled: the first possible one, in upstream's order.
enum Form<'a> {
    Map(&'a Map),
    Scalar(Scalar),
    List(&'a List),
}

impl Forms {
    fn of(atom: &Atom, value: Option<&Value>) -> Self {
        let all = Self { scalar: atom.scalar.is_some(), list: atom.list.is_some(), map: atom.map.is_some() };
        let none = Self { scalar: false, list: false, map: false };
        match value {
            Some(Value::Number(_) | Value::String(_) | Value::Bool(_)) if all.scalar => Self { scalar: true, ..none },
            Some(Value::Array(_)) if all.list => Self { list: true, ..none },
            Some(Value::Object(_)) if all.map => Self { map: true, ..none },
            _ => all,
        }
    }

    fn choose<'a>(self, atom: Option<&'a Atom>) -> Result<Form<'a>, Errors> {
        let Some(atom) = atom else { return Err(error("schema error: invalid atom: inlined")) };
        match (&atom.map, atom.scalar, &atom.list) {
            (Some(map), ..) if self.map => Ok(Form::Map(map)),
            (_, Some(scalar), _) if self.scalar => Ok(Form::Scalar(scalar)),
            (.., Some(list)) if self.list => Ok(Form::List(list)),
            _ => {
                let name = atom.name.as_deref().map_or("inlined".to_owned(), |name| format!("named type: {name}"));
                Err(error(format!("schema error: invalid atom: {name}")))
            }
        }
    }
}

/// The form of a value under a shape; an error without a shape.
fn form<'a>(shape: Option<&'a Shape>, value: &Value) -> Result<Form<'a>, Errors> {
    let atom = shape.map(Shape::atom);
    let forms = atom.map_or(Forms { scalar: false, list: false, map: false }, |atom| Forms::of(atom, Some(value)));
    forms.choose(atom)
}

fn as_list(value: Option<&Value>) -> Option<&Vec<Value>> {
    value.and_then(Value::as_array)
}

fn as_map(value: Option<&Value>) -> Option<&JsonMap<String, Value>> {
    value.and_then(Value::as_object)
}

/// The path element that identifies an item of a list that is not atomic.
fn item_element(list: &List, item: &Value) -> Result<PathElement, String> {
    match &list.kind {
        ListKind::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        ListKind::Set => match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
            scalar => Ok(PathElement::Value(scalar.clone())),
        },
        ListKind::Map { keys } => keyed_element(list, keys, item),
    }
}

fn keyed_element(list: &List, keys: &[std::sync::Arc<str>], item: &Value) -> Result<PathElement, String> {
    let item = match item {
        Value::Object(item) => item,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut fields = Vec::with_capacity(keys.len());
    for key in keys {
        if let Some(value) = item.get(&**key) {
            fields.push((key.to_string(), value.clone()));
            continue;
        }
        let Some(map) = &list.element.atom().map else {
            return Err(format!("couldn't find default value for {key}: associative list may not have non-map types"));
        };
        if let Some(default) = map.fields.get(&**key).and_then(|field| field.default.as_ref()) {
            fields.push((key.to_string(), default.clone()));
        }
    }
    if fields.is_empty() {
        return Err(format!(
            "associative list with keys has an element that omits all key fields {} (and doesn't have default values for any key fields)",
            go::quote_list(keys)
        ));
    }
    Ok(PathElement::key(fields))
}
