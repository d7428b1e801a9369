//! ConfigMapReplicaSet: a kind that keeps a number of ConfigMaps.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GROUP;
use crate::{Condition, Definition, kind::kind, schema};

kind! {
    /// ConfigMapReplicaSet keeps a number of ConfigMaps with the same data.
    ConfigMapReplicaSet in Namespaced, spec: ConfigMapReplicaSetSpec; status: ConfigMapReplicaSetStatus =>
    Definition {
        crd_name: "configmapreplicasets.rdd.rancherdesktop.io",
        group: GROUP,
        plural: "configmapreplicasets",
        singular: "configmapreplicaset",
        controller: "configmapreplicaset",
        short_names: &["cmrs"],
        ..Definition::PLAIN
    }
}

/// How many, and what is in them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ConfigMapReplicaSetSpec {
    /// What every ConfigMap holds, besides its own number under 'index'.
    ///
    /// A ConfigMap that is there already keeps what it has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, String>,
    /// How many ConfigMaps there should be; 1 if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// How many there are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ConfigMapReplicaSetStatus {
    /// What holds of the set; nothing is said so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::atomic_conditions")]
    pub conditions: Vec<Condition>,
    /// How many ConfigMaps there are.
    pub ready_replicas: i32,
}
