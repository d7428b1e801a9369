//! `rdd kubectl …`: the kubectl of this machine.

use std::ffi::OsString;

use crate::{commands::program, context::Context, report::Outcome};

/// Becomes kubectl.
pub fn run(context: &Context<'_>, args: &[OsString]) -> Outcome {
    program::become_other(context, "kubectl", args, "install kubectl (https://kubernetes.io/docs/tasks/tools)")
}
