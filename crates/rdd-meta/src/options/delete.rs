//! The options of delete.

use serde_json::{Value, json};

use super::{DecodeError, boolean, dry_run_error, integer, text};
use crate::{
    field_error::FieldError,
    go_json::{self, found_type},
    metadata::Metadata,
    query::Query,
};

/// The options of delete, from the query or the body of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeleteOptions {
    /// How long a graceful deletion may take.
    pub grace_period_seconds: Option<i64>,
    /// The uid that the object must have.
    pub precondition_uid: Option<String>,
    /// The resource version that the object must have.
    pub precondition_resource_version: Option<String>,
    /// The deprecated predecessor of `propagation_policy`.
    pub orphan_dependents: Option<bool>,
    /// What happens to the dependents. After validation one of `Foreground`, `Background` and `Orphan`.
    pub propagation_policy: Option<String>,
    /// After validation either `All` or empty.
    pub dry_run: Vec<String>,
}

impl DeleteOptions {
    /// Parses the options of a query. The server uses them only for a request without a body.
    pub fn from_query(query: &Query) -> Result<Self, DecodeError> {
        // An empty precondition in a query means none.
        let named = |name| Some(text(query, name)).filter(|value| !value.is_empty());
        Ok(Self {
            grace_period_seconds: integer(query, "gracePeriodSeconds")?,
            precondition_uid: named("uid"),
            precondition_resource_version: named("resourceVersion"),
            orphan_dependents: boolean(query, "orphanDependents"),
            propagation_policy: query.first("propagationPolicy").map(str::to_owned),
            dry_run: query.all("dryRun"),
        })
    }

    /// Parses the options of a body. The kind may be `DeleteOptions` of any group, or absent; unknown fields are
    /// ignored.
    ///
    /// # Errors
    /// When the body is of another kind or a field has the wrong type.
    pub fn from_value(body: &Value) -> Result<Self, DecodeError> {
        if !matches!(body.get("kind").and_then(Value::as_str), None | Some("" | "DeleteOptions")) {
            return Err(DecodeError::Kind);
        }
        let preconditions = match body.get("preconditions") {
            Some(value) if !value.is_object() && !value.is_null() => {
                return Err(wrong_type(value, "DeleteOptions.preconditions", "v1.Preconditions"));
            }
            other => other.unwrap_or(&Value::Null),
        };
        Ok(Self {
            grace_period_seconds: field(body, "gracePeriodSeconds", "DeleteOptions.", "int64", Value::as_i64)?,
            precondition_uid: string(preconditions, "uid", "Preconditions.preconditions.", "types.UID")?,
            precondition_resource_version: string(
                preconditions,
                "resourceVersion",
                "Preconditions.preconditions.",
                "string",
            )?,
            orphan_dependents: field(body, "orphanDependents", "DeleteOptions.", "bool", Value::as_bool)?,
            propagation_policy: string(body, "propagationPolicy", "DeleteOptions.", "v1.DeletionPropagation")?,
            dry_run: dry_run_field(body)?,
        })
    }

    /// Checks the preconditions. Returns the end of upstream's conflict message for the first that fails, `None` if all
    /// hold.
    pub fn failed_precondition(&self, object: Metadata<'_>) -> Option<String> {
        let fails = |wanted: &Option<String>, found: &str, what: &str| {
            let wanted = wanted.as_ref().filter(|wanted| *wanted != found)?;
            Some(format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"))
        };
        fails(&self.precondition_uid, object.uid(), "UID")
            .or_else(|| fails(&self.precondition_resource_version, object.resource_version(), "ResourceVersion"))
    }

    /// Whether the request must not store anything.
    pub fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }

    /// Validates the values, and that they can be combined.
    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(policy) = &self.propagation_policy {
            // Upstream prints a pointer here, which shows the value as JSON and not as a quoted string.
            let shown = go_json::to_string(&json!(policy));
            if self.orphan_dependents.is_some() {
                let why = "orphanDependents and deletionPropagation cannot be both set";
                errors.push(FieldError::invalid_text("propagationPolicy", shown.clone(), why));
            }
            if !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan") {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                let error = FieldError::not_supported("propagationPolicy", &Value::Null, &supported);
                errors.push(FieldError { value: Some(shown), ..error });
            }
        }
        errors.extend(dry_run_error(&self.dry_run));
        errors
    }
}

fn wrong_type(value: &Value, field: &str, wanted: &'static str) -> DecodeError {
    DecodeError::Type { found: found_type(value, wanted), field: field.to_owned(), wanted }
}

fn field<T>(
    object: &Value,
    name: &str,
    owner: &str,
    wanted: &'static str,
    read: fn(&Value) -> Option<T>,
) -> Result<Option<T>, DecodeError> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => read(value).map(Some).ok_or_else(|| wrong_type(value, &format!("{owner}{name}"), wanted)),
    }
}

fn string(object: &Value, name: &str, owner: &str, wanted: &'static str) -> Result<Option<String>, DecodeError> {
    field(object, name, owner, wanted, |value| value.as_str().map(str::to_owned))
}

fn dry_run_field(body: &Value) -> Result<Vec<String>, DecodeError> {
    let path = "DeleteOptions.dryRun";
    match body.get("dryRun") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => {
            let items = items.iter();
            items.map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong_type(item, path, "string"))).collect()
        }
        Some(other) => Err(wrong_type(other, path, "[]string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precondition_that_fails_names_both_values() {
        let object = json!({"metadata": {"uid": "u", "resourceVersion": "5"}});
        let judge = |query: &str| {
            DeleteOptions::from_query(&Query::parse(query)).unwrap().failed_precondition(Metadata::of(&object))
        };
        assert_eq!((judge(""), judge("uid=u&resourceVersion=5")), (None, None));
        assert_eq!(
            judge("uid=v&resourceVersion=4").as_deref(),
            Some("Precondition failed: UID in precondition: v, UID in object meta: u")
        );
        assert_eq!(
            judge("uid=u&resourceVersion=4").as_deref(),
            Some("Precondition failed: ResourceVersion in precondition: 4, ResourceVersion in object meta: 5")
        );
    }
}
