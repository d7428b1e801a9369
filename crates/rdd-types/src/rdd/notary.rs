//! Notary: a kind that records what its value was.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GROUP;
use crate::{Definition, kind::kind, schema};

kind! {
    /// Notary records every change of its value in a ConfigMap.
    Notary in Namespaced, spec: NotarySpec; status: NotaryStatus =>
    Definition {
        crd_name: "notaries.rdd.rancherdesktop.io",
        group: GROUP,
        plural: "notaries",
        singular: "notary",
        controller: "notary",
        ..Definition::PLAIN
    }
}

/// What to record, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct NotarySpec {
    /// The ConfigMap that the changes are recorded in, in the same namespace.
    pub config_map_name: String,
    /// The value whose changes are recorded.
    pub value: String,
}

/// What was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct NotaryStatus {
    /// How many changes were recorded.
    #[serde(default, skip_serializing_if = "schema::is_zero_wide")]
    #[schemars(schema_with = "schema::integer")]
    pub change_count: i64,
    /// What became of the ConfigMap: Updated.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config_map_status: String,
    /// The value that was recorded last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_recorded_value: String,
}
