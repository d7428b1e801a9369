//! The product's controllers: each observes the world, makes a plan without IO, and acts in named, idempotent steps.

pub mod app;
pub mod configmap_replicaset;
pub mod containers;
pub mod demo;
pub mod engine;
pub mod hostinfo;
pub mod k3s_versions;
pub mod kubernetes;
pub mod limavm;
pub mod mock;
pub mod notary;
pub mod reference;
pub mod saying;
mod steps;
pub mod websocket;

pub use self::steps::steps;
