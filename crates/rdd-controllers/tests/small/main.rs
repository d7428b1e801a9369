//! The small controllers at work, over a real API in the same process: what they make, what they refuse, and that they survive a kill at every step.

mod configmap_replicaset;
mod containers;
mod demo;
mod hands;
mod hostinfo;
mod k3s_versions;
mod kills;
mod mock;
mod notary;
