//! Image: an image of the engine, under one of its tags.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GROUP;
use crate::{Column, Condition, Definition, Time, kind::kind, schema};

kind! {
    /// Image is an image of the container engine under one of its tags. Deleting it removes the tag.
    Image in Namespaced; status: ImageStatus =>
    Definition {
        crd_name: "images.containers.rancherdesktop.io",
        group: GROUP,
        plural: "images",
        singular: "image",
        controller: "image",
        categories: &["all"],
        columns: &[
            Column { name: "Tag", kind: "string", format: "", path: ".status.repoTag" },
            Column { name: "Created", kind: "date", format: "", path: ".status.createdAt" },
            Column { name: "Size", kind: "integer", format: "byte", path: ".status.size" },
        ],
        selectable: &[".status.namespace", ".status.id", ".status.repoTag"],
        ..Definition::PLAIN
    }
}

/// What the engine says of the image.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ImageStatus {
    /// The architecture that it runs on.
    pub architecture: String,
    /// What holds of the image; nothing is said so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub created_at: Option<Time>,
    /// Its ID.
    pub id: String,
    /// Its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The ContainerNamespace that it is in.
    pub namespace: String,
    /// The operating system that it runs on.
    pub os: String,
    /// The digests under which registries know it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repo_digests: Vec<String>,
    /// Its tag; left out if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo_tag: Option<String>,
    /// Its size in bytes.
    pub size: i64,
}
