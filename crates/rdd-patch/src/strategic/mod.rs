//! Strategic merge patch: a merge patch that merges lists by the keys of their items and supports directives.
//!
//! The reference is `StrategicMergeMapPatch` of k8s.io/apimachinery/pkg/util/strategicpatch. Upstream iterates over
//! maps in random order. Where this affects the result (a parallel list deletes an item that the list adds), this
//! module uses sorted order: directives come first.

mod list;
mod order;

use crate::{
    limits::{TooDeep, check_depth},
    shape::{List, PatchRule, PatchStrategy, Shape},
};
use rdd_meta::go_text;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashSet};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Why a strategic merge patch cannot be applied. The messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// 400: the patch or the original is not an object.
    #[error("invalid JSON document")]
    BadDocument,
    /// 400: the name of a `$deleteFromPrimitiveList` directive is malformed.
    #[error("invalid patch format of primitive list")]
    BadPrimitiveList,
    /// 400: `$retainKeys` is not a list, or does not name a field that the patch sets.
    #[error("invalid patch format of retainKeys")]
    BadRetainKeys,
    /// 400: the name of a `$setElementOrder` directive is malformed.
    #[error("invalid patch format of setElementOrder list")]
    BadElementOrder,
    /// 422: an item of a list is a list.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// 500 upstream: the patch does not fit the object or its type.
    #[error("{0}")]
    Mismatch(String),
    /// Upstream panics: it would compare values that are not comparable in Go, or use them as map keys.
    #[error("items of a list cannot be told apart: {0}")]
    Incomparable(&'static str),
    /// 400: a document exceeds the maximum depth.
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
}

impl Error {
    /// Whether the patch is malformed (400), rather than well-formed but unfit for the object.
    pub fn is_bad_request(&self) -> bool {
        matches!(
            self,
            Self::BadDocument | Self::BadPrimitiveList | Self::BadRetainKeys | Self::BadElementOrder | Self::TooDeep(_)
        )
    }
}

/// The fields of an object during a merge.
type Fields = Map<String, Value>;
/// The capacity of the lists from which this patch deleted items; upstream's order of added items depends on it.
type Rooms = BTreeMap<String, usize>;

/// Merges `patch` into a copy of `original`, an object of the given shape.
///
/// # Flow
/// A `$patch` directive replaces or empties the object. Otherwise `$retainKeys` is applied, then lists with
/// `$setElementOrder`, then the other fields in sorted order.
///
/// # Errors
/// When the patch is malformed, does not fit the object or the shape, or a document exceeds the maximum depth.
pub fn apply(original: &Value, patch: &Value, shape: &Shape) -> Result<Value, Error> {
    check_depth(original)?;
    check_depth(patch)?;
    let (Value::Object(original), Value::Object(patch)) = (original, patch) else { return Err(Error::BadDocument) };
    merge_objects(original.clone(), patch.clone(), shape).map(Value::Object)
}

fn merge_objects(mut original: Fields, mut patch: Fields, shape: &Shape) -> Result<Fields, Error> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Fields::new()),
            _ => Err(unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    list::merge_ordered_lists(&mut original, &mut patch, shape)?;
    let mut rooms = Rooms::new();
    for (key, value) in patch {
        merge_field(&mut original, key, value, shape, &mut rooms)?;
    }
    Ok(original)
}

fn unknown_directive(directive: &Value, item: &Fields) -> Error {
    let directive = match directive {
        Value::String(text) => text.clone(),
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Bool(_) | Value::Number(_) => {
            format!("%!s({}={})", go_text::type_name(directive), go_text::plain(directive))
        }
        other => go_text::plain(other),
    };
    Error::Mismatch(format!("unknown patch type: {directive} in map: {}", go_text::plain(&Value::Object(item.clone()))))
}

/// Applies `$retainKeys`: removes the fields of the original that it does not name. A field of the patch that it does
/// not name is an error.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<(), Error> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(keys) = directive else { return Err(Error::BadRetainKeys) };
    if keys.iter().any(|key| key.is_array() || key.is_object()) {
        return Err(Error::Incomparable("$retainKeys has an item that is no scalar"));
    }
    let keys: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let is_kept = |name: &str| keys.contains(name);
    let is_directive = |name: &str| name.starts_with(DELETE_FROM_LIST) || name.starts_with(SET_ORDER);
    if patch.iter().any(|(name, value)| !value.is_null() && !is_directive(name) && !is_kept(name)) {
        return Err(Error::BadRetainKeys);
    }
    original.retain(|name, _| is_kept(name));
    Ok(())
}

fn merge_field(
    original: &mut Fields,
    key: String,
    patch: Value,
    shape: &Shape,
    rooms: &mut Rooms,
) -> Result<(), Error> {
    let is_deletion = key.starts_with(DELETE_FROM_LIST);
    let key = match is_deletion {
        true => Some(list_name(&key, DELETE_FROM_LIST).ok_or(Error::BadPrimitiveList)?)
            .filter(|name| !name.is_empty())
            .map_or(key.clone(), str::to_owned),
        false => key,
    };
    if patch.is_null() {
        original.remove(&key);
        return Ok(());
    }
    let merged = match (original.remove(&key), patch) {
        (Some(Value::Object(old)), Value::Object(patch)) => {
            let (inner, rule) = field_of(shape, &key)?;
            match rule.strategy {
                PatchStrategy::Replace => Some(Value::Object(patch)),
                _ => Some(Value::Object(merge_objects(old, patch, &inner)?)),
            }
        }
        (Some(Value::Array(old)), Value::Array(patch)) => {
            let (element, rule) = list_of(shape, &key)?;
            let room = rooms.remove(&key).unwrap_or(old.len());
            if is_deletion {
                rooms.insert(key.clone(), old.len());
            }
            let live = list::Live { items: old, room };
            Some(Value::Array(list::merge_by_rule(live, patch, &element, &rule, is_deletion)?.items))
        }
        (Some(old), patch) if is_deletion && go_text::type_name(&old) != go_text::type_name(&patch) => Some(old),
        (None, _) if is_deletion => None,
        (old, mut patch) => {
            // A value of the same type as the old one is taken as it is. Any other value is new here, so its null
            // fields are removed.
            if old.is_none_or(|old| go_text::type_name(&old) != go_text::type_name(&patch)) {
                drop_nulls(&mut patch);
            }
            without_directives(patch)
        }
    };
    if let Some(merged) = merged {
        original.insert(key, merged);
    }
    Ok(())
}

/// The name of the list in the key `$prefix/name` of a parallel list.
fn list_name<'k>(key: &'k str, prefix: &str) -> Option<&'k str> {
    key.split_once('/').filter(|(found, _)| *found == prefix).map(|(_, name)| name)
}

/// Removes null fields from objects at every depth.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// A new value without directives. An object with a `$patch` directive has nothing to act on and is dropped.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            let fields = fields.into_iter().filter_map(|(name, field)| Some((name, without_directives(field)?)));
            Some(Value::Object(fields.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        scalar => Some(scalar),
    }
}

/// The shape and rule of a field of a struct. Upstream's errors name Go types, whose names are the last segments of the
/// definitions' names.
fn field_of(shape: &Shape, key: &str) -> Result<(Shape, PatchRule), Error> {
    let kind = kind_of(shape);
    if kind != "struct" {
        return Err(Error::Mismatch(format!(
            "merging an object in json but data type is not struct, instead is: {kind}"
        )));
    }
    let atom = shape.atom();
    let fields = atom.map.as_ref().map(|map| &map.fields);
    // Go matches JSON names exactly first, then ignoring case.
    let exact = fields.and_then(|fields| fields.get(key));
    let found = exact.or_else(|| {
        let same = |name: &str| name.eq_ignore_ascii_case(key);
        fields.and_then(|fields| fields.iter().find(|(name, _)| same(name)).map(|(_, field)| field))
    });
    match found {
        Some(field) => Ok((field.shape.clone(), field.patch.clone())),
        None => {
            let name = atom.name.as_deref().unwrap_or("");
            let name = name.rsplit('.').next().unwrap_or(name);
            Err(Error::Mismatch(format!(
                "unable to find api field in struct {name} for the json field {}",
                go_text::quote(key)
            )))
        }
    }
}

/// The element shape and the rule of a list field.
fn list_of(shape: &Shape, key: &str) -> Result<(Shape, PatchRule), Error> {
    let (inner, rule) = field_of(shape, key)?;
    let Some(List { element, .. }) = &inner.atom().list else {
        return Err(Error::Mismatch(format!("expected slice or array type, but got: {}", kind_of(shape))));
    };
    if element.atom().list.is_some() && element.atom().map.is_none() {
        return Err(Error::Mismatch("unexpected slice of slice".to_owned()));
    }
    Ok((element.clone(), rule))
}

/// The Go kind of a shape's type: a map without declared fields is a map, any other type that may be an object is a
/// struct.
fn kind_of(shape: &Shape) -> &'static str {
    let atom = shape.atom();
    match (&atom.map, &atom.list) {
        (Some(map), _)
            if map.fields.is_empty() && atom.scalar.is_none() && atom.name.is_none() && map.element.is_some() =>
        {
            "map"
        }
        (Some(_), _) => "struct",
        (None, Some(_)) => "slice",
        (None, None) if atom.name.is_some() => "struct",
        (None, None) => match atom.scalar {
            Some(crate::shape::Scalar::Numeric) => "int64",
            Some(crate::shape::Scalar::Boolean) => "bool",
            _ => "string",
        },
    }
}

#[cfg(test)]
mod tests;
