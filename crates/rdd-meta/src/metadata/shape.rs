//! Checks that metadata has the types of `ObjectMeta`, with the error messages of Go's JSON decoder.

use serde_json::Value;

use crate::{go_json::found_type, time};

/// A field has the wrong type, or a time cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// A field has the wrong type.
    #[error("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}")]
    Type {
        /// The type that was found, in Go's terms.
        found: String,
        /// The path of the field, in Go's terms.
        field: String,
        /// The expected type, in Go's terms.
        wanted: &'static str,
    },
    /// A timestamp is not a valid time.
    #[error(transparent)]
    Time(#[from] time::ParseError),
}

/// Checks the types in an object's `metadata`. Null is allowed everywhere, as in Go, and unknown fields are not
/// checked.
///
/// # Errors
/// The first mismatch, in the order of the checks, not of the document.
pub fn check_shape(object: &Value) -> Result<(), ShapeError> {
    let Some(metadata) = object.get("metadata").filter(|metadata| !metadata.is_null()) else { return Ok(()) };
    if !metadata.is_object() {
        return Err(mismatch(metadata, "metadata", "v1.ObjectMeta"));
    }
    let at = |field: &str| format!("ObjectMeta.metadata.{field}");
    for field in ["name", "generateName", "namespace", "selfLink", "resourceVersion"] {
        expect(metadata, field, &at(field), "string", Value::is_string)?;
    }
    expect(metadata, "uid", &at("uid"), "types.UID", Value::is_string)?;
    for field in ["generation", "deletionGracePeriodSeconds"] {
        expect(metadata, field, &at(field), "int64", Value::is_i64)?;
    }
    for field in ["creationTimestamp", "deletionTimestamp"] {
        if let Some(value) = expect(metadata, field, &at(field), "string", Value::is_string)?.and_then(Value::as_str) {
            time::Timestamp::parse_time(value)?;
        }
    }
    for field in ["labels", "annotations"] {
        let pairs = expect(metadata, field, &at(field), "map[string]string", Value::is_object)?;
        for value in pairs.and_then(Value::as_object).into_iter().flat_map(|pairs| pairs.values()) {
            if !value.is_string() && !value.is_null() {
                return Err(mismatch(value, &at(field), "string"));
            }
        }
    }
    for finalizer in items(metadata, "finalizers", "[]string")? {
        if !finalizer.is_string() && !finalizer.is_null() {
            return Err(mismatch(finalizer, &at("finalizers"), "string"));
        }
    }
    for owner in items(metadata, "ownerReferences", "[]v1.OwnerReference")? {
        check_owner(owner)?;
    }
    for entry in items(metadata, "managedFields", "[]v1.ManagedFieldsEntry")? {
        if !entry.is_object() && !entry.is_null() {
            return Err(mismatch(entry, &at("managedFields"), "v1.ManagedFieldsEntry"));
        }
    }
    Ok(())
}

fn check_owner(owner: &Value) -> Result<(), ShapeError> {
    if !owner.is_object() && !owner.is_null() {
        return Err(mismatch(owner, "ObjectMeta.metadata.ownerReferences", "v1.OwnerReference"));
    }
    let at = |field: &str| format!("OwnerReference.metadata.ownerReferences.{field}");
    for field in ["apiVersion", "kind", "name"] {
        expect(owner, field, &at(field), "string", Value::is_string)?;
    }
    expect(owner, "uid", &at("uid"), "types.UID", Value::is_string)?;
    for field in ["controller", "blockOwnerDeletion"] {
        expect(owner, field, &at(field), "bool", Value::is_boolean)?;
    }
    Ok(())
}

fn expect<'a>(
    object: &'a Value,
    field: &str,
    path: &str,
    wanted: &'static str,
    fits: fn(&Value) -> bool,
) -> Result<Option<&'a Value>, ShapeError> {
    match object.get(field).filter(|value| !value.is_null()) {
        Some(value) if !fits(value) => Err(mismatch(value, path, wanted)),
        fitting => Ok(fitting),
    }
}

fn items<'a>(metadata: &'a Value, field: &str, wanted: &'static str) -> Result<&'a [Value], ShapeError> {
    let list = expect(metadata, field, &format!("ObjectMeta.metadata.{field}"), wanted, Value::is_array)?;
    Ok(list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default())
}

fn mismatch(value: &Value, field: &str, wanted: &'static str) -> ShapeError {
    ShapeError::Type { found: found_type(value, wanted), field: field.to_owned(), wanted }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_wrong_type_is_named_as_go_names_it() {
        for (metadata, message) in [
            (
                json!({"name": 1}),
                "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
            ),
            (
                json!({"labels": {"a": 1}}),
                "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
            ),
            (
                json!({"annotations": []}),
                "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.annotations of type map[string]string",
            ),
            (
                json!({"generation": "1"}),
                "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.generation of type int64",
            ),
            (
                json!({"generation": 1.5}),
                "json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.metadata.generation of type int64",
            ),
            (
                json!({"ownerReferences": [{"controller": "yes"}]}),
                "json: cannot unmarshal string into Go struct field OwnerReference.metadata.ownerReferences.controller of type bool",
            ),
            (
                json!({"finalizers": [true]}),
                "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.finalizers of type string",
            ),
            (
                json!({"creationTimestamp": "x"}),
                r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#,
            ),
        ] {
            let error = check_shape(&json!({"metadata": metadata})).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn nulls_and_unknown_fields_are_fine() {
        for object in [
            json!({}),
            json!({"metadata": null}),
            json!({"metadata": {"name": null, "labels": {"a": null}, "ownerReferences": [null, {}], "x": 1}}),
        ] {
            assert_eq!(check_shape(&object), Ok(()), "{object}");
        }
    }
}
