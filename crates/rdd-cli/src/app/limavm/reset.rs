//! `rdd limavm reset NAME`: recreates the VM from its template.

use serde_json::json;

use super::{
    find,
    wait::{self, Wish},
};
use crate::{
    app::{
        api::{Api, Write},
        args::ResetVm,
        names,
    },
    record,
    report::{Failure, Outcome},
    service::ControlPlane,
};

/// Asks for confirmation, requests the reset with an annotation, and waits until the new VM exists and, if it should run, runs.
pub(super) fn run(plane: &ControlPlane<'_>, args: &ResetVm) -> Outcome {
    let api = Api::ensure(plane)?;
    let vm = find(&api, &args.name)?;
    let what = format!("this deletes everything in LimaVM {:?} and recreates it from its template", vm.name);
    plane.context.confirm(&what, args.yes)?;
    let now = record::timestamp(plane.context.clock().as_ref()).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut change = json!({"metadata": {"annotations": {}}});
    change["metadata"]["annotations"][names::RESET_REQUESTED] = now.into();
    let written = api.write(Write::Merge, &vm.path(), &change, false);
    written.map_err(|error| Failure::caused("failed to update LimaVM", error))?;
    api.record().info(&format!("LimaVM {:?} reset requested in namespace {:?}", vm.name, vm.namespace));
    if !args.waiting.wait {
        return Ok(());
    }
    let phase = format!("recreating LimaVM {:?}", vm.name);
    let failed = "failed waiting for reset to complete";
    wait::until(&api, &vm, Wish::Renewed, args.waiting.timeout.as_bound(), &mut api.interrupt()?, (&phase, failed))?;
    api.record().success(&format!("LimaVM {:?} reset in namespace {:?}", vm.name, vm.namespace));
    Ok(())
}
