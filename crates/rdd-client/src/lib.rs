//! A small API client: parses the daemon's kubeconfig, and calls the daemon or any other API server with
//! authentication.

pub mod http;
pub mod kubeconfig;

pub use self::{
    http::{Client, Response},
    kubeconfig::Kubeconfig,
};
