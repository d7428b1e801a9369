//! Validation of a version apart from its schema: deprecation, subresources, printer columns and selectable fields.

use rdd_meta::go_text;

use std::collections::BTreeSet;

use super::{
    Demands,
    definition::{Column, Subresources, Version},
    path as field_path, show,
};
use crate::{
    field::{Error, Path},
    props::Props,
    structural::Structural,
};

const SELECTABLE_MAX: usize = 8;
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// Validates the deprecation warning.
pub(super) fn deprecation(path: &Path<'_>, version: &Version) -> Vec<Error> {
    let Some(warning) = &version.deprecation_warning else { return Vec::new() };
    let mut objections = Vec::new();
    if version.deprecated {
        if warning.len() > 256 {
            objections.push("must be <= 256 characters long".to_owned());
        }
        if warning.is_empty() {
            objections.push("must not be an empty string".to_owned());
        }
        // The server sends the warning in a header, so it must be printable.
        if let Some((at, _)) = warning.char_indices().find(|(_, character)| !go_text::is_print(*character)) {
            let detail = "must only contain printable UTF-8 characters; non-printable character found at index";
            objections.push(format!("{detail} {at}"));
        }
    } else {
        objections.push("can only be set for deprecated versions".to_owned());
    }
    let shown = show::optional_string(Some(warning));
    objections.into_iter().map(|objection| Error::invalid_text(path, shown.clone(), objection)).collect()
}

/// Validates a path in dot notation below one of `roots`.
fn scale_path(path: &Path<'_>, value: &str, roots: &[&str], detail: &str) -> Option<Error> {
    if !value.starts_with('.') {
        return Some(Error::invalid(path, value, "must be a simple json path starting with ."));
    }
    (!roots.iter().any(|root| value.starts_with(root))).then(|| Error::invalid(path, value, detail))
}

pub(super) fn subresources(path: &Path<'_>, subresources: Option<&Subresources>) -> Vec<Error> {
    let Some(scale) = subresources.and_then(|subresources| subresources.scale.as_ref()) else { return Vec::new() };
    let mut errors = Vec::new();
    for (name, value, root, detail) in [
        ("scale.specReplicasPath", &scale.spec_replicas_path, ".spec.", "should be a json path under .spec"),
        ("scale.statusReplicasPath", &scale.status_replicas_path, ".status.", "should be a json path under .status"),
    ] {
        let place = path.child(name);
        if value.is_empty() {
            errors.push(Error::required(place, ""));
        } else {
            errors.extend(scale_path(&place, value, &[root], detail));
        }
    }
    if let Some(value) = scale.label_selector_path.as_deref().filter(|value| !value.is_empty()) {
        let detail = "should be a json path under either .spec or .status";
        let place = path.child("scale.labelSelectorPath");
        errors.extend(scale_path(&place, value, &[".spec.", ".status."], detail).map(|error| {
            // Upstream passes a pointer in this one case, so its error shows JSON.
            if error.detail == detail {
                Error::invalid_text(place, show::optional_string(Some(value)), detail)
            } else {
                error
            }
        }));
    }
    errors
}

/// Validates printer columns.
pub(super) fn columns(path: &Path<'_>, columns: &[Column]) -> Vec<Error> {
    let mut errors = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        let place = path.index(index);
        if column.name.is_empty() {
            errors.push(Error::required(place.child("name"), ""));
        }
        let detail = format!("must be one of {}", COLUMN_TYPES.join(","));
        if column.kind.is_empty() {
            errors.push(Error::required(place.child("type"), detail));
        } else if !COLUMN_TYPES.contains(&column.kind.as_str()) {
            errors.push(Error::invalid(place.child("type"), column.kind.as_str(), detail));
        }
        if !column.format.is_empty() && !COLUMN_FORMATS.contains(&column.format.as_str()) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(Error::invalid(place.child("format"), column.format.as_str(), detail));
        }
        let json_path = place.child("JSONPath");
        if column.json_path.is_empty() {
            errors.push(Error::required(json_path, ""));
        } else if !column.json_path.starts_with('.') {
            let detail = "must be a simple json path starting with .";
            errors.push(Error::invalid(json_path, column.json_path.as_str(), detail));
        }
    }
    errors
}

/// Validates selectable fields: each names a scalar field outside of metadata, none twice.
pub(super) fn selectable(
    path: &Path<'_>,
    compile_path: &Path<'_>,
    fields: &[String],
    schema: Option<&Props>,
    version: &str,
    demands: &Demands,
) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut schema = schema;
    // Without a compiled schema, every path below is invalid, too.
    if let Some(Err(error)) = schema.map(Structural::compile) {
        errors.push(Error::invalid(compile_path, "", error.to_string()));
        schema = None;
    }
    let mut unique = BTreeSet::new();
    for (index, field) in fields.iter().enumerate() {
        let place = path.index(index);
        let place = place.child("jsonPath");
        if field.is_empty() {
            errors.push(Error::required(place, ""));
            continue;
        }
        // Brackets are not allowed: a selectable field is a plain path.
        let resolved = match field_path::resolve(field, schema, false) {
            Ok(resolved) => resolved,
            Err(error) => {
                errors.push(Error::invalid(place, field.as_str(), format!("is an invalid path: {error}")));
                continue;
            }
        };
        // Name and namespace are selectable anyway, and no other metadata is.
        if resolved.root == "metadata" {
            errors.push(Error::invalid(place, field.as_str(), "must not point to fields in metadata"));
        }
        let scalar = |props: &Props| matches!(props.kind.as_str(), "string" | "boolean" | "integer");
        if !resolved.schema.is_some_and(scalar) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats \
                          are allowed.";
            errors.push(Error::invalid(place, field.as_str(), detail));
        }
        if !unique.insert(resolved.text) {
            errors.push(Error::duplicate(place, field.as_str()));
        }
    }
    if unique.len() > SELECTABLE_MAX && !demands.too_many_selectable.contains(version) {
        errors.push(Error::too_many(path, unique.len(), SELECTABLE_MAX));
    }
    errors
}

/// How many selectable fields a version may have.
pub(crate) fn selectable_max() -> usize {
    SELECTABLE_MAX
}
