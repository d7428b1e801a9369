//! A generic Kubernetes-style server: TLS, authentication, health, metrics, graceful shutdown.
//!
//! It knows no resource: what it serves beyond its own paths plugs in through [`request::Handler`].

pub mod auth;
pub mod backup;
mod endpoints;
pub mod health;
pub mod metrics;
pub mod request;
pub mod respond;
pub mod serve;
pub mod state;
pub mod tls;
pub mod version;
