//! ContainerNamespace: a namespace of the container engine, which is none of Kubernetes'.

use super::GROUP;
use crate::{Definition, kind::kind};

kind! {
    /// ContainerNamespace is a namespace of the container engine, which is not one of Kubernetes.
    ///
    /// Docker's engine has one, 'moby'.
    ContainerNamespace in Namespaced =>
    Definition {
        crd_name: "containernamespaces.containers.rancherdesktop.io",
        group: GROUP,
        plural: "containernamespaces",
        singular: "containernamespace",
        controller: "containernamespace",
        short_names: &["cns"],
        categories: &["all"],
        ..Definition::PLAIN
    }
}
