//! The group of the product's one switchboard, App, and of Demo.

mod demo;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::demo::{Demo, DemoSpec, DemoStatus};
use crate::{Condition, Definition, Quantity, kind::kind, schema};

/// The API group.
pub const GROUP: &str = "app.rancherdesktop.io";

/// The one name that an App may have.
pub const APP: &str = "app";

/// The one name that a Demo may have.
pub const DEMO: &str = "demo";

/// The LimaVM of the App, and the ConfigMap that hands it its template.
pub const VM: &str = "rd";

/// The ConfigMap that lists the versions of Kubernetes.
pub const K3S_VERSIONS: &str = "k3s-versions";

/// Where an App keeps what it owns, unless it says otherwise.
pub const NAMESPACE: &str = "default";

kind! {
    /// App is the product's one switchboard: what should run, and how.
    ///
    /// There is one, named 'app'. Its settings are the ones that `rdd set` changes.
    App in Cluster, spec: AppSpec; status: AppStatus =>
    Definition {
        crd_name: "apps.app.rancherdesktop.io",
        group: GROUP,
        plural: "apps",
        singular: "app",
        controller: "app",
        categories: &["all"],
        singleton: Some(APP),
        ..Definition::PLAIN
    }
}

/// The settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AppSpec {
    /// Settings of the graphical application.
    ///
    /// The daemon keeps them and does not use them.
    #[serde(default)]
    pub application: Application,
    /// What the container engine runs on: a virtual machine (lima) or this machine itself (host).
    ///
    /// With auto, the best that this machine can do is chosen when the App is created. Once chosen it cannot be changed.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "self == oldSelf || oldSelf == 'auto'", "message": "spec.backend is immutable"},
    ]))]
    pub backend: Backend,
    /// Settings of the container engine.
    #[serde(default)]
    pub container_engine: ContainerEngine,
    /// Settings of Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<Kubernetes>,
    /// The namespace that holds what the App owns: the VM, its template and the mirrors of the engine.
    ///
    /// It cannot be changed later.
    #[serde(default = "default_namespace")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "self == oldSelf", "message": "spec.namespace is immutable"},
    ]))]
    pub namespace: String,
    /// Whether the container engine should run.
    pub running: bool,
    /// How much of this machine the virtual machine gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_machine: Option<VirtualMachine>,
}

impl Default for AppSpec {
    fn default() -> Self {
        Self {
            application: Application::default(),
            backend: Backend::default(),
            container_engine: ContainerEngine::default(),
            kubernetes: None,
            namespace: default_namespace(),
            running: false,
            virtual_machine: None,
        }
    }
}

pub(crate) fn default_namespace() -> String {
    NAMESPACE.to_owned()
}

/// What the container engine runs on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Backend {
    /// The best that this machine can do.
    #[default]
    Auto,
    /// A virtual machine through Lima.
    Lima,
    /// No virtual machine.
    Host,
}

impl fmt::Display for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Auto => "auto",
            Self::Lima => "lima",
            Self::Host => "host",
        })
    }
}

/// Settings of the container engine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ContainerEngine {
    /// Which container engine to run: moby (Docker) or containerd.
    #[schemars(extend("default" = "moby"))]
    pub name: EngineName,
}

/// Which container engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum EngineName {
    /// Docker's.
    #[default]
    Moby,
    /// containerd alone.
    Containerd,
}

impl fmt::Display for EngineName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Moby => "moby",
            Self::Containerd => "containerd",
        })
    }
}

/// Settings of Kubernetes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Kubernetes {
    /// Whether Kubernetes should run.
    pub enabled: bool,
    /// The version of Kubernetes, such as 1.34.6, or a channel such as stable.
    ///
    /// A channel is replaced by the version that it stands for. The ConfigMap k3s-versions lists both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// How much of this machine the virtual machine gets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct VirtualMachine {
    /// How many CPUs the virtual machine gets; 0 for the default.
    #[serde(default, skip_serializing_if = "schema::is_zero_wide")]
    #[schemars(schema_with = "schema::integer")]
    pub cpus: i64,
    /// How much memory the virtual machine gets, such as 4Gi; at least 2Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub memory: Option<Quantity>,
}

/// Settings of the graphical application.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Application {
    /// How the application keeps itself up to date.
    #[serde(default)]
    pub updates: Updates,
}

/// How the application keeps itself up to date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Updates {
    /// Whether the application looks for updates.
    #[serde(default = "yes")]
    pub enabled: bool,
}

fn yes() -> bool {
    true
}

impl Default for Updates {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// What became of the settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AppStatus {
    /// What holds of the App: Created, Running, ContainerEngineReady, KubernetesReady, and Settled when all that was asked for is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The port of this machine on which Kubernetes answers.
    #[serde(default, skip_serializing_if = "schema::is_zero_wide")]
    #[schemars(schema_with = "schema::integer")]
    pub kubernetes_port: i64,
}
