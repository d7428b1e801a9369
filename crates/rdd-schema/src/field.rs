//! Errors about one field of an object, worded as `k8s.io/apimachinery/pkg/util/validation/field` words them.

use std::{
    collections::BTreeSet,
    fmt::{self, Display, Write},
};

use serde_json::{Value, json};

use crate::{golang, write};

/// Where in an object something is: a stack of names, keys and indexes that lives as long as the recursion that built it.
#[derive(Clone, Copy, Debug)]
pub enum Path<'a> {
    /// No path at all: upstream's nil, printed `<nil>` when nothing follows.
    Nil,
    Child(&'a Path<'a>, &'a str),
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    /// A field of a struct: `.name`.
    pub fn child(&'a self, name: &'a str) -> Path<'a> {
        Path::Child(self, name)
    }

    /// An entry of a map: `[key]`.
    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }

    /// An element of a list: `[index]`.
    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }

    fn write(&self, out: &mut String) {
        match self {
            Path::Nil => {}
            // Upstream prints a nameless child as a subscript.
            Path::Child(parent, "") | Path::Key(parent, "") => {
                parent.write(out);
                out.push_str("[]");
            }
            Path::Child(parent, name) => {
                parent.write(out);
                if !matches!(parent, Path::Nil) {
                    out.push('.');
                }
                out.push_str(name);
            }
            Path::Key(parent, key) => {
                parent.write(out);
                let _ = write!(out, "[{key}]");
            }
            Path::Index(parent, index) => {
                parent.write(out);
                let _ = write!(out, "[{index}]");
            }
        }
    }
}

impl Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(self, Path::Nil) {
            return f.write_str("<nil>");
        }
        let mut out = String::new();
        self.write(&mut out);
        f.write_str(&out)
    }
}

/// What is wrong with a field; the names go on the wire as the reasons of a Status's causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    Internal,
    TypeInvalid,
}

impl ErrorType {
    /// The reason of a cause: `FieldValueRequired` and so on.
    pub fn reason(self) -> &'static str {
        match self {
            ErrorType::NotFound => "FieldValueNotFound",
            ErrorType::Required => "FieldValueRequired",
            ErrorType::Duplicate => "FieldValueDuplicate",
            ErrorType::Invalid => "FieldValueInvalid",
            ErrorType::NotSupported => "FieldValueNotSupported",
            ErrorType::Forbidden => "FieldValueForbidden",
            ErrorType::TooLong => "FieldValueTooLong",
            ErrorType::TooMany => "FieldValueTooMany",
            ErrorType::Internal => "InternalError",
            ErrorType::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn words(self) -> &'static str {
        match self {
            ErrorType::NotFound => "Not found",
            ErrorType::Required => "Required value",
            ErrorType::Duplicate => "Duplicate value",
            ErrorType::Invalid | ErrorType::TypeInvalid => "Invalid value",
            ErrorType::NotSupported => "Unsupported value",
            ErrorType::Forbidden => "Forbidden",
            ErrorType::TooLong => "Too long",
            ErrorType::TooMany => "Too many",
            ErrorType::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(self, ErrorType::Required | ErrorType::Forbidden | ErrorType::TooLong | ErrorType::Internal)
    }
}

/// The offending value as the message shows it.
#[derive(Clone, Debug, PartialEq)]
pub enum BadValue {
    /// Nothing is shown.
    Omitted,
    /// A JSON value: strings quoted as Go quotes, the rest as JSON or as Go prints numbers.
    Value(Value),
    /// Text that stands for a value that is no JSON value of ours (upstream shows internal structs).
    Raw(String),
}

/// One field error.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    pub kind: ErrorType,
    pub field: String,
    pub value: BadValue,
    pub detail: String,
}

impl Error {
    fn new(kind: ErrorType, path: impl Display, value: BadValue, detail: impl Into<String>) -> Error {
        Error { kind, field: path.to_string(), value, detail: detail.into() }
    }

    pub fn required(path: impl Display, detail: impl Into<String>) -> Error {
        Error::new(ErrorType::Required, path, BadValue::Omitted, detail)
    }

    pub fn forbidden(path: impl Display, detail: impl Into<String>) -> Error {
        Error::new(ErrorType::Forbidden, path, BadValue::Omitted, detail)
    }

    pub fn invalid(path: impl Display, value: impl Into<Value>, detail: impl Into<String>) -> Error {
        Error::new(ErrorType::Invalid, path, BadValue::Value(value.into()), detail)
    }

    /// An invalid value that is shown by `text`, verbatim.
    pub fn invalid_raw(path: impl Display, text: String, detail: impl Into<String>) -> Error {
        Error::new(ErrorType::Invalid, path, BadValue::Raw(text), detail)
    }

    pub fn type_invalid(path: impl Display, value: impl Into<Value>, detail: impl Into<String>) -> Error {
        Error::new(ErrorType::TypeInvalid, path, BadValue::Value(value.into()), detail)
    }

    pub fn duplicate(path: impl Display, value: impl Into<Value>) -> Error {
        Error::new(ErrorType::Duplicate, path, BadValue::Value(value.into()), "")
    }

    pub fn not_found(path: impl Display, value: impl Into<Value>) -> Error {
        Error::new(ErrorType::NotFound, path, BadValue::Value(value.into()), "")
    }

    pub fn internal(path: impl Display, detail: impl Into<String>) -> Error {
        Error::new(ErrorType::Internal, path, BadValue::Omitted, detail)
    }

    /// A value outside an enumeration; the detail lists what is supported.
    pub fn not_supported<S: AsRef<str>>(path: impl Display, value: impl Into<Value>, supported: &[S]) -> Error {
        let quoted: Vec<String> = supported.iter().map(|one| golang::quote(one.as_ref())).collect();
        let detail = if quoted.is_empty() { String::new() } else { format!("supported values: {}", quoted.join(", ")) };
        Error::new(ErrorType::NotSupported, path, BadValue::Value(value.into()), detail)
    }

    /// A string longer than `max`; a negative `max` is not mentioned.
    pub fn too_long(path: impl Display, max: i64) -> Error {
        let detail = match max {
            1 => "may not be more than 1 byte".to_owned(),
            0.. => format!("may not be more than {max} bytes"),
            _ => "value is too long".to_owned(),
        };
        Error::new(ErrorType::TooLong, path, BadValue::Omitted, detail)
    }

    /// A collection with `actual` entries where `max` are allowed; negative numbers are not mentioned.
    pub fn too_many(path: impl Display, actual: i64, max: i64) -> Error {
        let detail = match max {
            1 => "must have at most 1 item".to_owned(),
            0.. => format!("must have at most {max} items"),
            _ => "has too many items".to_owned(),
        };
        let value = if actual >= 0 { BadValue::Value(actual.into()) } else { BadValue::Omitted };
        Error::new(ErrorType::TooMany, path, value, detail)
    }

    /// The message without the field's name: what a cause of a Status says.
    pub fn body(&self) -> String {
        let mut out = self.kind.words().to_owned();
        if self.kind.shows_value() {
            match &self.value {
                BadValue::Omitted => {}
                BadValue::Raw(text) => {
                    let _ = write!(out, ": {text}");
                }
                BadValue::Value(value) => {
                    let _ = write!(out, ": {}", shown(value));
                }
            }
        }
        if !self.detail.is_empty() {
            let _ = write!(out, ": {}", self.detail);
        }
        out
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => golang::quote(text),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => integer.to_string(),
            None => golang::float_verb_v(number.as_f64().unwrap_or(f64::NAN)),
        },
        other => write::to_string(other),
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for Error {}

/// All errors as one text, each said once: `a`, or `[a, b]`. Empty when there is none.
pub fn aggregate(errors: &[Error]) -> String {
    let mut seen = BTreeSet::new();
    let mut texts = Vec::new();
    for error in errors {
        let text = error.to_string();
        if seen.insert(text.clone()) {
            texts.push(text);
        }
    }
    match texts.len() {
        0 => String::new(),
        1 => texts.remove(0),
        _ => format!("[{}]", texts.join(", ")),
    }
}

/// The Status of an object that failed validation: 422 `Invalid`, one cause per error.
pub fn invalid_status(group: &str, kind: &str, name: &str, errors: &[Error]) -> Value {
    let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
    let mut message = format!("{qualified} {} is invalid", golang::quote(name));
    if !errors.is_empty() {
        let _ = write!(message, ": {}", aggregate(errors));
    }
    let causes: Vec<Value> = errors
        .iter()
        .map(|error| {
            let mut cause = serde_json::Map::new();
            for (key, text) in [("reason", error.kind.reason()), ("message", &error.body()), ("field", &error.field)] {
                if !text.is_empty() {
                    cause.insert(key.into(), text.into());
                }
            }
            Value::Object(cause)
        })
        .collect();
    let mut details = serde_json::Map::new();
    for (key, text) in [("name", name), ("group", group), ("kind", kind)] {
        if !text.is_empty() {
            details.insert(key.into(), text.into());
        }
    }
    if !causes.is_empty() {
        details.insert("causes".into(), causes.into());
    }
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": "Invalid", "details": details, "code": 422,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_prints_names_keys_and_indexes_and_nil() {
        let spec = Path::Nil.child("spec");
        let key = spec.key("a.b");
        assert_eq!(key.index(3).child("x").to_string(), "spec[a.b][3].x");
        assert_eq!(Path::Nil.to_string(), "<nil>");
        assert_eq!(Path::Nil.index(1).to_string(), "[1]");
        assert_eq!(spec.child("").to_string(), "spec[]");
    }

    #[test]
    fn several_errors_are_listed_in_brackets_and_each_only_once() {
        let one = Error::required(Path::Nil.child("a"), "");
        let two = Error::invalid(Path::Nil.child("b"), 1.5, "too odd");
        assert_eq!(aggregate(std::slice::from_ref(&one)), "a: Required value");
        assert_eq!(aggregate(&[one.clone(), two, one]), "[a: Required value, b: Invalid value: 1.5: too odd]");
    }

    #[test]
    fn an_invalid_status_names_the_kind_and_carries_the_reasons() {
        let status = invalid_status("g.io", "Foo", "x", &[Error::too_many("spec.a", 3, 1)]);
        assert_eq!(status["message"], "Foo.g.io \"x\" is invalid: spec.a: Too many: 3: must have at most 1 item");
        assert_eq!(status["details"]["causes"][0]["reason"], "FieldValueTooMany");
    }
}
