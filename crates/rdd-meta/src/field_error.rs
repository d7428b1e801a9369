//! Validation errors of single fields, with the messages of upstream's `field.Error`.

use std::{collections::HashSet, fmt};

use serde_json::Value;

use crate::{go_json, go_text};

/// The kind of a field error. Mirrors upstream's `field.ErrorType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FieldErrorKind {
    /// The value refers to something that does not exist.
    NotFound,
    /// The field is required and absent.
    Required,
    /// The value occurs more than once where it must be unique.
    Duplicate,
    /// The value is malformed.
    Invalid,
    /// The value has the wrong type.
    TypeInvalid,
    /// The value is not one of the supported values.
    NotSupported,
    /// The field must not be set.
    Forbidden,
    /// The value has too many bytes.
    TooLong,
    /// The value has too many items.
    TooMany,
    /// The server failed to validate the field; the user is not at fault.
    Internal,
}

impl FieldErrorKind {
    /// The machine-readable reason, for the `reason` of a Status cause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong | Self::Internal)
    }
}

/// How many bytes a [`Repeated`] value may take up in the errors of one rule.
const REPEATED_BYTES_MAX: usize = 64 * 1024;

/// The text of a value that several errors of one rule show.
///
/// When every item of a list can be invalid and each error shows the whole list, the response grows with the square of
/// the request: upstream turns megabytes into gigabytes. This iterator bounds it. The first error always gets the text,
/// the next ones only while texts and errors together take up at most 64 KiB; then the iterator ends and the rule
/// reports no further errors.
#[derive(Debug)]
pub struct Repeated<F> {
    make: F,
    text: Option<String>,
    shown_bytes: usize,
}

impl<F: FnMut() -> String> Repeated<F> {
    /// Creates the iterator. `make` runs once, when the first error needs the text.
    pub fn new(make: F) -> Self {
        Self { make, text: None, shown_bytes: 0 }
    }
}

impl<F: FnMut() -> String> Iterator for Repeated<F> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let text = self.text.get_or_insert_with(&mut self.make);
        let is_first = self.shown_bytes == 0;
        // Each error has a size of its own: without it, an empty list could be repeated without end.
        self.shown_bytes += text.len() + 64;
        (is_first || self.shown_bytes <= REPEATED_BYTES_MAX).then(|| text.clone())
    }
}

/// A validation error of one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// The path of the field, as in `metadata.labels`.
    pub path: String,
    /// The kind of error.
    pub kind: FieldErrorKind,
    /// The invalid value as the message shows it; `None` leaves it out.
    pub value: Option<String>,
    /// The explanation at the end of the message; may be empty.
    pub detail: String,
}

impl std::error::Error for FieldError {}

impl FieldError {
    fn new(path: impl Into<String>, kind: FieldErrorKind, value: Option<String>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), kind, value, detail: detail.into() }
    }

    /// A required field is absent.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Required, None, detail)
    }

    /// A field is set that must not be set.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Forbidden, None, detail)
    }

    /// A malformed value.
    pub fn invalid(path: impl Into<String>, value: impl BadValue, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Invalid, Some(value.text()), detail)
    }

    /// A malformed string.
    pub fn invalid_string(path: impl Into<String>, value: &str, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Invalid, Some(go_text::quote(value)), detail)
    }

    /// A malformed value that the caller has already formatted.
    pub fn invalid_text(path: impl Into<String>, value: String, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Invalid, Some(value), detail)
    }

    /// A value of the wrong type.
    pub fn type_invalid(path: impl Into<String>, value: impl BadValue, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::TypeInvalid, Some(value.text()), detail)
    }

    /// A value that is not one of the supported values.
    pub fn not_supported<S: AsRef<str>>(path: impl Into<String>, value: impl BadValue, supported: &[S]) -> Self {
        let supported: Vec<String> = supported.iter().map(|value| go_text::quote(value.as_ref())).collect();
        let detail =
            if supported.is_empty() { String::new() } else { format!("supported values: {}", supported.join(", ")) };
        Self::new(path, FieldErrorKind::NotSupported, Some(value.text()), detail)
    }

    /// A reference to something that does not exist.
    pub fn not_found(path: impl Into<String>, value: impl BadValue) -> Self {
        Self::new(path, FieldErrorKind::NotFound, Some(value.text()), "")
    }

    /// A duplicate of a value that must be unique.
    pub fn duplicate(path: impl Into<String>, value: impl BadValue) -> Self {
        Self::new(path, FieldErrorKind::Duplicate, Some(value.text()), "")
    }

    /// A value with more than `bytes_max` bytes. The message leaves out a negative maximum.
    pub fn too_long(path: impl Into<String>, bytes_max: impl TryInto<usize>) -> Self {
        let detail = match bytes_max.try_into() {
            Ok(1) => "may not be more than 1 byte".to_owned(),
            Ok(bytes_max) => format!("may not be more than {bytes_max} bytes"),
            Err(_) => "value is too long".to_owned(),
        };
        Self::new(path, FieldErrorKind::TooLong, None, detail)
    }

    /// A list with more than `items_max` items. The message leaves out negative numbers.
    pub fn too_many(path: impl Into<String>, items: impl TryInto<usize>, items_max: impl TryInto<usize>) -> Self {
        let detail = match items_max.try_into() {
            Ok(1) => "must have at most 1 item".to_owned(),
            Ok(items_max) => format!("must have at most {items_max} items"),
            Err(_) => "has too many items".to_owned(),
        };
        let items = items.try_into().ok().map(|items| items.to_string());
        Self::new(path, FieldErrorKind::TooMany, items, detail)
    }

    /// A failure of the server itself.
    pub fn internal(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Internal, None, detail)
    }

    /// The message without the path, as in the `message` of a Status cause.
    pub fn body(&self) -> String {
        let mut body = self.kind.title().to_owned();
        if let Some(value) = self.value.as_ref().filter(|_| self.kind.shows_value()) {
            body.push_str(": ");
            body.push_str(value);
        }
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.body())
    }
}

/// Values that an error can show. As upstream formats them: strings as `%q`, numbers and booleans as `%v`, everything
/// else as JSON.
pub trait BadValue {
    /// Formats the value for the message.
    fn text(self) -> String;
}

impl BadValue for &Value {
    fn text(self) -> String {
        match self {
            Value::String(string) => go_text::quote(string),
            Value::Number(number) => go_text::plain_number(number),
            other => go_json::to_string(other),
        }
    }
}

impl BadValue for &str {
    fn text(self) -> String {
        go_text::quote(self)
    }
}

impl BadValue for &String {
    fn text(self) -> String {
        go_text::quote(self)
    }
}

impl BadValue for &[String] {
    fn text(self) -> String {
        go_json::to_string(&self.into())
    }
}

impl BadValue for bool {
    fn text(self) -> String {
        self.to_string()
    }
}

impl BadValue for i64 {
    fn text(self) -> String {
        self.to_string()
    }
}

/// Joins errors into one message, like upstream's `ToAggregate`: duplicates are removed, several errors are put in
/// brackets. Empty without errors.
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut seen = HashSet::new();
    let texts: Vec<String> =
        errors.iter().map(FieldError::to_string).filter(|text| seen.insert(text.clone())).collect();
    match texts.as_slice() {
        [] => String::new(),
        [alone] => alone.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_has_its_sentence() {
        for (error, text) in [
            (FieldError::required("a", ""), "a: Required value"),
            (FieldError::required("a", "why"), "a: Required value: why"),
            (FieldError::forbidden("a.b", "no"), "a.b: Forbidden: no"),
            (FieldError::invalid("a", &json!("x\"<"), "bad"), r#"a: Invalid value: "x\"<": bad"#),
            (FieldError::invalid("a", &json!(1_000_000.0), "bad"), "a: Invalid value: 1e+06: bad"),
            (FieldError::invalid("a", &json!(-3), "bad"), "a: Invalid value: -3: bad"),
            (FieldError::invalid("a", &json!(["<"]), "bad"), r#"a: Invalid value: ["\u003c"]: bad"#),
            (FieldError::type_invalid("a", &json!(true), "bad"), "a: Invalid value: true: bad"),
            (
                FieldError::not_supported("a", &json!("x"), &["", "B"]),
                r#"a: Unsupported value: "x": supported values: "", "B""#,
            ),
            (FieldError::not_found("a", &json!("x")), r#"a: Not found: "x""#),
            (FieldError::duplicate("a", &json!("x")), r#"a: Duplicate value: "x""#),
            (FieldError::too_long("a", 128), "a: Too long: may not be more than 128 bytes"),
            (FieldError::too_many("a", 3, 1), "a: Too many: 3: must have at most 1 item"),
            (FieldError::too_long("a", 1), "a: Too long: may not be more than 1 byte"),
            (FieldError::too_long("a", -1), "a: Too long: value is too long"),
            (FieldError::too_many("a", -1, -1), "a: Too many: has too many items"),
            (FieldError::invalid("a", &["<".to_owned()][..], "bad"), r#"a: Invalid value: ["\u003c"]: bad"#),
            (FieldError::internal("a", "oops"), "a: Internal error: oops"),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn an_aggregate_has_brackets_only_around_different_errors() {
        let (one, two) = (FieldError::required("a", ""), FieldError::required("b", ""));
        assert_eq!(aggregate(&[]), "");
        assert_eq!(aggregate(&[one.clone(), one.clone()]), "a: Required value");
        assert_eq!(aggregate(&[one.clone(), two, one]), "[a: Required value, b: Required value]");
    }
}
