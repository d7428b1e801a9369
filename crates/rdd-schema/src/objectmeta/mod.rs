//! Metadata of resources and embedded resources: coerced to ObjectMeta, and validated.

mod check;
mod decode;

use rdd_meta::{go_text, names};
use serde_json::{Map, Value};

use crate::{
    field::{Error, Path},
    structural::Structural,
};
use decode::ObjectMeta;

/// What happens with metadata that does not decode as ObjectMeta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It is an error.
    Refuse,
    /// The malformed fields are dropped: an object in the store was accepted before.
    Drop,
}

/// Coerces embedded resources: types their `apiVersion`, `kind` and `metadata`, and drops unknown fields of metadata. Returns
/// the paths of unknown fields, sorted. With `resource_root`, the whole value is coerced as a resource too.
///
/// # Errors
/// For the first malformed field, if `malformed` is [`Malformed::Refuse`].
pub fn coerce(
    path: &Path<'_>,
    value: &mut Value,
    schema: &Structural,
    resource_root: bool,
    malformed: Malformed,
) -> Result<Vec<String>, Error> {
    let mut unknown = Vec::new();
    let embedded = resource_root || schema.embedded_resource;
    coerce_node(path, value, schema, embedded, malformed, &mut unknown)?;
    unknown.sort();
    Ok(unknown)
}

fn coerce_node(
    path: &Path<'_>,
    value: &mut Value,
    schema: &Structural,
    embedded: bool,
    malformed: Malformed,
    unknown: &mut Vec<String>,
) -> Result<(), Error> {
    match value {
        Value::Object(entries) => {
            let mut dropped = Vec::new();
            for (key, entry) in entries.iter_mut() {
                let mut replacement = None;
                match key.as_str() {
                    // Collected first, because the map cannot shrink while it is iterated.
                    "apiVersion" | "kind" if embedded && !entry.is_string() => {
                        if malformed == Malformed::Refuse {
                            return Err(Error::invalid(path.child(key), &*entry, "must be a string"));
                        }
                        dropped.push(key.clone());
                    }
                    "metadata" if embedded => replacement = coerce_metadata(path, entry, malformed, unknown)?,
                    _ => {}
                }
                if let Some(below) = schema.property(key) {
                    coerce_node(&path.child(key), entry, below, below.embedded_resource, malformed, unknown)?;
                } else if let Some(below) = schema.additional_schema() {
                    coerce_node(&path.key(key), entry, below, below.embedded_resource, malformed, unknown)?;
                }
                // Replaced last, so that the recursion above works on the original metadata.
                if let Some(replacement) = replacement {
                    *entry = replacement;
                }
            }
            for key in dropped {
                entries.remove(&key);
            }
        }
        Value::Array(items) => {
            let Some(below) = schema.items.as_deref() else { return Ok(()) };
            for (index, item) in items.iter_mut().enumerate() {
                coerce_node(&path.index(index), item, below, below.embedded_resource, malformed, unknown)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Returns the metadata that replaces `metadata`, or `None` if it stays as it is.
fn coerce_metadata(
    path: &Path<'_>,
    metadata: &Value,
    malformed: Malformed,
    unknown: &mut Vec<String>,
) -> Result<Option<Value>, Error> {
    let place = path.child("metadata").to_string();
    let mut report = |paths: Vec<String>| unknown.extend(paths.into_iter().map(|tail| format!("{place}.{tail}")));
    match ObjectMeta::decode(metadata) {
        Ok(decoded) => {
            report(decoded.unknown);
            Ok(Some(decoded.meta.to_value()))
        }
        Err(detail) if malformed == Malformed::Refuse => Err(Error::invalid(place, metadata, detail)),
        Err(_) => match metadata {
            Value::Object(entries) => {
                let decoded = ObjectMeta::decode_good_fields(entries);
                report(decoded.unknown);
                Ok(Some(decoded.meta.to_value()))
            }
            _ => Ok(None),
        },
    }
}

/// Decodes the metadata of a whole object. Returns it as it will be stored, its generation, and the paths of unknown fields.
///
/// # Errors
/// With upstream's text, when it is malformed and `malformed` is [`Malformed::Refuse`], or when it is not an object.
pub(crate) fn decode_root(metadata: &Value, malformed: Malformed) -> Result<(Value, i64, Vec<String>), String> {
    let decoded = match (ObjectMeta::decode(metadata), malformed, metadata) {
        (Ok(decoded), _, _) => decoded,
        (Err(_), Malformed::Drop, Value::Object(entries)) => ObjectMeta::decode_good_fields(entries),
        // Without an object there is no field to keep.
        (Err(_), Malformed::Drop, other) => {
            return Err(format!("invalid metadata: expected object, got {}", go_text::type_name(other)));
        }
        (Err(complaint), Malformed::Refuse, _) => return Err(complaint),
    };
    let unknown = decoded.unknown.iter().map(|tail| format!("metadata.{tail}")).collect();
    Ok((decoded.meta.to_value(), decoded.meta.generation, unknown))
}

/// Validates type and metadata of embedded resources; with `resource_root`, of the value itself too.
pub fn validate(path: &Path<'_>, value: &Value, schema: &Structural, resource_root: bool) -> Vec<Error> {
    let mut errors = Vec::new();
    validate_node(path, value, schema, resource_root || schema.embedded_resource, &mut errors);
    errors
}

fn validate_node(path: &Path<'_>, value: &Value, schema: &Structural, embedded: bool, errors: &mut Vec<Error>) {
    match value {
        Value::Object(entries) => {
            if embedded {
                validate_resource(path, entries, errors);
            }
            for (key, entry) in entries {
                if let Some(below) = schema.property(key) {
                    validate_node(&path.child(key), entry, below, below.embedded_resource, errors);
                } else if let Some(below) = schema.additional_schema() {
                    validate_node(&path.key(key), entry, below, below.embedded_resource, errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(below) = schema.items.as_deref() else { return };
            for (index, item) in items.iter().enumerate() {
                validate_node(&path.index(index), item, below, below.embedded_resource, errors);
            }
        }
        _ => {}
    }
}

fn validate_resource(path: &Path<'_>, entries: &Map<String, Value>, errors: &mut Vec<Error>) {
    for name in ["apiVersion", "kind"] {
        if !entries.contains_key(name) {
            errors.push(Error::required(path.child(name), ""));
        }
    }
    for name in ["apiVersion", "kind"] {
        let Some(value) = entries.get(name) else { continue };
        let detail = match value {
            Value::String(text) if text.is_empty() => Some("must not be empty".to_owned()),
            // A group and a version have one slash at most.
            Value::String(text) if name == "apiVersion" => {
                (text.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {text}"))
            }
            Value::String(text) => {
                let objections = names::dns_1035_label(&text.to_lowercase()).join(",");
                let mixed = "may have mixed case, but should otherwise match: ";
                (!objections.is_empty()).then(|| format!("{mixed}{objections}"))
            }
            _ => Some("must be a string".to_owned()),
        };
        errors.extend(detail.map(|detail| Error::invalid(path.child(name), value, detail)));
    }
    if let Some(metadata) = entries.get("metadata") {
        let place = path.child("metadata");
        match ObjectMeta::decode(metadata) {
            Err(detail) => errors.push(Error::invalid(place, metadata, detail)),
            Ok(mut decoded) => {
                // An embedded resource may lack a name, which ObjectMeta requires: upstream validates it with this one.
                if decoded.meta.name.is_empty() {
                    decoded.meta.name = "fakename".to_owned();
                }
                check::embedded(&place, &decoded.meta, errors);
            }
        }
    }
}

/// Validates the metadata of a new object, as upstream's `ValidateObjectMeta`. `name_errors` returns the errors of a name, or,
/// if its second argument is true, of a name's prefix.
///
/// Malformed fields count as absent, because decoding an object already refuses them.
pub fn validate_metadata(
    path: &Path<'_>,
    metadata: &Value,
    namespaced: bool,
    name_errors: &dyn Fn(&str, bool) -> Vec<String>,
) -> Vec<Error> {
    let mut errors = Vec::new();
    check::object_meta(path, &readable(metadata), namespaced, name_errors, &mut errors);
    errors
}

/// Validates the metadata of an update, as upstream's `ValidateObjectMetaUpdate`. Malformed fields count as absent.
pub fn validate_metadata_update(path: &Path<'_>, new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = Vec::new();
    check::update(path, &readable(new), &readable(old), &mut errors);
    errors
}

fn readable(metadata: &Value) -> ObjectMeta {
    metadata.as_object().map(|entries| ObjectMeta::decode_good_fields(entries).meta).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_metadata_is_dropped_and_named_and_empty_fields_vanish() {
        let mut value = json!({"kind": "X", "metadata": {"name": "a", "odd": 1, "labels": {}, "generateName": "",
            "creationTimestamp": null, "ownerReferences": [{"name": "o", "more": 2}]}});
        let unknown = coerce(&Path::Nil, &mut value, &Structural::empty(), true, Malformed::Refuse).unwrap();
        assert_eq!(unknown, ["metadata.odd", "metadata.ownerReferences[0].more"]);
        assert_eq!(
            value["metadata"],
            json!({"name": "a", "ownerReferences": [{"apiVersion": "", "kind": "", "name": "o", "uid": ""}]})
        );
    }

    #[test]
    fn malformed_metadata_is_refused_or_dropped() {
        let value = json!({"kind": 1, "metadata": {"name": "a", "labels": {"x": 1}}});
        let error = coerce(
            &Path::Nil,
            &mut json!({"metadata": {"labels": {"x": 1}}}),
            &Structural::empty(),
            true,
            Malformed::Refuse,
        );
        assert_eq!(
            error.unwrap_err().to_string(),
            "metadata: Invalid value: {\"labels\":{\"x\":1}}: json: cannot unmarshal number into Go struct field \
             ObjectMeta.labels of type string"
        );
        let mut dropped = value;
        coerce(&Path::Nil, &mut dropped, &Structural::empty(), true, Malformed::Drop).unwrap();
        assert_eq!(dropped, json!({"metadata": {"name": "a"}}));
    }

    #[test]
    fn an_embedded_resource_needs_a_type_and_good_labels() {
        let errors = validate(
            &Path::Nil,
            &json!({"kind": "a_b", "metadata": {"labels": {"-": "ok"}}}),
            &Structural::empty(),
            true,
        );
        let fields: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(fields, ["apiVersion", "kind", "metadata.labels"]);
    }
}
