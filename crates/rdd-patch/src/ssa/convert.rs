//! Between the versions of a kind.

use crate::shape::Shape;
use serde_json::Value;
use std::collections::BTreeMap;

/// Between the versions of a kind.
pub trait Convert {
    /// The shape of the kind in a version, or none if that version is not served (any more).
    fn shape(&self, api_version: &str) -> Option<Shape>;

    /// The object in another version.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError>;
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// The version is gone: what is owned in it is forgotten.
    #[error("version {api_version:?} is not served")]
    MissingVersion { api_version: String },
    #[error("{0}")]
    Failed(String),
}

/// Conversion strategy None: versions differ in nothing but their name.
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
