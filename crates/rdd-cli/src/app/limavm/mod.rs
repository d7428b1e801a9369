//! `rdd limavm …`: LimaVMs by name, in any namespace.

mod create;
mod edit;
mod editor;
mod lifecycle;
mod log;
mod params;
mod reset;
mod shell;
mod wait;

use std::ffi::OsString;

use serde_json::Value;

use super::{api::Api, args::LimaVm, condition, names};
use crate::{
    context::Context,
    go::quote,
    report::{Failure, Outcome},
    service::ControlPlane,
};

/// Runs a `rdd limavm` command.
pub fn dispatch(context: &Context<'_>, verb: LimaVm) -> Outcome {
    let plane = ControlPlane::of(context)?;
    match verb {
        LimaVm::Create(args) => create::run(&plane, &args),
        LimaVm::Start(args) => lifecycle::start(&plane, &args),
        LimaVm::Stop(args) => lifecycle::stop(&plane, &args),
        LimaVm::Restart(args) => lifecycle::restart(&plane, &args),
        LimaVm::Delete(args) => lifecycle::delete(&plane, &args),
        LimaVm::Edit(args) => edit::run(&plane, &args),
        LimaVm::Log(args) => log::run(&plane, &args),
        LimaVm::Params(args) => params::run(&plane, &args),
        LimaVm::Reset(args) => reset::run(&plane, &args),
        LimaVm::Shell(args) => shell::run(&plane, &args.args),
    }
}

/// Opens a shell in the VM of the App, or runs a command in it.
pub fn shell(context: &Context<'_>, words: &[OsString]) -> Outcome {
    shell::run_in_app(context, words)
}

/// A LimaVM as the API returned it.
#[derive(Debug, Clone)]
struct Vm {
    name: String,
    namespace: String,
    object: Value,
}

impl Vm {
    fn of(object: Value) -> Self {
        let name = condition::text(&object, "/metadata/name").to_owned();
        let namespace = condition::text(&object, "/metadata/namespace").to_owned();
        Self { name, namespace, object }
    }

    fn path(&self) -> String {
        names::object(&names::vms_in(&self.namespace), &self.name)
    }

    fn uid(&self) -> &str {
        condition::text(&self.object, "/metadata/uid")
    }
}

/// Finds a LimaVM by name in all namespaces. Admission keeps names unique across namespaces.
fn find(api: &Api<'_>, name: &str) -> Outcome<Vm> {
    let list = api.get(&format!("{}?{}", names::VMS, names::only(name)));
    let list = list.map_err(|error| Failure::caused(format!("failed to find LimaVM {}", quote(name)), error))?;
    match list["items"].as_array().and_then(|items| items.first()) {
        // Items of a list have no apiVersion and kind; nothing here reads these.
        Some(object) => Ok(Vm::of(object.clone())),
        None => Err(Failure::message(format!("LimaVM {} not found in any namespace", quote(name)))),
    }
}
