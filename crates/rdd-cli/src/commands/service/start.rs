//! `rdd service start`: starts the daemon in the background.

use crate::{
    args::Start,
    report::Outcome,
    service::{
        ControlPlane, args_file,
        deadline::Deadline,
        start::{self, Request, Session},
    },
};

/// Starts the daemon in the background, creating the instance if needed. The session's arguments apply until the next stop.
pub fn run(plane: &ControlPlane<'_>, args: &Start) -> Outcome {
    let session = Session {
        controllers: args.controllers.clone(),
        secure_port: args_file::port(args.secure_port)?,
        positional: super::texts(&args.args)?,
    };
    session.check(plane.instance.ports.api)?;
    let deadline = Deadline::after(args.timeout.as_bound());
    start::start(plane, &Request { session, wait: args.wait, announce: true, api_only: false }, deadline)
}
