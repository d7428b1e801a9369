//! Converts failures of CEL rules to field errors of the API.

use rdd_cel::rules::{BadValue as RuleValue, Failure, FailureKind};
use rdd_meta::{FieldError, field_error::FieldErrorKind, go_text};
use serde_json::Value;

/// Converts a failed rule to a field error.
pub(super) fn of_rule(failure: Failure) -> FieldError {
    let value = match &failure.value {
        RuleValue::Omitted => None,
        RuleValue::TypeName(name) => Some(go_text::quote(name)),
        RuleValue::Json(value) => shown(value),
    };
    let kind = match failure.kind {
        FailureKind::Invalid => FieldErrorKind::Invalid,
        FailureKind::Forbidden => FieldErrorKind::Forbidden,
        FailureKind::Required => FieldErrorKind::Required,
        FailureKind::Duplicate => FieldErrorKind::Duplicate,
        FailureKind::Internal => FieldErrorKind::Internal,
    };
    let path = if failure.path.is_empty() { "<nil>".to_owned() } else { failure.path };
    FieldError { path, kind, value, detail: failure.detail }
}

/// The text of a value in an error message.
fn shown(value: &Value) -> Option<String> {
    FieldError::invalid("", value, "").value
}
