//! JSON merge patch (RFC 7386), as Kubernetes applies it through gopkg.in/evanphx/json-patch.v4.

use crate::limits::{TooDeep, check_depth};
use rdd_meta::go_json;
use serde_json::{Map, Value};

/// Why a merge patch cannot be applied. A bad patch is the client's fault (400); the messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The document is null.
    #[error("Invalid JSON Document")]
    BadDocument,
    /// The patch is neither an object nor a list.
    #[error("Invalid JSON Patch")]
    BadPatch,
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
}

/// Merges `patch` into a copy of `document`: fields of the patch replace those of the document, and a null removes a
/// field.
///
/// # Guarantees
/// Two deviations of upstream from the RFC are kept:
/// - A patch that is a list replaces the document; one that is a scalar is an error.
/// - Where a list replaces an object, objects in the list keep their null fields. Other new values lose theirs.
///
/// # Errors
/// When the document is null, the patch is a scalar, or either exceeds the maximum depth.
pub fn apply(document: &Value, patch: &Value) -> Result<Value, Error> {
    check_depth(document)?;
    check_depth(patch)?;
    // Upstream decodes null into a nil map and rejects it.
    if document.is_null() {
        return Err(Error::BadDocument);
    }
    match (document, patch) {
        (Value::Object(document), Value::Object(patch)) => {
            let mut merged = document.clone();
            merge_fields(&mut merged, patch);
            Ok(Value::Object(merged))
        }
        (_, Value::Object(_) | Value::Array(_)) => Ok(without_nulls(patch)),
        _ => Err(Error::BadPatch),
    }
}

/// Checks that a patch is an object, as field validation (`Strict` or `Warn`, the default) requires before the patch is
/// applied. The server answers 400 with `error decoding patch: ` and the error.
pub fn check_object(patch: &Value) -> Result<(), String> {
    match patch {
        Value::Object(_) | Value::Null => Ok(()),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_json::type_name(other)
        )),
    }
}

fn merge_fields(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, patch) in patch {
        if patch.is_null() {
            target.remove(name);
            continue;
        }
        match target.get_mut(name) {
            None | Some(Value::Null) => {
                target.insert(name.clone(), without_nulls(patch));
            }
            Some(current) => merge_value(current, patch),
        }
    }
}

fn merge_value(current: &mut Value, patch: &Value) {
    match (current, patch) {
        (Value::Object(current), Value::Object(patch)) => merge_fields(current, patch),
        (current @ Value::Object(_), patch) => *current = patch.clone(),
        (current, patch) => *current = without_nulls(patch),
    }
}

/// Removes null fields from objects at every depth; nulls in lists stay.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .filter(|(_, field)| !field.is_null())
                .map(|(name, field)| (name.clone(), without_nulls(field)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_win_nulls_remove_and_lists_replace() {
        let document = json!({"a": {"b": 1, "c": 2}, "l": [1, 2]});
        let patch = json!({"a": {"b": null, "d": {"x": null, "y": 3}}, "l": [{"z": null}]});
        assert_eq!(apply(&document, &patch), Ok(json!({"a": {"c": 2, "d": {"y": 3}}, "l": [{}]})));
    }

    #[test]
    fn nulls_stay_in_a_list_that_replaces_an_object() {
        assert_eq!(apply(&json!({"a": {}}), &json!({"a": [{"z": null}]})), Ok(json!({"a": [{"z": null}]})));
    }

    #[test]
    fn a_scalar_is_no_patch() {
        assert_eq!(apply(&json!({}), &json!("x")), Err(Error::BadPatch));
        assert_eq!(apply(&json!({}), &Value::Null), Err(Error::BadPatch));
    }
}
