//! The group of the daemon itself: what it knows of its host, and two kinds that show how a controller is made.

mod configmap_replicaset;
mod host_info;
mod notary;

pub use self::{
    configmap_replicaset::{ConfigMapReplicaSet, ConfigMapReplicaSetSpec, ConfigMapReplicaSetStatus},
    host_info::{HostInfo, HostInfoSpec, HostInfoStatus},
    notary::{Notary, NotarySpec, NotaryStatus},
};

/// The API group.
pub const GROUP: &str = "rdd.rancherdesktop.io";

/// The name of the HostInfo that is always there.
pub const SYSTEM: &str = "system";
