//! Conversion of objects between the versions of a kind.

use crate::shape::Shape;
use serde_json::Value;
use std::collections::BTreeMap;

/// Converts objects between the versions of a kind.
pub trait Convert {
    /// The shape of the kind in a version; `None` if that version is not served (any more).
    fn shape(&self, api_version: &str) -> Option<Shape>;

    /// Converts an object to another version.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError>;
}

/// Why an object cannot be converted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// The version is not served any more. The updater drops the owners that refer to it.
    #[error("version {api_version:?} is not served")]
    MissingVersion { api_version: String },
    #[error("{0}")]
    Failed(String),
}

/// The conversion strategy None: versions differ only in their `apiVersion`.
#[derive(Debug, Clone, Default)]
pub struct SameSchema(pub BTreeMap<String, Shape>);

impl Convert for SameSchema {
    fn shape(&self, api_version: &str) -> Option<Shape> {
        self.0.get(api_version).cloned()
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        if !self.0.contains_key(api_version) {
            return Err(ConvertError::MissingVersion { api_version: api_version.to_owned() });
        }
        let mut object = object.clone();
        if let Value::Object(fields) = &mut object {
            fields.insert("apiVersion".to_owned(), Value::String(api_version.to_owned()));
        }
        Ok(object)
    }
}
