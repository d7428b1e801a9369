//! Our API groups as Rust types, and the custom resource definitions that follow from them.
//!
//! Every kind is a struct with `metadata`, `spec` and `status` that `kube` takes as it is; the definition that is installed for it comes from the same
//! struct ([`kube_core::CustomResourceExt::crd`]), so that the two cannot differ. Reading is lenient: what a schema requires is required of
//! writers by the server, and an object that lacks it (older, or written past us) is still read, with defaults in its place. One odd object must not
//! keep a controller from seeing the others.
//!
//! ```
//! use rdd_types::app::{App, AppSpec};
//! let app = App::new("app", AppSpec { running: true, ..AppSpec::default() });
//! assert_eq!(app.spec.namespace, "default");
//! ```

pub mod app;
pub mod conditions;
pub mod containers;
mod kind;
pub mod lima;
pub mod names;
mod quantity;
pub mod rdd;
mod schema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
pub use kube_core::CustomResourceExt;

pub use self::{
    kind::{Column, Definition, Kind, Scope},
    quantity::{Quantity, QuantityError},
};

/// The version in which all of our groups are served.
pub const VERSION: &str = "v1alpha1";

/// Every kind of ours, as data, in the order in which they are installed.
pub const DEFINITIONS: &[&Definition] = &[
    &app::App::DEFINITION,
    &app::Demo::DEFINITION,
    &lima::LimaVM::DEFINITION,
    &rdd::ConfigMapReplicaSet::DEFINITION,
    &rdd::HostInfo::DEFINITION,
    &rdd::Notary::DEFINITION,
    &containers::Container::DEFINITION,
    &containers::ContainerCreateRequest::DEFINITION,
    &containers::ContainerNamespace::DEFINITION,
    &containers::Image::DEFINITION,
    &containers::ImagePullRequest::DEFINITION,
    &containers::ImagePushRequest::DEFINITION,
    &containers::ImageScanRequest::DEFINITION,
    &containers::Volume::DEFINITION,
    &containers::VolumeCreateRequest::DEFINITION,
];

/// The definitions of every kind of ours.
pub fn crds() -> Vec<CustomResourceDefinition> {
    DEFINITIONS.iter().map(|definition| (definition.crd)()).collect()
}

/// The definitions that the controller of this name brings along; none for a controller without kinds of its own.
pub fn crds_of(controller: &str) -> Vec<CustomResourceDefinition> {
    let its = DEFINITIONS.iter().filter(|definition| definition.controller == controller);
    its.map(|definition| (definition.crd)()).collect()
}
