//! The product's commands: start, stop and configure the App, manage LimaVMs, and report whether everything is ready.

pub mod api;
pub mod args;
pub mod condition;
pub mod delete;
pub mod help;
pub mod interrupt;
pub mod limavm;
pub mod names;
pub mod property;
pub mod remedy;
pub mod reset;
mod reset_kubernetes;
pub mod run;
pub mod schema;
pub mod set;
pub mod settle;
pub mod status;
pub mod watch;

use crate::{context::Context, report::Outcome};
use args::App;

/// Runs a command of the App.
pub fn dispatch(context: &Context<'_>, command: App) -> Outcome {
    match command {
        App::Set(args) => set::run(context, &args),
        App::Start(args) => set::start(context, &args.waiting),
        App::Stop(args) => set::stop(context, &args.waiting),
        App::Run(args) => run::run(context, &args.args),
        App::Status(args) => status::run(context, &args),
        App::Delete(args) => delete::run(context, &args),
        App::Reset(args) => reset::run(context, &args),
        App::Shell(args) => limavm::shell(context, &args.args),
    }
}
