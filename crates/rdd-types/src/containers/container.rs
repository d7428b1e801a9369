//! Container: a container of the engine.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GROUP;
use crate::{Column, Condition, Definition, Time, kind::kind, schema};

kind! {
    /// Container is a container of the engine. Deleting it deletes the container.
    ///
    /// It is named after the ID of the container. To act on it, set spec.state, or the annotation containers.rancherdesktop.io/action.
    Container in Namespaced, spec: ContainerSpec, or_nothing; status: ContainerStatus =>
    Definition {
        crd_name: "containers.containers.rancherdesktop.io",
        group: GROUP,
        plural: "containers",
        singular: "container",
        controller: "container",
        categories: &["all"],
        // The value is a text, so the column is one: the original declares a boolean, and its column stays empty.
        columns: &[Column {
            name: "Running",
            kind: "string",
            format: "",
            path: ".status.conditions[?(@.type==\"Running\")].status",
        }],
        selectable: &[".status.namespace"],
        ..Definition::PLAIN
    }
}

/// What is wanted of the container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ContainerSpec {
    /// Whether the container should run (running) or be stopped (created); unknown leaves it as it is.
    #[serde(default)]
    pub state: DesiredState,
}

/// Whether a container should run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DesiredState {
    /// Nobody wants anything.
    #[default]
    Unknown,
    /// It should run.
    Running,
    /// It should be there and not run.
    Created,
}

/// What the engine says of the container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ContainerStatus {
    /// The arguments of its executable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// What holds of the container: Running, Paused, Restarting, Dead, OOMKilled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// When it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub created_at: Option<Time>,
    /// What went wrong when it was last started; empty if nothing did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What its process ended with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// When its process ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub finished_at: Option<Time>,
    /// The ID of its image.
    pub image: String,
    /// Its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What became of the action that was asked for last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_action: Option<LastAction>,
    /// Its name.
    pub name: String,
    /// The ContainerNamespace that it is in.
    pub namespace: String,
    /// The generation whose spec.state was last acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Its executable.
    pub path: String,
    /// The process of its executable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Its ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub ports: Vec<ContainerPort>,
    /// When it was last started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub started_at: Option<Time>,
    /// What the engine calls its state.
    #[schemars(extend("default" = "unknown"))]
    pub status: ContainerState,
}

/// What the engine calls the state of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ContainerState {
    /// There, and never started.
    Created,
    /// Its process runs.
    Running,
    /// About to be paused.
    Pausing,
    /// Paused.
    Paused,
    /// Being started again.
    Restarting,
    /// Being removed.
    Removing,
    /// Its process ended.
    Exited,
    /// It could not be removed.
    Dead,
    /// The engine says something else.
    #[default]
    #[serde(other)]
    Unknown,
}

/// A port of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ContainerPort {
    /// Where it is published; nowhere if it is only exposed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bindings: Vec<ContainerPortBinding>,
    /// The port and its protocol, such as 80/tcp.
    pub name: String,
}

/// Where a port is published.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(!default)]
pub struct ContainerPortBinding {
    /// The address of the host.
    #[serde(rename = "hostIP")]
    pub host_ip: String,
    /// The port of the host.
    #[serde(rename = "hostPort")]
    pub host_port: String,
}

/// What became of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastAction {
    /// What was asked for.
    pub action: Action,
    /// When it was done, or had failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub completed_at: Option<Time>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub observed_at: Option<Time>,
    /// Whether it succeeded.
    pub state: ActionResult,
}

/// What can be done to a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Start it.
    Start,
    /// Stop it.
    Stop,
    /// Freeze it.
    Pause,
    /// Let it go on.
    Unpause,
    /// Stop it and start it.
    Restart,
}

impl Action {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Start, Self::Stop, Self::Pause, Self::Unpause, Self::Restart];

    /// As it is written in the annotation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Pause => "pause",
            Self::Unpause => "unpause",
            Self::Restart => "restart",
        }
    }

    /// The one that is written so.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|action| action.as_str() == text)
    }
}

/// Whether an action succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ActionResult {
    /// It did.
    Succeeded,
    /// It did not.
    Failed,
}
