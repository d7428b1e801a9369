//! HostInfo: what the machine has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GROUP;
use crate::{Column, Definition, Quantity, kind::kind, schema};

kind! {
    /// HostInfo says what this machine has, so that clients know what a virtual machine can be given.
    ///
    /// There is one, named 'system'. The daemon makes it and keeps it right.
    HostInfo in Cluster, spec: HostInfoSpec, or_nothing; status: HostInfoStatus =>
    Definition {
        crd_name: "hostinfos.rdd.rancherdesktop.io",
        group: GROUP,
        plural: "hostinfos",
        singular: "hostinfo",
        controller: "hostinfo",
        categories: &["all"],
        columns: &[
            Column { name: "CPUs", kind: "integer", format: "", path: ".status.cpus" },
            Column { name: "Memory", kind: "string", format: "", path: ".status.memory" },
        ],
        ..Definition::PLAIN
    }
}

/// Nothing: a HostInfo only tells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct HostInfoSpec {}

/// What the machine has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct HostInfoStatus {
    /// How many logical CPUs the machine has; left out if that is not known.
    #[serde(default, skip_serializing_if = "schema::is_zero_wide")]
    #[schemars(schema_with = "schema::integer")]
    pub cpus: i64,
    /// How much memory the machine has, such as 16Gi; left out if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub memory: Option<Quantity>,
}
