//! `rdd service config`: prints the kubeconfig of the instance.

use crate::{
    report::Outcome,
    service::{self, ControlPlane, readiness},
};

/// Prints the daemon's kubeconfig, starting the daemon if needed.
pub fn run(plane: &ControlPlane<'_>) -> Outcome {
    service::ensure_api(plane)?;
    Ok(plane.context.printer.line(readiness::read_config(plane)?)?)
}
