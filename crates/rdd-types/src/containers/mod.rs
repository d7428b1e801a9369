//! The group of what a container engine has: containers, images and volumes, and requests for new ones.

mod container;
mod image;
mod namespace;
mod requests;
mod volume;

pub use self::{
    container::{
        Action, ActionResult, Container, ContainerPort, ContainerPortBinding, ContainerSpec, ContainerState,
        ContainerStatus, DesiredState, LastAction,
    },
    image::{Image, ImageStatus},
    namespace::ContainerNamespace,
    requests::{
        ContainerCreateRequest, ContainerCreateRequestSpec, ContainerCreateRequestStatus, ImagePullRequest,
        ImagePullRequestSpec, ImagePushRequest, ImagePushRequestSpec, ImageScanRequest, ImageScanRequestSpec,
        ImageScanRequestStatus, InitialState, RequestStatus, VolumeCreateRequest, VolumeCreateRequestSpec,
    },
    volume::{Volume, VolumeStatus},
};

/// The API group.
pub const GROUP: &str = "containers.rancherdesktop.io";

/// The container namespace of Docker's engine, which knows none.
pub const MOBY: &str = "moby";
