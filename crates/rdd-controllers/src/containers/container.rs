//! The conditions of a container, which follow from what the engine calls its state.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rdd_runtime::{
    Context, Declaration, Error, Plan,
    conditions::{self, New},
};
use rdd_types::{
    containers::{Container, ContainerState},
    reasons::{ConditionType, Reason},
};
use serde_json::json;

use super::{GROUP, admission};

/// The name by which the controller is selected and discovered.
pub const NAME: &str = "container";

/// The controller.
#[derive(Debug, Clone, Copy, Default)]
pub struct Controller;

/// What can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Write the conditions.
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

/// Whether a condition holds, why, and in words.
type Saying = (ConditionType, Option<bool>, Reason, &'static str);

/// What is said of a container in this state.
fn sayings(state: ContainerState) -> [Saying; 5] {
    use ConditionType as C;
    use ContainerState as S;
    use Reason as R;
    let choose = |kind, is_so: bool, yes: (Reason, &'static str), no: (Reason, &'static str)| {
        let (reason, message) = if is_so { yes } else { no };
        (kind, Some(is_so), reason, message)
    };
    [
        choose(
            C::Running,
            state == S::Running,
            (R::Running, "Container is running"),
            (R::NotRunning, "Container is not running"),
        ),
        choose(
            C::Paused,
            state == S::Paused,
            (R::Paused, "Container is paused"),
            (R::NotPaused, "Container is not paused"),
        ),
        choose(
            C::Restarting,
            state == S::Restarting,
            (R::Restarting, "Container is restarting"),
            (R::NotRestarting, "Container is not restarting"),
        ),
        choose(C::Dead, state == S::Dead, (R::Dead, "Container is dead"), (R::NotDead, "Container is not dead")),
        (C::OOMKilled, None, R::OOMKilled, "Unable to tell if container is OOMKilled"),
    ]
}

fn new<'a>(container: &Container, (kind, status, reason, message): &'a Saying) -> New<'a> {
    let generation = container.metadata.generation;
    New { kind: kind.as_str(), status: *status, reason: reason.as_str(), message, generation }
}

fn is_said(container: &Container, saying: &Saying) -> bool {
    let (new, status) = (new(container, saying), container.status.as_ref());
    status.and_then(|status| conditions::find(&status.conditions, new.kind)).is_some_and(|found| {
        found.status == conditions::status_word(new.status)
            && (found.reason.as_str(), found.message.as_str()) == (new.reason, new.message)
            && found.observed_generation == new.generation
    })
}

fn plan(container: &Container) -> Plan<Step> {
    // Without a status nobody has said anything yet.
    let Some(status) = container.status.as_ref() else { return Plan::nothing() };
    let is_going = container.metadata.deletion_timestamp.is_some();
    let is_right = sayings(status.status).iter().all(|saying| is_said(container, saying));
    if is_going || is_right { Plan::nothing() } else { Plan::of([Step::Report]) }
}

async fn report(container: &Container, cx: &Context) -> Result<(), Error> {
    let Some(status) = container.status.as_ref() else { return Ok(()) };
    let sayings = sayings(status.status);
    let is_ours = |condition: &&Condition| sayings.iter().any(|(kind, ..)| condition.type_ == kind.as_str());
    let mut ours: Vec<Condition> = status.conditions.iter().filter(is_ours).cloned().collect();
    let now = conditions::now(&*cx.clock);
    let mut changed = Vec::new();
    for saying in &sayings {
        let new = new(container, saying);
        let was_said = conditions::find(&ours, new.kind).is_some();
        // What is said for the first time is no change: thousands of containers of an engine that was there before are no news.
        if conditions::set(&mut ours, &new, now) && was_said {
            changed.push((saying.0.as_str(), saying.3));
        }
    }
    cx.apply_status(container, &json!({"conditions": ours})).await?;
    for (kind, message) in changed {
        cx.events.condition(container, kind, message);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rdd_types::{
        containers::{ContainerSpec, ContainerStatus},
        reasons::TABLE,
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
        let all = sayings(state).into_iter();
        all.filter(|(_, status, ..)| *status == Some(true)).map(|(kind, ..)| kind.as_str()).collect()
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
    fn all_that_it_says_is_in_the_table() {
        for (kind, status, reason, _) in STATES.into_iter().flat_map(sayings) {
            let status = conditions::status_word(status);
            let is_row = |row: &rdd_types::reasons::Row| {
                (row.kind, row.condition, row.status.as_str(), row.reason) == ("Container", kind, status, reason)
            };
            assert!(TABLE.iter().any(is_row), "{kind} {status} {reason}");
        }
    }

    #[test]
    fn it_reports_what_is_not_said_yet_and_nothing_of_what_has_no_status() {
        let mut container = Container::new("c", ContainerSpec::default());
        assert_eq!(plan(&container).steps, []);
        container.status = Some(ContainerStatus { status: ContainerState::Running, ..ContainerStatus::default() });
        assert_eq!(plan(&container).steps, [Step::Report]);
        let mut status = container.status.clone().unwrap_or_default();
        for saying in &sayings(ContainerState::Running) {
            conditions::set(&mut status.conditions, &new(&container, saying), Default::default());
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
        for saying in &sayings(ContainerState::Unknown) {
            conditions::set(&mut status.conditions, &new(&container, saying), Default::default());
        }
        container.status = Some(status);
        assert_eq!(plan(&container).steps, []);
        container.metadata.generation = Some(2);
        assert_eq!(plan(&container).steps, [Step::Report]);
    }
}
