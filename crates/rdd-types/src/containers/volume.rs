//! Volume: a volume of the engine.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GROUP;
use crate::{Column, Definition, Time, kind::kind, schema};

kind! {
    /// Volume is a volume of the container engine. Deleting it deletes the volume and what is in it.
    Volume in Namespaced; status: VolumeStatus =>
    Definition {
        crd_name: "volumes.containers.rancherdesktop.io",
        group: GROUP,
        plural: "volumes",
        singular: "volume",
        controller: "volume",
        categories: &["all"],
        columns: &[Column { name: "Driver", kind: "string", format: "", path: ".status.driver" }],
        selectable: &[".status.namespace", ".status.name"],
        ..Definition::PLAIN
    }
}

/// What the engine says of the volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct VolumeStatus {
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub created_at: Option<Time>,
    /// Its driver.
    pub driver: String,
    /// Its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Where the engine has it mounted.
    pub mountpoint: String,
    /// Its name.
    pub name: String,
    /// The ContainerNamespace that it is in.
    pub namespace: String,
    /// Options of its driver.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Whether it is known to this engine only (local) or to others too (global).
    pub scope: String,
}
