//! A Kubernetes-compatible API server over a store: from a socket to an object on disk, and back to every watch.
//!
//! Two halves meet in [`request::Handler`]. The frame ([`serve`], [`tls`], [`auth`], [`health`], [`metrics`]) knows no resource
//! and hands on what is not a path of its own. [`core::Core`] is what it hands on to: the [`registry`] of what is served (the
//! kinds that every API server has, from [`builtin`], and those that definitions add, from [`crd`]), and [`rest`], which does
//! with all of them the same.

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
