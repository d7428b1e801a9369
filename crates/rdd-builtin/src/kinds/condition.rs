//! Validation of `metav1.Condition`.

use std::collections::HashSet;

use rdd_meta::FieldError;
use serde_json::{Value, json};

use super::common::{list, number, qualified_name_errors, text, unsupported_named};

const REASON_BYTES_MAX: usize = 1024;
const MESSAGE_BYTES_MAX: usize = 32 * 1024;

/// Validates a list of conditions.
pub(crate) fn condition_errors(path: &str, conditions: &Value) -> Vec<FieldError> {
    let conditions = list(conditions);
    let mut errors = Vec::new();
    let mut types = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let kind = text(&condition["type"]);
        if !types.insert(kind) {
            errors.push(FieldError::duplicate(format!("{path}.type"), &json!(kind)));
        }
        errors.extend(one_condition_errors(&path, condition));
    }
    errors
}

fn one_condition_errors(path: &str, condition: &Value) -> Vec<FieldError> {
    let mut errors = qualified_name_errors(&format!("{path}.type"), text(&condition["type"]));
    let status = text(&condition["status"]);
    let known = ["False", "True", "Unknown"];
    if !known.contains(&status) {
        errors.push(unsupported_named(format!("{path}.status"), status, &known));
    }
    if number(&condition["observedGeneration"]) < 0 {
        let why = "must be greater than or equal to zero";
        let generation = &condition["observedGeneration"];
        errors.push(FieldError::invalid(format!("{path}.observedGeneration"), generation, why));
    }
    if text(&condition["lastTransitionTime"]).is_empty() {
        errors.push(FieldError::required(format!("{path}.lastTransitionTime"), ""));
    }
    errors.extend(reason_errors(&format!("{path}.reason"), text(&condition["reason"])));
    if text(&condition["message"]).len() > MESSAGE_BYTES_MAX {
        errors.push(FieldError::too_long(format!("{path}.message"), MESSAGE_BYTES_MAX));
    }
    errors
}

fn reason_errors(path: &str, reason: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if reason.is_empty() {
        errors.push(FieldError::required(path, ""));
        return errors;
    }
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = reason.as_bytes();
    let valid = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|last| is_word(*last))
        && bytes.iter().all(|byte| is_word(*byte) || b",:".contains(byte));
    if !valid {
        let why = "a condition reason must start with alphabetic character, optionally followed by a string of \
                   alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  \
                   or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
                   '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
        errors.push(FieldError::invalid_string(path, reason, why));
    }
    if reason.len() > REASON_BYTES_MAX {
        errors.push(FieldError::too_long(path, REASON_BYTES_MAX));
    }
    errors
}
