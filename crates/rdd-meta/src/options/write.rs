//! Options of create, update and patch.

use serde_json::json;

use super::{boolean, dry_run_error, text};
use crate::{field_error::FieldError, go_text, query::Query};

/// The longest name of a field manager.
const FIELD_MANAGER_BYTES_MAX: usize = 128;

/// Options of create, update and patch; upstream has three types of the same fields, where only patch can `force`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// Who writes.
    pub field_manager: String,
    /// `All` or nothing, once checked.
    pub dry_run: Vec<String>,
    /// `Ignore`, `Warn`, `Strict` or nothing, once checked.
    pub field_validation: String,
    /// Take fields from their owners; for apply only.
    pub force: Option<bool>,
}

/// Options of create.
pub type CreateOptions = WriteOptions;
/// Options of update.
pub type UpdateOptions = WriteOptions;
/// Options of patch.
pub type PatchOptions = WriteOptions;

impl WriteOptions {
    /// Reads a query.
    pub fn from_query(query: &Query) -> Self {
        Self {
            field_manager: text(query, "fieldManager"),
            dry_run: query.all("dryRun"),
            field_validation: text(query, "fieldValidation"),
            force: boolean(query, "force"),
        }
    }

    /// Whether nothing is to be stored.
    pub fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }

    /// Checks the options of a create or an update. Neither knows `force`, so it is not looked at.
    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = field_manager_errors("fieldManager", &self.field_manager);
        errors.extend(dry_run_error(&self.dry_run));
        if !matches!(self.field_validation.as_str(), "" | "Ignore" | "Warn" | "Strict") {
            let supported = ["", "Ignore", "Strict", "Warn"];
            errors.push(FieldError::not_supported("fieldValidation", &json!(self.field_validation), &supported));
        }
        errors
    }

    /// Checks the options of a patch, which may be a server-side apply.
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

/// What is wrong with the name of a field manager.
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
