//! The group of virtual machines.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Column, Condition, Definition, kind::kind, schema};

/// The API group.
pub const GROUP: &str = "lima.rancherdesktop.io";

/// Where a ConfigMap has its template.
pub const TEMPLATE_KEY: &str = "template";

kind! {
    /// LimaVM is a virtual machine, or what stands in for one, that runs as its template says.
    ///
    /// Its name must not be in use in any other namespace.
    LimaVM in Namespaced, spec: LimaVMSpec; status: LimaVMStatus =>
    Definition {
        crd_name: "limavms.lima.rancherdesktop.io",
        group: GROUP,
        plural: "limavms",
        singular: "limavm",
        controller: "limavm",
        categories: &["all"],
        columns: &[Column { name: "Running", kind: "boolean", format: "", path: ".spec.running" }],
        requires_spec: true,
        ..Definition::PLAIN
    }
}

impl LimaVM {
    /// The ConfigMap that holds the template of the VM of this name. It can be edited.
    pub fn template_config_map(name: &str) -> String {
        format!("{name}-template")
    }
}

/// What the VM is made of, and whether it should run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct LimaVMSpec {
    /// Whether the VM should run.
    #[schemars(extend("default" = false))]
    pub running: bool,
    /// Values for the template's 'param', which take precedence over those that it has itself. A change restarts a VM that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<BTreeMap<String, String>>,
    /// The ConfigMap that the template was taken from when the VM was created.
    ///
    /// It is read once and cannot be changed. To change the template, edit the ConfigMap that status.templateConfigMap names.
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "self == oldSelf", "message": "templateRef is immutable"},
    ]))]
    pub template_ref: TemplateReference,
}

/// A ConfigMap with a template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct TemplateReference {
    /// The name of a ConfigMap whose key 'template' holds the template.
    pub name: String,
    /// The namespace of that ConfigMap; that of the LimaVM if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// What became of the VM.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct LimaVMStatus {
    /// What holds of the VM: Created, Running.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The resourceVersion of the template that the VM runs with, or will start with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_template_resource_version: Option<String>,
    /// How often the VM came up.
    #[serde(default, skip_serializing_if = "schema::is_zero")]
    pub restart_count: i32,
    /// Whether a restart was accepted and the VM has not stopped for it yet.
    #[serde(default, skip_serializing_if = "schema::is_false")]
    pub restart_needed: bool,
    /// The ConfigMap with the template of this VM, in its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_config_map: Option<String>,
}
