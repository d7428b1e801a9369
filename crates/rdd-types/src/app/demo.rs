//! Demo: a kind that shows how a controller reports its work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DEMO, GROUP, default_namespace};
use crate::{Condition, Definition, kind::kind, schema};

kind! {
    /// Demo is a message that is processed a number of times, to show how a controller works.
    ///
    /// There is one, named 'demo'.
    Demo in Cluster, spec: DemoSpec; status: DemoStatus =>
    Definition {
        crd_name: "demos.app.rancherdesktop.io",
        group: GROUP,
        plural: "demos",
        singular: "demo",
        controller: "demo",
        singleton: Some(DEMO),
        ..Definition::PLAIN
    }
}

/// What to process, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct DemoSpec {
    /// How often the message is processed.
    #[serde(default, skip_serializing_if = "schema::is_zero")]
    pub count: i32,
    /// The message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// A namespace for what a Demo would own; it owns nothing.
    #[serde(default = "default_namespace")]
    pub namespace: String,
}

impl Default for DemoSpec {
    fn default() -> Self {
        Self { count: 0, message: String::new(), namespace: default_namespace() }
    }
}

/// How far it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct DemoStatus {
    /// What holds of the Demo: Ready, Processing, Completed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// When the message was last processed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_processed: String,
    /// How often the message was processed so far.
    #[serde(default, skip_serializing_if = "schema::is_zero")]
    pub processed_count: i32,
}
