//! Request options, parsed from a query or a body and validated as upstream does.
//!
//! Parsing fails with a [`DecodeError`]; the server answers BadRequest with its message. Validation returns field
//! errors; the server answers with the Status of [`invalid`].

use serde_json::json;

use crate::{field_error::FieldError, fields, go_text, gvk::GroupKind, labels, query::Query, status::Status};

mod delete;
mod list;
mod write;

pub use delete::DeleteOptions;
pub use list::{ListOptions, ListStart, ListVersion};
pub(crate) use write::field_manager_errors;
pub use write::{CreateOptions, PatchOptions, UpdateOptions, WriteOptions};

/// Why options cannot be parsed. The message is upstream's and goes into a BadRequest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A number is malformed or out of range.
    #[error(transparent)]
    Number(#[from] go_text::NumberError),
    /// The label selector cannot be parsed.
    #[error(transparent)]
    Labels(#[from] labels::ParseError),
    /// The field selector cannot be parsed.
    #[error(transparent)]
    Fields(#[from] fields::ParseError),
    /// A field of the body has the wrong type.
    #[error("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}")]
    Type {
        /// The type that was found, in Go's terms.
        found: String,
        /// The path of the field, in Go's terms.
        field: String,
        /// The expected type, in Go's terms.
        wanted: &'static str,
    },
    /// The body is an object of another kind.
    #[error("decoded object cannot be converted to DeleteOptions")]
    Kind,
}

/// The Status for options that failed validation. `kind` is the kind of the options, as in `ListOptions`.
pub fn invalid(kind: &str, errors: &[FieldError]) -> Status {
    Status::invalid(&GroupKind::new("meta.k8s.io", kind), "", errors)
}

/// The options of get.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GetOptions {
    /// The requested resource version, unparsed.
    pub resource_version: String,
}

impl GetOptions {
    /// Parses the options of a query.
    pub fn from_query(query: &Query) -> Self {
        Self { resource_version: text(query, "resourceVersion") }
    }
}

fn dry_run_error(dry_run: &[String]) -> Option<FieldError> {
    let unknown = dry_run.iter().any(|value| value != "All");
    unknown.then(|| FieldError::not_supported("dryRun", &json!(dry_run), &["All"]))
}

fn text(query: &Query, name: &str) -> String {
    query.first(name).unwrap_or_default().to_owned()
}

/// Parses a boolean as upstream does: only `0` and `false` are false, and a parameter without a value is true.
fn boolean(query: &Query, name: &str) -> Option<bool> {
    query.first(name).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
}

fn integer(query: &Query, name: &str) -> Result<Option<i64>, go_text::NumberError> {
    query.first(name).map(go_text::parse_int).transpose()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::vectors;

    fn texts(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(FieldError::to_string).collect()
    }

    #[test]
    fn list_options_are_read_defaulted_and_checked_as_upstream_does() {
        for row in vectors::rows("listOptions") {
            let query = row.text("query");
            let mut options = match ListOptions::from_query(&Query::parse(&query)) {
                Ok(options) => options,
                Err(error) => {
                    assert_eq!(Err(error.to_string()), row.result(), "{query}");
                    continue;
                }
            };
            options.set_defaults();
            assert_eq!(texts(&options.validate()), row.texts("errors"), "{query}");
            let ours = json!([
                options.watch,
                options.allow_watch_bookmarks,
                options.resource_version,
                options.resource_version_match,
                options.limit,
                options.continue_token,
                options.timeout_seconds,
                options.send_initial_events,
            ]);
            let keys = ["watch", "bookmarks", "rv", "match", "limit", "continue", "timeout", "initial"];
            let theirs: Vec<&Value> = keys.iter().map(|key| row.value(key)).collect();
            assert_eq!(ours, json!(theirs), "{query}");
        }
    }

    #[track_caller]
    fn check_delete(options: &DeleteOptions, row: &vectors::Row) {
        let ours = json!([
            options.grace_period_seconds,
            options.orphan_dependents,
            options.propagation_policy,
            options.dry_run,
            options.precondition_uid,
            options.precondition_resource_version,
        ]);
        let keys = ["grace", "orphan", "policy", "dryRun", "uid", "rv"];
        let theirs: Vec<&Value> = keys.iter().map(|key| row.value(key)).collect();
        assert_eq!(ours, json!(theirs), "{row:?}");
    }

    #[test]
    fn delete_options_of_a_query_are_read_and_checked_as_upstream_does() {
        for row in vectors::rows("deleteOptions") {
            match DeleteOptions::from_query(&Query::parse(&row.text("query"))) {
                Ok(options) => {
                    check_delete(&options, &row);
                    assert_eq!(texts(&options.validate()), row.texts("errors"), "{row:?}");
                }
                Err(error) => assert_eq!(Err(error.to_string()), row.result(), "{row:?}"),
            }
        }
    }

    #[test]
    fn delete_options_of_a_body_are_read_as_upstream_does() {
        for row in vectors::rows("deleteBodies") {
            let body: Value = serde_json::from_str(&row.text("body")).unwrap();
            match DeleteOptions::from_value(&body) {
                Ok(options) => check_delete(&options, &row),
                Err(error) => assert_eq!(Err(error.to_string()), row.result(), "{row:?}"),
            }
        }
        let pod = DeleteOptions::from_value(&json!({"kind": "Pod", "apiVersion": "v1"})).unwrap_err();
        assert_eq!(pod.to_string(), "decoded object cannot be converted to DeleteOptions");
    }

    #[test]
    fn options_of_writes_are_read_and_checked_as_upstream_does() {
        for row in vectors::rows("writeOptions") {
            let query = row.text("query");
            let options = WriteOptions::from_query(&Query::parse(&query));
            assert_eq!(json!(options.force), *row.value("force"), "{query}");
            assert_eq!(options.field_manager, row.text("manager"), "{query}");
            assert_eq!(options.dry_run, row.texts("dryRun"), "{query}");
            assert_eq!(texts(&options.validate()), row.texts("create"), "{query}");
            assert_eq!(texts(&options.validate()), row.texts("update"), "{query}");
            assert_eq!(texts(&options.validate_patch(false)), row.texts("patch"), "{query}");
            assert_eq!(texts(&options.validate_patch(true)), row.texts("apply"), "{query}");
        }
    }

    #[test]
    fn options_that_fail_their_check_are_a_422_of_their_kind() {
        let options = WriteOptions { dry_run: vec!["x".to_owned()], ..WriteOptions::default() };
        let status = invalid("CreateOptions", &options.validate());
        let message =
            r#"CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["x"]: supported values: "All""#;
        assert_eq!((status.code, status.message.as_str()), (422, message));
    }
}
