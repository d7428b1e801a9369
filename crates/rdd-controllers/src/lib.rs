//! The product's controllers: each observes the world, makes a plan without IO, and acts in named, idempotent steps.

pub mod app;
pub mod condition;
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
mod steps;
pub mod websocket;

pub use self::steps::steps;
