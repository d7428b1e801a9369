//! `rdd reset --kubernetes`: deletes the cluster. Containers, images and volumes stay.

use rdd_types::names::annotation::RESET_KUBERNETES;
use serde_json::{Value, json};

use super::{
    api::{Api, Write},
    args::Reset,
    condition, names, set,
    settle::{self, Written},
    watch::{self, End, Observer, Target},
};
use crate::{
    context::Context,
    progress::Progress,
    report::{ExitCode, Failure, Outcome},
    service::deadline::Deadline,
};

/// Asks for confirmation, requests the reset with an annotation, and waits until the kubernetes controller has removed the
/// annotation and the App has settled.
pub(super) fn run(context: &Context<'_>, api: &Api<'_>, app: &Value, args: &Reset) -> Outcome {
    let what = "this deletes the Kubernetes cluster with everything in it; containers, images and volumes are kept";
    context.confirm(what, args.yes)?;
    if args.yes {
        api.record().info(what);
    }
    let mut interrupt = api.interrupt()?;
    // The controller checks for the annotation only, not for its value.
    let metadata = json!({"uid": condition::text(app, "/metadata/uid"), "annotations": {RESET_KUBERNETES: "true"}});
    let written = api
        .write(Write::Merge, &set::path(), &json!({ "metadata": metadata }), false)
        .map_err(|error| error.while_writing("failed to update App"))?;
    if !args.waiting.wait {
        api.record().success("Kubernetes is being reset");
        return Ok(());
    }
    let deadline = Deadline::after(args.waiting.timeout.as_bound());
    let target = Target { collection: names::APPS.to_owned(), name: names::APP.to_owned() };
    let mut observer = Taken { progress: Progress::start(api.record(), "Waiting for the cluster to be deleted") };
    let continues = "the reset continues in the background; follow it with: rdd status --watch";
    match watch::follow(api, &target, deadline, &mut interrupt, &mut observer)? {
        End::Found(()) => {}
        End::Deadline => {
            let message =
                "timed out waiting for the Kubernetes cluster to be deleted; is the kubernetes controller enabled?";
            return Err(Failure::deadline(message.to_owned()).hint(continues));
        }
        End::Interrupted => {
            let failure = Failure::message("stopped waiting for the Kubernetes cluster to be deleted");
            return Err(failure.code(ExitCode::Interrupted).hint(continues));
        }
    }
    // The progress line is removed before the next wait shows its own.
    drop(observer);
    let left = args.waiting.timeout.as_bound().map(|bound| deadline.left_up_to(bound));
    settle::wait(api, &Written::of(&written), left, &mut interrupt)?;
    api.record().success("Kubernetes has been reset");
    Ok(())
}

/// Observes the App until the kubernetes controller has removed the annotation, which it does when the cluster is gone.
#[derive(Debug)]
struct Taken {
    progress: Progress,
}

impl Observer for Taken {
    type Found = ();

    fn see(&mut self, app: Option<&Value>) -> Outcome<Option<()>> {
        Ok(app.is_none_or(|app| !is_requested(app)).then_some(()))
    }

    fn lost(&mut self) {
        self.progress.phase("waiting for the control plane to respond");
    }
}

fn is_requested(app: &Value) -> bool {
    app.pointer("/metadata/annotations").is_some_and(|annotations| annotations.get(RESET_KUBERNETES).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_whatever_it_says() {
        assert!(is_requested(&json!({"metadata": {"annotations": {RESET_KUBERNETES: ""}}})));
        assert!(!is_requested(&json!({"metadata": {"annotations": {"other": "true"}}})));
        assert!(!is_requested(&json!({"metadata": {}})));
    }
}
