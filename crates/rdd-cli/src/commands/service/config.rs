//! `rdd service config`.

use crate::{
    report::Outcome,
    service::{self, ControlPlane, readiness},
};

/// Prints the kubeconfig of the daemon, which is started if needed.
pub fn run(plane: &ControlPlane<'_>) -> Outcome {
    service::ensure_api(plane)?;
    Ok(plane.context.printer.line(readiness::read_config(plane)?)?)
}
