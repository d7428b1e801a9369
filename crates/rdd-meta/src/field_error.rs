//! What is wrong with one field, in the words of upstream's `field.Error`.

use std::{collections::HashSet, fmt};

use serde_json::Value;

use crate::{go_json, go_text};

/// What kind of wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FieldErrorKind {
    /// It refers to something that is not there.
    NotFound,
    /// It is missing.
    Required,
    /// It is there twice.
    Duplicate,
    /// It is malformed.
    Invalid,
    /// It is of the wrong type.
    TypeInvalid,
    /// It is none of the values that are known.
    NotSupported,
    /// It may not be there.
    Forbidden,
    /// It has too many bytes.
    TooLong,
    /// It has too many items.
    TooMany,
    /// It is not the user's fault.
    Internal,
}

impl FieldErrorKind {
    /// The word for programs, as in the `reason` of a Status cause.
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

/// How many bytes one value may take up in the errors of one rule, however many errors there are.
const REPEATED_BYTES_MAX: usize = 64 * 1024;

/// The text of a value that several errors show.
///
/// Where each item of a list can be wrong and each error shows the whole list, upstream answers megabytes with gigabytes. Here the
/// first error has the text, and so have the next ones as long as they take up no more than 64 KiB together; then it says no more.
#[derive(Debug)]
pub struct Repeated<F> {
    make: F,
    text: Option<String>,
    shown_bytes: usize,
}

impl<F: FnMut() -> String> Repeated<F> {
    /// A text that is made when it is first asked for.
    pub fn new(make: F) -> Self {
        Self { make, text: None, shown_bytes: 0 }
    }
}

impl<F: FnMut() -> String> Iterator for Repeated<F> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let text = self.text.get_or_insert_with(&mut self.make);
        let is_first = self.shown_bytes == 0;
        // The error around the text counts too: an empty list can be shown for ever.
        self.shown_bytes += text.len() + 64;
        (is_first || self.shown_bytes <= REPEATED_BYTES_MAX).then(|| text.clone())
    }
}

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// Where, as in `metadata.labels`.
    pub path: String,
    /// What kind of wrong.
    pub kind: FieldErrorKind,
    /// The offending value as the text of it that goes into the message; `None` leaves it out.
    pub value: Option<String>,
    /// The rest of the sentence; may be empty.
    pub detail: String,
}

impl std::error::Error for FieldError {}

impl FieldError {
    fn new(path: impl Into<String>, kind: FieldErrorKind, value: Option<String>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), kind, value, detail: detail.into() }
    }

    /// It is missing.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Required, None, detail)
    }

    /// It may not be there.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Forbidden, None, detail)
    }

    /// It is malformed.
    pub fn invalid(path: impl Into<String>, value: impl BadValue, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Invalid, Some(value.text()), detail)
    }

    /// A malformed string.
    pub fn invalid_string(path: impl Into<String>, value: &str, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Invalid, Some(go_text::quote(value)), detail)
    }

    /// A malformed value whose text the caller has made.
    pub fn invalid_text(path: impl Into<String>, value: String, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Invalid, Some(value), detail)
    }

    /// It is of the wrong type.
    pub fn type_invalid(path: impl Into<String>, value: impl BadValue, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::TypeInvalid, Some(value.text()), detail)
    }

    /// It is none of the values that are known.
    pub fn not_supported<S: AsRef<str>>(path: impl Into<String>, value: impl BadValue, supported: &[S]) -> Self {
        let supported: Vec<String> = supported.iter().map(|value| go_text::quote(value.as_ref())).collect();
        let detail =
            if supported.is_empty() { String::new() } else { format!("supported values: {}", supported.join(", ")) };
        Self::new(path, FieldErrorKind::NotSupported, Some(value.text()), detail)
    }

    /// It refers to something that is not there.
    pub fn not_found(path: impl Into<String>, value: impl BadValue) -> Self {
        Self::new(path, FieldErrorKind::NotFound, Some(value.text()), "")
    }

    /// It is there twice.
    pub fn duplicate(path: impl Into<String>, value: impl BadValue) -> Self {
        Self::new(path, FieldErrorKind::Duplicate, Some(value.text()), "")
    }

    /// It has more bytes than it may have. A negative bound is not mentioned.
    pub fn too_long(path: impl Into<String>, bytes_max: impl TryInto<usize>) -> Self {
        let detail = match bytes_max.try_into() {
            Ok(1) => "may not be more than 1 byte".to_owned(),
            Ok(bytes_max) => format!("may not be more than {bytes_max} bytes"),
            Err(_) => "value is too long".to_owned(),
        };
        Self::new(path, FieldErrorKind::TooLong, None, detail)
    }

    /// It has more items than it may have. Negative numbers are not mentioned.
    pub fn too_many(path: impl Into<String>, items: impl TryInto<usize>, items_max: impl TryInto<usize>) -> Self {
        let detail = match items_max.try_into() {
            Ok(1) => "must have at most 1 item".to_owned(),
            Ok(items_max) => format!("must have at most {items_max} items"),
            Err(_) => "has too many items".to_owned(),
        };
        let items = items.try_into().ok().map(|items| items.to_string());
        Self::new(path, FieldErrorKind::TooMany, items, detail)
    }

    /// It is not the user's fault.
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

/// An offending value, by the text that a message has for it: strings as `%q`, numbers and booleans as `%v`, and
/// everything else as JSON.
pub trait BadValue {
    /// The text.
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

/// All of them in one sentence: alone as it is, several in brackets, each text once. Empty for none.
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
