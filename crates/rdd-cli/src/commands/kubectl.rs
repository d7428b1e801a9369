//! `rdd kubectl …`: the kubectl of this machine.

use std::ffi::OsString;

use crate::{commands::program, context::Context, report::Outcome};

/// Where kubectl comes from.
pub(super) const HOW_TO_INSTALL: &str = "install kubectl (https://kubernetes.io/docs/tasks/tools)";

/// Becomes kubectl.
pub fn run(context: &Context<'_>, args: &[OsString]) -> Outcome {
    program::become_other(context, "kubectl", args, &[], &[HOW_TO_INSTALL])
}
