//! Validation of label selectors and field selectors in objects.

use rdd_meta::{FieldError, labels};
use serde_json::Value;

use super::common::{invalid_each, invalid_named, list, members, qualified_name_errors, text, texts};

/// What a validation tolerates.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Leniency {
    /// Invalid label values, for objects from before they were validated.
    pub(crate) invalid_values: bool,
    /// Unknown operators, which reviews may have from newer clients.
    pub(crate) unknown_operators: bool,
}

/// Validates a label selector.
pub(crate) fn label_selector_errors(path: &str, selector: &Value, leniency: Leniency) -> Vec<FieldError> {
    let mut errors = label_errors(&format!("{path}.matchLabels"), &selector["matchLabels"]);
    for (index, requirement) in list(&selector["matchExpressions"]).iter().enumerate() {
        errors.extend(label_requirement_errors(&format!("{path}.matchExpressions[{index}]"), requirement, leniency));
    }
    errors
}

/// Validates a map of labels.
pub(crate) fn label_errors(path: &str, labels: &Value) -> Vec<FieldError> {
    let of_pair = |(key, value): (&str, &Value)| {
        let mut errors = qualified_name_errors(path, key);
        errors.extend(invalid_each(path, text(value), labels::value_problems(text(value))));
        errors
    };
    members(labels).flat_map(of_pair).collect()
}

/// Validates a label selector requirement.
pub(crate) fn label_requirement_errors(path: &str, requirement: &Value, leniency: Leniency) -> Vec<FieldError> {
    let mut errors = values_errors(path, requirement, leniency);
    errors.extend(qualified_name_errors(&format!("{path}.key"), text(&requirement["key"])));
    if !leniency.invalid_values {
        for (index, value) in texts(&requirement["values"]).into_iter().enumerate() {
            errors.extend(invalid_each(&format!("{path}.values[{index}]"), value, labels::value_problems(value)));
        }
    }
    errors
}

/// Validates a field selector requirement.
pub(crate) fn field_requirement_errors(path: &str, requirement: &Value, leniency: Leniency) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if text(&requirement["key"]).is_empty() {
        errors.push(FieldError::required(format!("{path}.key"), "must be specified"));
    }
    errors.extend(values_errors(path, requirement, leniency));
    errors
}

fn values_errors(path: &str, requirement: &Value, leniency: Leniency) -> Vec<FieldError> {
    let values = list(&requirement["values"]);
    match text(&requirement["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            vec![FieldError::required(format!("{path}.values"), why)]
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            vec![FieldError::forbidden(format!("{path}.values"), why)]
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => Vec::new(),
        _ if leniency.unknown_operators => Vec::new(),
        other => vec![invalid_named(format!("{path}.operator"), other, "not a valid selector operator")],
    }
}
