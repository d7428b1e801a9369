//! `rdd yq …`: the yq of this machine.

use std::ffi::OsString;

use crate::{commands::program, context::Context, report::Outcome};

/// Becomes yq.
pub fn run(context: &Context<'_>, args: &[OsString]) -> Outcome {
    program::become_other(context, "yq", args, &[], &["install yq, version 4 (https://github.com/mikefarah/yq)"])
}
