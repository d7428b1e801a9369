//! A small client of one daemon: its kubeconfig and an authenticated HTTPS call.

pub mod http;
pub mod kubeconfig;

pub use self::{
    http::{Client, Response},
    kubeconfig::Kubeconfig,
};
