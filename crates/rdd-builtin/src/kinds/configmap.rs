//! ConfigMap: keys that are valid file names, at most 1 MiB in total, and optionally immutable.

use rdd_meta::{FieldError, names::NameRule};
use serde_json::Value;

use super::common::{
    base64_size_bytes, config_key_problems, created_by_rule, invalid_each, members, metadata_errors,
    metadata_update_errors, text, updated,
};
use crate::strategy::Strategy;

pub(crate) const SIZE_BYTES_MAX: usize = 1024 * 1024;

pub(crate) static STRATEGY: Strategy = Strategy {
    validate_create: |object| created_by_rule(object, true, errors(object)),
    validate_update: |_, new, old| updated(new, old, true, update_errors(new, old)),
    ..Strategy::NAMESPACED
};

fn errors(object: &Value) -> Vec<FieldError> {
    let mut errors = metadata_errors(object, true, NameRule::DnsSubdomain);
    let mut size_bytes = 0;
    for (key, value) in members(&object["data"]) {
        let path = format!("data[{key}]");
        errors.extend(invalid_each(&path, key, config_key_problems(key)));
        if object["binaryData"].get(key).is_some() {
            errors.push(FieldError::invalid_string(path, key, "duplicate of key present in binaryData"));
        }
        size_bytes += text(value).len();
    }
    for (key, value) in members(&object["binaryData"]) {
        errors.extend(invalid_each(&format!("binaryData[{key}]"), key, config_key_problems(key)));
        size_bytes += base64_size_bytes(text(value));
    }
    if size_bytes > SIZE_BYTES_MAX {
        // Upstream reports it with the path of the whole object.
        errors.push(FieldError::too_long("[]", SIZE_BYTES_MAX));
    }
    errors
}

fn update_errors(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut found = metadata_update_errors(new, old);
    found.extend(immutable_errors(new, old, &["data", "binaryData"]));
    found.extend(errors(new));
    found
}

/// Errors for changed fields of an object with `immutable: true`.
pub(crate) fn immutable_errors(new: &Value, old: &Value, fields: &[&str]) -> Vec<FieldError> {
    let why = "field is immutable when `immutable` is set";
    if old["immutable"] != Value::Bool(true) {
        return Vec::new();
    }
    let mut changed = Vec::new();
    if new["immutable"] != Value::Bool(true) {
        changed.push("immutable");
    }
    changed.extend(fields.iter().filter(|field| !super::common::alike(&new[**field], &old[**field])));
    changed.into_iter().map(|field| FieldError::forbidden(field, why)).collect()
}
