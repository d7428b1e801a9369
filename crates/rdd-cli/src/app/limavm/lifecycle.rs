//! `rdd limavm start`, `stop`, `restart` and `delete`: change a LimaVM and wait for the result.

use serde_json::{Value, json};

use super::{
    Vm, find,
    wait::{self, Wish},
};
use crate::{
    app::{
        api::{Api, Write},
        args::OneVm,
        condition, names,
    },
    record,
    report::{Failure, Outcome},
    service::ControlPlane,
};

/// Starts a LimaVM and waits until it runs.
pub(super) fn start(plane: &ControlPlane<'_>, args: &OneVm) -> Outcome {
    let texts = Texts { done: "started", phase: "starting", failed: "failed waiting for LimaVM to be started" };
    switch(plane, args, true, &texts, Wish::Running)
}

/// Stops a LimaVM and waits until it has stopped.
pub(super) fn stop(plane: &ControlPlane<'_>, args: &OneVm) -> Outcome {
    let texts = Texts { done: "stopped", phase: "stopping", failed: "failed waiting for LimaVM to be stopped" };
    switch(plane, args, false, &texts, Wish::Stopped)
}

/// Words for the messages of a start or stop.
struct Texts {
    done: &'static str,
    phase: &'static str,
    failed: &'static str,
}

/// Sets `spec.running`, then waits for the goal at the generation of that write.
fn switch(plane: &ControlPlane<'_>, args: &OneVm, running: bool, texts: &Texts, wish: fn(i64) -> Wish) -> Outcome {
    let api = Api::ensure(plane)?;
    let vm = find(&api, &args.name)?;
    let written = write(&api, &vm, &json!({"spec": {"running": running}}))?;
    api.record().info(&format!("LimaVM {:?} {} in namespace {:?}", vm.name, texts.done, vm.namespace));
    if !args.waiting.wait {
        return Ok(());
    }
    let wish = wish(condition::generation(&written));
    let phase = format!("{} LimaVM {:?}", texts.phase, vm.name);
    wait::until(&api, &vm, wish, args.waiting.timeout.as_bound(), &mut api.interrupt()?, (&phase, texts.failed))
}

/// Restarts a LimaVM. A stopped one is started.
pub(super) fn restart(plane: &ControlPlane<'_>, args: &OneVm) -> Outcome {
    let api = Api::ensure(plane)?;
    let vm = find(&api, &args.name)?;
    let now = record::timestamp(plane.context.clock().as_ref()).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut change = json!({"metadata": {"annotations": {}}, "spec": {"running": true}});
    change["metadata"]["annotations"][names::RESTART_REQUESTED] = now.into();
    write(&api, &vm, &change)?;
    api.record().info(&format!("LimaVM {:?} restart requested in namespace {:?}", vm.name, vm.namespace));
    if !args.waiting.wait {
        return Ok(());
    }
    // The count before the request: any higher one means that the restart happened.
    let wish = Wish::Restarted(wait::restart_count(&vm.object));
    let phase = format!("restarting LimaVM {:?}", vm.name);
    let failed = "failed waiting for restart to complete";
    wait::until(&api, &vm, wish, args.waiting.timeout.as_bound(), &mut api.interrupt()?, (&phase, failed))?;
    api.record().success(&format!("LimaVM {:?} restarted in namespace {:?}", vm.name, vm.namespace));
    Ok(())
}

/// Deletes a LimaVM and waits until it is gone.
pub(super) fn delete(plane: &ControlPlane<'_>, args: &OneVm) -> Outcome {
    let api = Api::ensure(plane)?;
    let vm = find(&api, &args.name)?;
    match api.remove(&vm.path(), vm.uid()) {
        Ok(()) => {}
        // Another client deleted it first.
        Err(error) if error.is_absent() => {}
        Err(error) => return Err(Failure::caused("failed to delete LimaVM", error)),
    }
    if args.waiting.wait {
        let phase = format!("deleting LimaVM {:?}", vm.name);
        let failed = "failed to wait for LimaVM deletion";
        wait::until(&api, &vm, Wish::Gone, args.waiting.timeout.as_bound(), &mut api.interrupt()?, (&phase, failed))?;
    }
    api.record().success(&format!("LimaVM {:?} deleted from namespace {:?}", vm.name, vm.namespace));
    Ok(())
}

fn write(api: &Api<'_>, vm: &Vm, change: &Value) -> Outcome<Value> {
    let written = api.write(Write::Merge, &vm.path(), change, false);
    written.map_err(|error| Failure::caused("failed to update LimaVM", error))
}
