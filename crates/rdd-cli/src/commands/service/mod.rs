//! `rdd service`: one subcommand per file.

pub mod backup;
pub mod config;
pub mod create;
pub mod delete;
pub mod log;
pub mod paths;
pub mod reset;
pub mod restore;
pub mod serve;
pub mod start;
pub mod status;
pub mod stop;
pub mod unit;

use std::ffi::OsString;

use crate::{
    args::{Global, Service},
    context::Context,
    report::{Failure, Outcome},
    service::ControlPlane,
};

/// Runs a subcommand.
pub fn dispatch(context: &Context<'_>, global: &Global, verb: Service) -> Outcome {
    if let Service::Serve(serve) = &verb {
        return serve::run(context, global, serve);
    }
    // It prints paths that depend only on the instance's name, so it needs no valid instance.
    if let Service::Paths(args) = &verb {
        return paths::run(&ControlPlane::unchecked(context)?, args);
    }
    let plane = ControlPlane::of(context)?;
    match verb {
        Service::Backup(args) => backup::run(&plane, &args),
        Service::Config => config::run(&plane),
        Service::Create(args) => create::run(&plane, &args),
        Service::Delete(args) => delete::run(&plane, &args),
        Service::Log(args) => log::run(&plane, &args),
        Service::Reset(args) => reset::run(&plane, &args),
        Service::Restore(args) => restore::run(&plane, &args),
        Service::Serve(_) | Service::Paths(_) => unreachable!("handled above"),
        Service::Start(args) => start::run(&plane, &args),
        Service::Status(args) => status::run(&plane, &args),
        Service::Stop(args) => stop::run(&plane, &args),
        Service::Unit(args) => unit::run(&plane, &args),
    }
}

/// Converts arguments to UTF-8; they are stored in a JSON file.
fn texts(words: &[OsString]) -> Outcome<Vec<String>> {
    let text = |word: &OsString| {
        word.to_str()
            .map(str::to_owned)
            .ok_or_else(|| Failure::message(format!("argument {word:?} is not valid UTF-8 and cannot be stored")))
    };
    words.iter().map(text).collect()
}
