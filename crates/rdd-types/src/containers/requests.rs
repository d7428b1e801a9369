//! Requests for something new of the engine: objects that say what is wanted, and in their status what became of it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ContainerPort, GROUP};
use crate::{Condition, Definition, kind::kind, schema};

kind! {
    /// ContainerCreateRequest asks for a new container. It goes by itself some time after it was done.
    ContainerCreateRequest in Namespaced, spec: ContainerCreateRequestSpec; status: ContainerCreateRequestStatus =>
    Definition {
        crd_name: "containercreaterequests.containers.rancherdesktop.io",
        group: GROUP,
        plural: "containercreaterequests",
        singular: "containercreaterequest",
        controller: "container",
        names_controller: true,
        selectable: &[".spec.namespace"],
        requires_spec: true,
        ..Definition::PLAIN
    }
}

/// What the container should be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ContainerCreateRequestSpec {
    /// The arguments of its executable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Its image, by tag or by digest.
    pub image: String,
    /// Its labels, besides those of its image.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Its name; the engine makes one up if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The ContainerNamespace that it goes to; the engine's default if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its executable; that of its image if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its ports, and where they are published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub ports: Vec<ContainerPort>,
    /// Whether it is started (running) or only made (created).
    #[schemars(extend("default" = "running"))]
    pub state: InitialState,
}

/// Whether a new container is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum InitialState {
    /// It is not.
    Created,
    /// It is.
    #[default]
    Running,
}

/// What became of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ContainerCreateRequestStatus {
    /// Complete if it was done, Failed if it could not be; never both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The ID of the new container.
    pub name: String,
}

/// What became of a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RequestStatus {
    /// Complete if it was done, Failed if it could not be; never both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

kind! {
    /// ImagePullRequest asks for an image from a registry. It goes by itself some time after it was done.
    ImagePullRequest in Namespaced, spec: ImagePullRequestSpec; status: RequestStatus =>
    Definition {
        crd_name: "imagepullrequests.containers.rancherdesktop.io",
        group: GROUP,
        plural: "imagepullrequests",
        singular: "imagepullrequest",
        controller: "image",
        names_controller: true,
        selectable: &[".spec.namespace"],
        requires_spec: true,
        ..Definition::PLAIN
    }
}

/// Which image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ImagePullRequestSpec {
    /// The ContainerNamespace that it goes to; the engine's default if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The repository and tag of the image.
    pub repo_tag: String,
}

kind! {
    /// ImagePushRequest asks that an image be sent to its registry. It goes by itself some time after it was done.
    ImagePushRequest in Namespaced, spec: ImagePushRequestSpec; status: RequestStatus =>
    Definition {
        crd_name: "imagepushrequests.containers.rancherdesktop.io",
        group: GROUP,
        plural: "imagepushrequests",
        singular: "imagepushrequest",
        controller: "image",
        names_controller: true,
        requires_spec: true,
        ..Definition::PLAIN
    }
}

/// Which image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ImagePushRequestSpec {
    /// The name of an Image object in the same namespace.
    pub image_ref: String,
}

kind! {
    /// ImageScanRequest asks what is known to be wrong with an image. It goes by itself some time after it was done.
    ImageScanRequest in Namespaced, spec: ImageScanRequestSpec; status: ImageScanRequestStatus =>
    Definition {
        crd_name: "imagescanrequests.containers.rancherdesktop.io",
        group: GROUP,
        plural: "imagescanrequests",
        singular: "imagescanrequest",
        controller: "image",
        names_controller: true,
        requires_spec: true,
        ..Definition::PLAIN
    }
}

/// Which image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ImageScanRequestSpec {
    /// The name of an Image object in the same namespace.
    pub image_ref: String,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ImageScanRequestStatus {
    /// Complete if it was done, Failed if it could not be; never both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// What the scanner said, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

kind! {
    /// VolumeCreateRequest asks for a new volume. It goes by itself some time after it was done.
    VolumeCreateRequest in Namespaced, spec: VolumeCreateRequestSpec; status: RequestStatus =>
    Definition {
        crd_name: "volumecreaterequests.containers.rancherdesktop.io",
        group: GROUP,
        plural: "volumecreaterequests",
        singular: "volumecreaterequest",
        controller: "volume",
        names_controller: true,
        requires_spec: true,
        ..Definition::PLAIN
    }
}

/// What the volume should be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct VolumeCreateRequestSpec {
    /// Its driver.
    pub driver: String,
    /// Its name; the engine makes one up if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The ContainerNamespace that it goes to; the engine's default if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}
