//! Conformance tests: third-party clients, CRDs and recorded replies decide whether the API is Kubernetes-compatible.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

mod client_go;
mod ctl;
mod definitions;
mod kube_rs;
mod kubeconfig;
mod kubectl;
mod mirror;
mod support;
