//! A small client: the kubeconfig of a daemon, and authenticated calls to it or to any other API server.

pub mod http;
pub mod kubeconfig;

pub use self::{
    http::{Client, Response},
    kubeconfig::Kubeconfig,
};
