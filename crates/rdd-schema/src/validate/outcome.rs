//! The result of the validation of one node, and its conversion to field errors.

use std::{
    collections::HashSet,
    fmt::{self, Display, Write},
    sync::Arc,
};

use rdd_meta::go_text;
use serde_json::Value;

use crate::field::{Error, Path};

/// The path of a value in kube-openapi's notation: a dot before fields and map keys alike.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trail<'a> {
    Root,
    /// A declared property: no dot at the root.
    Field(&'a Trail<'a>, &'a str),
    /// An undeclared or missing key: a dot even at the root.
    Key(&'a Trail<'a>, &'a str),
    Index(&'a Trail<'a>, usize),
}

impl Trail<'_> {
    fn write(&self, out: &mut String) {
        match self {
            Trail::Root => {}
            Trail::Field(parent, name) => {
                parent.write(out);
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Trail::Key(parent, key) => {
                parent.write(out);
                out.push('.');
                out.push_str(key);
            }
            Trail::Index(parent, index) => {
                parent.write(out);
                let _ = write!(out, "[{index}]");
            }
        }
    }

    fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    pub(super) fn quoted(&self) -> String {
        go_text::quote(&self.text())
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Trail::Root) || self.text().is_empty()
    }
}

impl Display for Trail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// The kind of field error that a failure becomes.
#[derive(Debug)]
pub(super) enum Code {
    /// The value has the wrong type or format.
    Type,
    /// A required property is missing.
    Required,
    /// The value is not in the enum; with the enum's values.
    NotSupported(Vec<String>),
    /// The string is too long; with the limit.
    TooLong(i64),
    /// There are too many items or properties; with the actual number and the limit.
    TooMany(i64, i64),
    /// Any other failure.
    Other,
}

#[derive(Debug)]
struct Failure {
    message: Arc<str>,
    /// `None` for failures that have no path of their own, such as those of `anyOf`.
    detail: Option<(Code, String, Option<Value>)>,
}

/// Failures, and the number of checks made, which upstream uses to choose the best alternative of `anyOf` and `oneOf`.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    failures: Vec<Failure>,
    /// The messages of all failures, to find duplicates.
    messages: HashSet<Arc<str>>,
    matches: usize,
}

impl Outcome {
    pub(super) fn is_valid(&self) -> bool {
        self.failures.is_empty()
    }

    pub(super) fn matches(&self) -> usize {
        self.matches
    }

    pub(super) fn count(&mut self) {
        self.matches += 1;
    }

    /// Drops all failures: the value is unchanged by the update.
    pub(super) fn forgive(&mut self) {
        self.failures.clear();
        self.messages.clear();
    }

    /// Adds a failure with a path.
    pub(super) fn fail(&mut self, code: Code, trail: &Trail<'_>, value: Option<Value>, message: String) {
        self.add(Failure { message: message.into(), detail: Some((code, trail.text(), value)) });
    }

    /// Adds a failure without a path; it is reported at the root of the validation.
    pub(super) fn plain(&mut self, message: String) {
        self.add(Failure { message: message.into(), detail: None });
    }

    /// Adds a failure, unless one has the same message.
    fn add(&mut self, failure: Failure) {
        if self.messages.insert(Arc::clone(&failure.message)) {
            self.failures.push(failure);
        }
    }

    pub(super) fn merge(&mut self, other: Outcome) {
        self.matches += other.matches;
        // The common case takes the other's collections without hashing its messages again.
        if self.failures.is_empty() {
            (self.failures, self.messages) = (other.failures, other.messages);
        } else {
            other.failures.into_iter().for_each(|failure| self.add(failure));
        }
    }

    pub(super) fn into_errors(self, path: &Path<'_>) -> Vec<Error> {
        self.failures.into_iter().map(|failure| failure.into_error(path)).collect()
    }
}

impl Failure {
    fn into_error(self, path: &Path<'_>) -> Error {
        let Some((code, place, value)) = self.detail else { return Error::invalid(path, "", &*self.message) };
        let place = match place.as_str() {
            // The message keeps upstream's notation; the path of the error must not begin with a dot.
            "" | "." => path.to_string(),
            _ => path.child(place.strip_prefix('.').unwrap_or(&place)).to_string(),
        };
        let nothing = Value::from("");
        let shown = value.as_ref().unwrap_or(&nothing);
        match code {
            Code::Type => Error::type_invalid(place, shown, &*self.message),
            Code::Required => Error::required(place, ""),
            Code::NotSupported(allowed) => {
                Error::not_supported(place, value.as_ref().unwrap_or(&Value::Null), &allowed)
            }
            Code::TooLong(max) => Error::too_long(place, max),
            Code::TooMany(actual, max) => Error::too_many(place, actual, max),
            Code::Other => Error::invalid(place, shown, &*self.message),
        }
    }
}
