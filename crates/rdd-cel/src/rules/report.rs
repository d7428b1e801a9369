//! Failures of rules, formatted as Kubernetes' field errors.

use std::fmt;

use rdd_meta::go_text;
use serde_json::Value as Json;

/// The kind of a failure, from the rule's `reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// `FieldValueInvalid`
    Invalid,
    /// `FieldValueForbidden`
    Forbidden,
    /// `FieldValueRequired`
    Required,
    /// `FieldValueDuplicate`
    Duplicate,
    /// The rule could not be evaluated
    Internal,
}

impl FailureKind {
    pub(super) fn of_reason(reason: &str) -> Self {
        match reason {
            "FieldValueForbidden" => FailureKind::Forbidden,
            "FieldValueRequired" => FailureKind::Required,
            "FieldValueDuplicate" => FailureKind::Duplicate,
            _ => FailureKind::Invalid,
        }
    }

    /// The reason of the cause in a Status.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            FailureKind::Invalid => "FieldValueInvalid",
            FailureKind::Forbidden => "FieldValueForbidden",
            FailureKind::Required => "FieldValueRequired",
            FailureKind::Duplicate => "FieldValueDuplicate",
            FailureKind::Internal => "InternalError",
        }
    }

    fn shown(self) -> &'static str {
        match self {
            FailureKind::Invalid => "Invalid value",
            FailureKind::Forbidden => "Forbidden",
            FailureKind::Required => "Required value",
            FailureKind::Duplicate => "Duplicate value",
            FailureKind::Internal => "Internal error",
        }
    }
}

/// The value that a failure shows.
#[derive(Debug, Clone, PartialEq)]
pub enum BadValue {
    /// None, for objects and lists
    Omitted,
    /// The name of the value's type, for a rule that could not be evaluated
    TypeName(String),
    /// The value
    Json(Json),
}

/// A rule that is not satisfied or could not be evaluated.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The path of the field; empty for the whole object
    pub path: String,
    /// The kind of failure
    pub kind: FailureKind,
    /// The value that is shown
    pub value: BadValue,
    /// The message
    pub detail: String,
}

impl Failure {
    /// Formats the failure without its path (`Invalid value: "object": …`), as in a cause of a Status.
    #[must_use]
    pub fn body(&self) -> String {
        let kind = self.kind.shown();
        let head = match (&self.value, self.kind) {
            (_, FailureKind::Forbidden | FailureKind::Required | FailureKind::Internal) => kind.to_owned(),
            (BadValue::Omitted, _) => kind.to_owned(),
            (BadValue::TypeName(text) | BadValue::Json(Json::String(text)), _) => {
                format!("{kind}: {}", go_text::quote(text))
            }
            (BadValue::Json(Json::Number(number)), _) if number.as_i64().is_none() => {
                format!("{kind}: {}", go_text::plain_float(number.as_f64().unwrap_or_default()))
            }
            (BadValue::Json(json), _) => format!("{kind}: {json}"),
        };
        if self.detail.is_empty() { head } else { format!("{head}: {}", self.detail) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "<nil>" } else { &self.path };
        write!(f, "{path}: {}", self.body())
    }
}
