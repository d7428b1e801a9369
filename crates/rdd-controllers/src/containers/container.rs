//! Derives the conditions of a Container from the engine's container state.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rdd_runtime::{Context, Declaration, Error, Plan, conditions};
use rdd_types::{
    conditions::{ConditionSpec, container as specs},
    containers::{Container, ContainerState},
};
use serde_json::json;

use super::{GROUP, admission};
use crate::condition;

/// The controller's name, in `--controllers` and in discovery.
pub const NAME: &str = "container";

/// The controller.
#[derive(Debug, Clone, Copy, Default)]
pub struct Controller;

/// The actions of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Writes the conditions.
    Report,
}

rdd_runtime::steps!(Step {
    Self::Report => "report",
});

impl rdd_runtime::Controller for Controller {
    type Object = Container;
    type Observed = Arc<Container>;
    type Step = Step;

    fn declaration(&self) -> Declaration {
        Declaration::new(NAME, GROUP).crds(rdd_types::crds_of(NAME)).webhook(admission::container())
    }

    async fn observe(&self, object: Arc<Container>, _: &Context) -> Result<Arc<Container>, Error> {
        Ok(object)
    }

    fn plan(&self, container: &Arc<Container>) -> Plan<Step> {
        plan(container)
    }

    async fn act(&self, step: &Step, container: &Arc<Container>, cx: &Context) -> Result<(), Error> {
        match step {
            Step::Report => report(container, cx).await,
        }
    }
}

/// The conditions for this state.
fn specs_for(state: ContainerState) -> [&'static ConditionSpec; 5] {
    use ContainerState as S;
    [
        if state == S::Running { &specs::RUNNING } else { &specs::NOT_RUNNING },
        if state == S::Paused { &specs::PAUSED } else { &specs::NOT_PAUSED },
        if state == S::Restarting { &specs::RESTARTING } else { &specs::NOT_RESTARTING },
        if state == S::Dead { &specs::DEAD } else { &specs::NOT_DEAD },
        &specs::OOM_KILLED_UNKNOWN,
    ]
}

fn plan(container: &Container) -> Plan<Step> {
    // Without a status the state is unknown: the engine controller writes it first.
    let Some(status) = container.status.as_ref() else { return Plan::nothing() };
    let is_deleting = container.metadata.deletion_timestamp.is_some();
    let is_current = |spec: &&ConditionSpec| condition::is_set(spec, &status.conditions, container.metadata.generation);
    let is_right = specs_for(status.status).iter().all(is_current);
    if is_deleting || is_right { Plan::nothing() } else { Plan::of([Step::Report]) }
}

async fn report(container: &Container, cx: &Context) -> Result<(), Error> {
    let Some(status) = container.status.as_ref() else { return Ok(()) };
    let specs = specs_for(status.status);
    // The apply must name all conditions of this controller, and none of other writers.
    let is_ours = |condition: &&Condition| specs.iter().any(|spec| condition.type_ == spec.condition);
    let mut ours: Vec<Condition> = status.conditions.iter().filter(is_ours).cloned().collect();
    let now = conditions::now(&*cx.clock);
    let mut changed = Vec::new();
    for spec in specs {
        let had_condition = conditions::find(&ours, spec.condition.as_str()).is_some();
        // The first report publishes no events: an existing engine may have thousands of containers.
        if condition::set(&spec.pending(), &mut ours, container.metadata.generation, now) && had_condition {
            changed.push(spec);
        }
    }
    cx.apply_status(container, &json!({"conditions": ours})).await?;
    for spec in changed {
        cx.events.condition(container, spec.condition.as_str(), spec.message);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rdd_types::{
        conditions::ConditionStatus,
        containers::{ContainerSpec, ContainerStatus},
    };

    use super::*;

    const STATES: [ContainerState; 9] = [
        ContainerState::Created,
        ContainerState::Running,
        ContainerState::Pausing,
        ContainerState::Paused,
        ContainerState::Restarting,
        ContainerState::Removing,
        ContainerState::Exited,
        ContainerState::Dead,
        ContainerState::Unknown,
    ];

    fn holding(state: ContainerState) -> Vec<&'static str> {
        let all = specs_for(state).into_iter();
        all.filter(|spec| spec.status == ConditionStatus::True).map(|spec| spec.condition.as_str()).collect()
    }

    #[test]
    fn each_state_makes_at_most_one_condition_true() {
        let table: [(ContainerState, &[&str]); 9] = [
            (ContainerState::Created, &[]),
            (ContainerState::Running, &["Running"]),
            (ContainerState::Pausing, &[]),
            (ContainerState::Paused, &["Paused"]),
            (ContainerState::Restarting, &["Restarting"]),
            (ContainerState::Removing, &[]),
            (ContainerState::Exited, &[]),
            (ContainerState::Dead, &["Dead"]),
            (ContainerState::Unknown, &[]),
        ];
        for (state, wanted) in table {
            assert_eq!(holding(state), wanted, "{state:?}");
        }
    }

    #[test]
    fn every_condition_of_the_table_follows_from_a_state() {
        for spec in specs::ALL {
            assert!(STATES.into_iter().any(|state| specs_for(state).contains(spec)), "{spec:?}");
        }
    }

    #[test]
    fn it_reports_what_is_not_said_yet_and_nothing_of_what_has_no_status() {
        let mut container = Container::new("c", ContainerSpec::default());
        assert_eq!(plan(&container).steps, []);
        container.status = Some(ContainerStatus { status: ContainerState::Running, ..ContainerStatus::default() });
        assert_eq!(plan(&container).steps, [Step::Report]);
        let mut status = container.status.clone().unwrap_or_default();
        for spec in specs_for(ContainerState::Running) {
            condition::set(&spec.pending(), &mut status.conditions, container.metadata.generation, Default::default());
        }
        container.status = Some(status.clone());
        assert_eq!(plan(&container).steps, []);
        container.status = Some(ContainerStatus { status: ContainerState::Paused, ..status });
        assert_eq!(plan(&container).steps, [Step::Report]);
        container.metadata.deletion_timestamp = Some(rdd_types::Time(Default::default()));
        assert_eq!(plan(&container).steps, []);
    }

    #[test]
    fn a_new_generation_is_acknowledged() {
        let mut container = Container::new("c", ContainerSpec::default());
        let mut status = ContainerStatus::default();
        for spec in specs_for(ContainerState::Unknown) {
            condition::set(&spec.pending(), &mut status.conditions, container.metadata.generation, Default::default());
        }
        container.status = Some(status);
        assert_eq!(plan(&container).steps, []);
        container.metadata.generation = Some(2);
        assert_eq!(plan(&container).steps, [Step::Report]);
    }
}
