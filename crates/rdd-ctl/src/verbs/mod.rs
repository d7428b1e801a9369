//! The built-in verbs, one file each.

pub(crate) mod apply;
pub(crate) mod auth;
pub(crate) mod cluster_info;
pub(crate) mod config;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod describe;
pub(crate) mod explain;
pub(crate) mod get;
pub(crate) mod label;
pub(crate) mod patch;
pub(crate) mod resources;
pub(crate) mod version;
pub(crate) mod wait;
pub(crate) mod wait_condition;

use crate::error::Error;

/// The error for a command that only kubectl supports, with a hint.
pub(crate) fn elsewhere(what: &str) -> Error {
    Error::text(format!(
        "`{what}` is not built in\nhint: install kubectl (https://kubernetes.io/docs/tasks/tools): `rdd kubectl` runs the one on PATH; \
         for the service, set KUBECONFIG=$(rdd svc paths config)"
    ))
}
