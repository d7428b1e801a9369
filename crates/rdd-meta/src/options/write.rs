//! The options of create, update and patch.

use serde_json::json;

use super::{boolean, dry_run_error, text};
use crate::{field_error::FieldError, go_text, query::Query};

/// The maximum length of a field manager's name.
const FIELD_MANAGER_BYTES_MAX: usize = 128;

/// The options of create, update and patch. Upstream has three types with the same fields, of which only that of patch
/// has `force`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// The name of the field manager that writes.
    pub field_manager: String,
    /// After validation either `All` or empty.
    pub dry_run: Vec<String>,
    /// How unknown fields are handled. After validation one of `Ignore`, `Warn`, `Strict` and empty.
    pub field_validation: String,
    /// Whether an apply takes over fields that other managers own.
    pub force: Option<bool>,
}

/// The options of create.
pub type CreateOptions = WriteOptions;
/// The options of update.
pub type UpdateOptions = WriteOptions;
/// The options of patch.
pub type PatchOptions = WriteOptions;

impl WriteOptions {
    /// Parses the options of a query.
    pub fn from_query(query: &Query) -> Self {
        Self {
            field_manager: text(query, "fieldManager"),
            dry_run: query.all("dryRun"),
            field_validation: text(query, "fieldValidation"),
            force: boolean(query, "force"),
        }
    }

    /// Whether the request must not store anything.
    pub fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }

    /// Validates the options of a create or an update. Both ignore `force`.
    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = field_manager_errors("fieldManager", &self.field_manager);
        errors.extend(dry_run_error(&self.dry_run));
        if !matches!(self.field_validation.as_str(), "" | "Ignore" | "Warn" | "Strict") {
            let supported = ["", "Ignore", "Strict", "Warn"];
            errors.push(FieldError::not_supported("fieldValidation", &json!(self.field_validation), &supported));
        }
        errors
    }

    /// Validates the options of a patch. A server-side apply requires a field manager; other patches must not have
    /// `force`.
    pub fn validate_patch(&self, is_apply: bool) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if is_apply && self.field_manager.is_empty() {
            errors.push(FieldError::required("fieldManager", "is required for apply patch"));
        }
        if !is_apply && self.force.is_some() {
            errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
        }
        errors.extend(self.validate());
        errors
    }
}

/// Validates the name of a field manager.
pub(crate) fn field_manager_errors(path: &str, manager: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() > FIELD_MANAGER_BYTES_MAX {
        errors.push(FieldError::too_long(path, FIELD_MANAGER_BYTES_MAX));
    }
    let unprintable = manager.char_indices().filter(|(_, character)| !go_text::is_print(*character));
    errors.extend(unprintable.map(|(position, character)| {
        let code = u32::from(character);
        let why = format!("invalid character U+{code:04X} (at position {position})");
        FieldError::invalid_string(path, manager, why)
    }));
    errors
}
