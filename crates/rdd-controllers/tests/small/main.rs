//! Tests of the small controllers over a real API in this process: their objects, their admission, and kills at every step.

mod configmap_replicaset;
mod containers;
mod demo;
mod hands;
mod hostinfo;
mod k3s_versions;
mod kills;
mod mock;
mod notary;
