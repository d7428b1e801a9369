//! Demo: processes a message a given number of times, with an event for each; a small example of a controller.

mod endpoints;

use std::sync::Arc;

use kube::{Api, ResourceExt, api::DeleteParams, api::Preconditions};
use rdd_runtime::{Background, Context, Declaration, Error, Plan, conditions, is_not_found};
use rdd_types::{
    app::{DEMO, Demo, DemoStatus},
    conditions::{ConditionSpec, demo as specs},
};

use crate::{condition, websocket::Sockets};

/// The controller's name, in `--controllers` and in discovery.
pub const NAME: &str = "demo";
/// The controller's group in `--controllers`.
pub const GROUP: &str = "app";

/// The controller.
#[derive(Debug, Default)]
pub struct Controller {
    sockets: Sockets,
}

/// The actions of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Deletes a Demo with another name; it can exist only if the server did not check the name.
    DeleteStray,
    /// Processes the message once.
    Process,
    /// Sets the conditions of a completed Demo.
    Complete,
}

rdd_runtime::steps!(Step {
    Self::DeleteStray => "delete-stray",
    Self::Process => "process",
    Self::Complete => "complete",
});

static AT_WORK: [&ConditionSpec; 3] = [&specs::READY_PROCESSING, &specs::PROCESSING, &specs::NOT_COMPLETED];
static DONE: [&ConditionSpec; 3] = [&specs::READY, &specs::NOT_PROCESSING, &specs::COMPLETED];

impl rdd_runtime::Controller for Controller {
    type Object = Demo;
    type Observed = Arc<Demo>;
    type Step = Step;

    fn declaration(&self) -> Declaration {
        Declaration::new(NAME, GROUP)
            .crds(rdd_types::crds_of(NAME))
            .passthrough(endpoints::hello())
            .passthrough(endpoints::websocket(&self.sockets))
    }

    async fn observe(&self, object: Arc<Demo>, _: &Context) -> Result<Arc<Demo>, Error> {
        Ok(object)
    }

    fn plan(&self, demo: &Arc<Demo>) -> Plan<Step> {
        plan(demo)
    }

    async fn act(&self, step: &Step, demo: &Arc<Demo>, cx: &Context) -> Result<(), Error> {
        match step {
            Step::DeleteStray => delete(demo, cx).await,
            Step::Process => process(demo, cx).await,
            Step::Complete => complete(demo, cx).await,
        }
    }

    fn background(self: &Arc<Self>) -> Vec<Background> {
        vec![self.sockets.background()]
    }
}

fn plan(demo: &Demo) -> Plan<Step> {
    if demo.metadata.deletion_timestamp.is_some() {
        return Plan::nothing();
    }
    if demo.name_any() != DEMO {
        return Plan::of([Step::DeleteStray]);
    }
    let status = demo.status.clone().unwrap_or_default();
    if status.processed_count < demo.spec.count {
        // The status write triggers the next reconcile.
        return Plan::of([Step::Process]);
    }
    let is_current = |spec: &&ConditionSpec| condition::is_set(spec, &status.conditions, demo.metadata.generation);
    if DONE.iter().all(is_current) { Plan::nothing() } else { Plan::of([Step::Complete]) }
}

async fn delete(demo: &Demo, cx: &Context) -> Result<(), Error> {
    let api: Api<Demo> = Api::all(cx.client.clone());
    // Another object of the same name may exist by now; the uid protects it.
    let only_this = Preconditions { uid: demo.uid(), resource_version: None };
    match api.delete(&demo.name_any(), &DeleteParams::default().preconditions(only_this)).await {
        Err(error) if !is_not_found(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

async fn process(demo: &Demo, cx: &Context) -> Result<(), Error> {
    let mut status = demo.status.clone().unwrap_or_default();
    status.processed_count = status.processed_count.saturating_add(1);
    status.last_processed = conditions::now(&*cx.clock).to_string();
    let note = format!("Processed message {} of {}: {}", status.processed_count, demo.spec.count, demo.spec.message);
    write(demo, status, &AT_WORK, cx).await?;
    cx.events.normal(demo, "Processing", "Process", &note);
    Ok(())
}

async fn complete(demo: &Demo, cx: &Context) -> Result<(), Error> {
    let status = demo.status.clone().unwrap_or_default();
    write(demo, status, &DONE, cx).await?;
    cx.events.normal(demo, "Completed", "Process", "Demo processing completed successfully");
    Ok(())
}

/// Applies a status with these conditions, and publishes an event for each that changed.
async fn write(
    demo: &Demo,
    mut status: DemoStatus,
    specs: &[&'static ConditionSpec],
    cx: &Context,
) -> Result<(), Error> {
    let now = conditions::now(&*cx.clock);
    let mut changed = Vec::new();
    for spec in specs {
        if condition::set(&spec.pending(), &mut status.conditions, demo.metadata.generation, now) {
            changed.push(spec);
        }
    }
    // Events follow the write, so that none reports a change that failed.
    cx.apply_status(demo, &status).await?;
    for spec in changed {
        cx.events.condition(demo, spec.condition.as_str(), spec.message);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rdd_types::app::DemoSpec;

    use super::*;

    fn demo(count: i32, processed: i32, specs: &[&'static ConditionSpec]) -> Demo {
        let mut demo = Demo::new(DEMO, DemoSpec { count, ..DemoSpec::default() });
        let mut status = DemoStatus { processed_count: processed, ..DemoStatus::default() };
        for spec in specs {
            condition::set(&spec.pending(), &mut status.conditions, None, Default::default());
        }
        demo.status = Some(status);
        demo
    }

    #[test]
    fn it_processes_until_it_has_done_so_often_enough_and_then_says_so_once() {
        assert_eq!(plan(&Demo::new(DEMO, DemoSpec { count: 1, ..DemoSpec::default() })).steps, [Step::Process]);
        assert_eq!(plan(&demo(3, 2, &AT_WORK)).steps, [Step::Process]);
        assert_eq!(plan(&demo(3, 3, &AT_WORK)).steps, [Step::Complete]);
        assert_eq!(plan(&demo(3, 3, &DONE)).steps, []);
        assert_eq!(plan(&demo(4, 3, &DONE)).steps, [Step::Process]);
        assert_eq!(plan(&demo(1, 3, &DONE)).steps, []);
        assert_eq!(plan(&demo(0, 0, &[])).steps, [Step::Complete]);
        assert_eq!(plan(&demo(-1, 0, &DONE)).steps, []);
    }

    #[test]
    fn a_change_of_the_settings_that_changes_nothing_is_acknowledged() {
        let mut done = demo(3, 3, &DONE);
        done.metadata.generation = Some(2);
        assert_eq!(plan(&done).steps, [Step::Complete]);
    }

    #[test]
    fn a_demo_of_another_name_is_deleted_and_one_that_goes_is_left_alone() {
        let mut stray = Demo::new("other", DemoSpec::default());
        assert_eq!(plan(&stray).steps, [Step::DeleteStray]);
        stray.metadata.deletion_timestamp = Some(rdd_types::Time(Default::default()));
        assert_eq!(plan(&stray).steps, []);
    }
}
