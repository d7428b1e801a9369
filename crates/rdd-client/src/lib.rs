//! A small client of one daemon: its kubeconfig and authenticated HTTPS calls.

pub mod http;
pub mod kubeconfig;

pub use self::{
    http::{Client, Response},
    kubeconfig::Kubeconfig,
};
