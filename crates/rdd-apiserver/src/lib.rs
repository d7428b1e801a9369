//! A generic Kubernetes-style server: TLS, authentication, health, metrics, graceful shutdown.
//!
//! It knows no resource: what it serves beyond its own paths plugs in through [`request::Handler`].

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
