//! Parses a CustomResourceDefinition without its schemas, which are read only when they are used.

use std::sync::Arc;

use rdd_schema::crd::Scale;
use serde::{Deserialize, Deserializer, de::IgnoredAny};

use super::CLEANUP_FINALIZER;
use crate::registry::UnresolvableDef;

/// A CustomResourceDefinition without its schemas.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Head {
    pub(super) metadata: Metadata,
    pub(super) spec: Spec,
    #[serde(deserialize_with = "lenient")]
    pub(super) status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) generation: i64,
    pub(super) deletion_timestamp: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) finalizers: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) group: String,
    pub(super) names: Names,
    pub(super) scope: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) versions: Vec<Version>,
}

/// The type of `spec.names` and `status.acceptedNames`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Names {
    pub(super) plural: String,
    pub(super) singular: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) short_names: Vec<String>,
    pub(super) kind: String,
    pub(super) list_kind: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) categories: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Version {
    pub(super) name: String,
    pub(super) served: bool,
    pub(super) storage: bool,
    pub(super) deprecated: bool,
    pub(super) deprecation_warning: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) subresources: Subresources,
    #[serde(deserialize_with = "lenient")]
    pub(super) additional_printer_columns: Vec<Column>,
    #[serde(deserialize_with = "lenient")]
    pub(super) selectable_fields: Vec<SelectableField>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Subresources {
    pub(super) status: Option<IgnoredAny>,
    pub(super) scale: Option<ScalePaths>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ScalePaths {
    spec_replicas_path: String,
    status_replicas_path: String,
    label_selector_path: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Column {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) format: String,
    pub(super) description: String,
    pub(super) priority: i32,
    pub(super) json_path: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SelectableField {
    pub(super) json_path: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Status {
    #[serde(deserialize_with = "lenient")]
    pub(super) accepted_names: Names,
    #[serde(deserialize_with = "lenient")]
    pub(super) conditions: Vec<Condition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Head {
    /// Parses a stored definition.
    pub(super) fn read(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// Whether the condition exists and is True.
    pub(super) fn is_true(&self, condition: &str) -> bool {
        self.status.conditions.iter().find(|found| found.kind == condition).is_some_and(|found| found.status == "True")
    }

    /// Whether the definition is terminating and its objects must be deleted first.
    pub(super) fn awaits_cleanup(&self) -> bool {
        let is_held = self.metadata.finalizers.iter().any(|finalizer| finalizer == CLEANUP_FINALIZER);
        self.metadata.deletion_timestamp.is_some() && is_held
    }

    /// Whether the definition is established and has a served version.
    pub(super) fn is_served(&self) -> bool {
        self.is_true("Established") && self.spec.versions.iter().any(|version| version.served)
    }

    /// The error for requests of a definition that has its names but is not established, because its conversion webhook cannot be
    /// called.
    pub(super) fn unresolvable(&self) -> Option<UnresolvableDef> {
        let is_blocked = self.is_true("NamesAccepted") && !self.is_true("Established");
        is_blocked.then(|| UnresolvableDef {
            versions: self.spec.versions.iter().filter(|found| found.served).map(|found| found.name.clone()).collect(),
            namespaced: self.spec.scope == "Namespaced",
        })
    }
}

impl ScalePaths {
    pub(super) fn to_shared(&self) -> Arc<Scale> {
        Arc::new(Scale {
            spec_replicas_path: self.spec_replicas_path.clone(),
            status_replicas_path: self.status_replicas_path.clone(),
            label_selector_path: self.label_selector_path.clone().filter(|path| !path.is_empty()),
        })
    }
}

/// Deserializes null as the default value.
fn lenient<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
