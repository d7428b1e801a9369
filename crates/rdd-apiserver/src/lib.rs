//! A Kubernetes-compatible API server: HTTPS, authentication, admission, versioned resources, watches, and storage.
//!
//! The crate has two halves, which meet at the trait [`request::Handler`]:
//! - The frame ([`serve`], [`tls`], [`auth`], [`health`], [`metrics`]) accepts connections, authenticates requests, and enforces
//!   limits. It knows no resources; it forwards every request whose path is not its own to the handler.
//! - [`core::Core`] provides that handler: the [`registry`] of the served resources (the kinds of every API server from
//!   [`builtin`], and those of CustomResourceDefinitions from [`crd`]), and [`rest`], which implements the verbs for all of them.

pub mod admission;
pub mod auth;
pub mod backup;
pub mod builtin;
pub mod controllers;
pub mod core;
pub mod crd;
pub mod discovery;
mod endpoints;
pub mod health;
pub mod metrics;
mod offload;
pub mod openapi;
pub mod passthrough;
pub mod registry;
pub mod represent;
pub mod request;
pub mod respond;
pub mod rest;
pub mod serve;
pub mod state;
pub mod tls;
pub mod version;
