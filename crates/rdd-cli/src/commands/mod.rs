//! The commands of `rdd`, one file each.

pub mod completion;
pub mod ctl;
pub mod help;
pub mod kubectl;
pub mod program;
pub mod service;
pub mod version;
pub mod yq;

use crate::{
    app,
    args::{Command, Global},
    context::Context,
    report::Outcome,
};

/// Runs the command; a command group without a subcommand prints its help.
pub fn dispatch(context: &Context<'_>, global: &Global, command: Command) -> Outcome {
    match command {
        Command::Service { verb: Some(verb) } => service::dispatch(context, global, verb),
        Command::Service { verb: None } => help::print(context, &["rdd", "service"].map(str::to_owned)),
        Command::Completion { shell: Some(shell) } => completion::run(context, shell),
        Command::Completion { shell: None } => help::print(context, &["rdd", "completion"].map(str::to_owned)),
        Command::Help(words) => help::run(context, words.words),
        Command::LimaVm { verb: Some(verb) } => app::limavm::dispatch(context, verb),
        Command::LimaVm { verb: None } => help::print(context, &["rdd", "limavm"].map(str::to_owned)),
        Command::App(command) => app::dispatch(context, command),
        Command::Ctl(passed) => ctl::run(context, &passed.args),
        Command::Kubectl(passed) => kubectl::run(context, &passed.args),
        Command::Version(_) => version::print(context, "true"),
        Command::Yq(passed) => yq::run(context, &passed.args),
    }
}
