//! Decides how to handle requests for containers so that each is executed once. No I/O.
//!
//! A request is an annotation, or a new generation of the spec. Before the engine acts, the controller writes a [`Claim`] on the object,
//! with the run of the container as observed then. Afterwards it records the result, then removes claim and request together. A
//! controller that finds a claim of another process concludes that this process died in between, and decides by the container's state how
//! to go on.

use jiff::Timestamp;
use kube::ResourceExt;
use rdd_docker::Runs;
use rdd_types::{
    Time,
    containers::{Action, ActionResult, Container, ContainerState, DesiredState, LastAction},
    names::annotation::{ACTING, ACTION},
};
use serde::{Deserialize, Serialize};

/// The error in the status when it is unknown whether a request was executed, and it is not safe to repeat.
pub const INTERRUPTED: &str = "interrupted: the daemon or the engine ended while this was being done, and it is not known whether it was; it is not done again";

/// A request that a process has started to execute, as an annotation on the Container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The action.
    pub action: Action,
    /// The generation of the spec that requests it; `None` if the annotation does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// When the request was observed. No two claims on one container have the same time.
    pub observed_at: Time,
    /// The run of the container before the action.
    pub before: Runs,
}

/// The next operation for a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// There is no request.
    Nothing,
    /// The annotation is invalid: remove it.
    Discard,
    /// The container already is in the state that the spec requests: record this generation.
    Acknowledge(i64),
    /// Begin this request.
    Begin(Claim),
    /// A claim whose result is recorded: remove it.
    Clear(Claim),
    /// A claim of a process that died, without a result.
    Resume(Claim),
}

/// The outcome of a claim that another process left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The action was executed.
    Done,
    /// It was not executed, or repeating it changes nothing.
    Again,
    /// It may have been executed, and repeating it would do more.
    Unknown,
}

fn annotation<'a>(container: &'a Container, key: &str) -> Option<&'a str> {
    container.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The claim on a container. One that cannot be parsed is not ours, and counts as none.
pub fn claim(container: &Container) -> Option<Claim> {
    annotation(container, ACTING).and_then(|text| serde_json::from_str(text).ok())
}

/// Whether there is a request or a claim to handle.
pub fn is_pending(container: &Container) -> bool {
    container.annotations().contains_key(ACTING)
        || container.annotations().contains_key(ACTION)
        || asked_by_spec(container).is_some()
}

/// The generation that has not been handled yet, and the state that it requests.
fn asked_by_spec(container: &Container) -> Option<(i64, DesiredState)> {
    let generation = container.metadata.generation.unwrap_or(0);
    let acted = container.status.as_ref().and_then(|status| status.observed_generation).unwrap_or(0);
    let wish = container.spec.state;
    (wish != DesiredState::Unknown && acted < generation).then_some((generation, wish))
}

/// Decides the next operation for a container in this state and run.
pub fn next(container: &Container, state: ContainerState, runs: &Runs, now: Timestamp) -> Next {
    // A claim comes first: only one request is in progress at a time.
    if let Some(claim) = claim(container) {
        let is_result =
            |last: &LastAction| last.action == claim.action && last.observed_at.as_ref() == Some(&claim.observed_at);
        let has_result = last_action(container).is_some_and(is_result);
        return if has_result { Next::Clear(claim) } else { Next::Resume(claim) };
    }
    let begin = |action, generation| {
        Next::Begin(Claim { action, generation, observed_at: observed_at(container, now), before: runs.clone() })
    };
    if let Some(text) = annotation(container, ACTION) {
        return Action::parse(text).map_or(Next::Discard, |action| begin(action, None));
    }
    // A claim that cannot be parsed.
    if annotation(container, ACTING).is_some() {
        return Next::Discard;
    }
    match asked_by_spec(container) {
        None => Next::Nothing,
        Some((generation, wish)) => match action_for(wish, state) {
            None => Next::Acknowledge(generation),
            Some(action) => begin(action, Some(generation)),
        },
    }
}

fn last_action(container: &Container) -> Option<&LastAction> {
    container.status.as_ref()?.last_action.as_ref()
}

/// The time in whole seconds, and later than the last action's: it identifies the result of this claim.
fn observed_at(container: &Container, now: Timestamp) -> Time {
    let last = last_action(container).and_then(|last| last.observed_at.as_ref());
    let after = last.map_or(i64::MIN, |last| last.0.as_second().saturating_add(1));
    Time(Timestamp::from_second(now.as_second().max(after)).unwrap_or(now))
}

/// The action that brings a container from this state to the requested one, if one is needed.
fn action_for(wish: DesiredState, state: ContainerState) -> Option<Action> {
    use ContainerState as S;
    match (wish, state) {
        (DesiredState::Unknown, _) => None,
        (DesiredState::Running, S::Running | S::Restarting) => None,
        (DesiredState::Running, S::Paused | S::Pausing) => Some(Action::Unpause),
        (DesiredState::Running, _) => Some(Action::Start),
        (DesiredState::Created, S::Running | S::Restarting | S::Paused | S::Pausing) => Some(Action::Stop),
        (DesiredState::Created, _) => None,
    }
}

/// Decides the outcome of a claim by comparing the container's run and state then and now.
pub fn fate(claim: &Claim, state: ContainerState, runs: &Runs) -> Fate {
    use ContainerState as S;
    let is_up = matches!(state, S::Running | S::Paused | S::Pausing | S::Restarting);
    let is_another_run = runs.started_at != claim.before.started_at;
    match claim.action {
        // It has been started since the claim, so nothing is left to do.
        Action::Start if is_another_run || is_up => Fate::Done,
        Action::Start => Fate::Again,
        Action::Restart if is_another_run => Fate::Done,
        // The engine may be stopping it now, and start it afterwards.
        Action::Restart => Fate::Unknown,
        Action::Stop if is_another_run || !is_up => Fate::Done,
        Action::Stop => Fate::Again,
        Action::Pause if state == S::Paused => Fate::Done,
        Action::Unpause if state == S::Running => Fate::Done,
        Action::Pause | Action::Unpause if is_another_run => Fate::Unknown,
        Action::Pause | Action::Unpause => Fate::Again,
    }
}

/// The result of an action that the engine need not execute; `None` if it must.
pub fn shortcut(action: Action, id: &str, state: ContainerState) -> Option<Result<(), String>> {
    use ContainerState as S;
    match (action, state) {
        (Action::Pause, S::Paused) | (Action::Unpause, S::Running | S::Restarting) => Some(Ok(())),
        (Action::Unpause, S::Paused | S::Pausing) => None,
        (Action::Unpause, _) => Some(Err(format!("cannot unpause container {id}: not running"))),
        _ => None,
    }
}

/// The result to record for a claim.
pub fn result(claim: &Claim, ended: Result<(), String>, now: Timestamp) -> LastAction {
    let completed = now.as_second().max(claim.observed_at.0.as_second());
    LastAction {
        action: claim.action,
        completed_at: Timestamp::from_second(completed).ok().map(Time),
        state: if ended.is_ok() { ActionResult::Succeeded } else { ActionResult::Failed },
        error: ended.err(),
        observed_at: Some(claim.observed_at.clone()),
    }
}

#[cfg(test)]
mod tests {
    use rdd_types::containers::{ContainerSpec, ContainerStatus};

    use super::*;

    fn runs(started_at: &str) -> Runs {
        Runs { started_at: started_at.to_owned(), finished_at: String::new() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn asked(key: &str, value: &str) -> Container {
        let mut container = Container::new("c", ContainerSpec::default());
        container.metadata.annotations = Some([(key.to_owned(), value.to_owned())].into());
        container
    }

    fn wished(state: DesiredState, generation: i64, acted: Option<i64>) -> Container {
        let mut container = Container::new("c", ContainerSpec { state });
        container.metadata.generation = Some(generation);
        container.status = Some(ContainerStatus { observed_generation: acted, ..ContainerStatus::default() });
        container
    }

    fn begun(next: Next) -> Option<(Action, Option<i64>)> {
        match next {
            Next::Begin(claim) => Some((claim.action, claim.generation)),
            _ => None,
        }
    }

    #[test]
    fn a_wish_is_acted_on_once_per_generation_and_only_if_it_is_not_so_already() {
        use ContainerState as S;
        use DesiredState as D;
        let table = [
            (D::Running, S::Exited, Some(Action::Start)),
            (D::Running, S::Created, Some(Action::Start)),
            (D::Running, S::Paused, Some(Action::Unpause)),
            (D::Running, S::Running, None),
            (D::Created, S::Running, Some(Action::Stop)),
            (D::Created, S::Paused, Some(Action::Stop)),
            (D::Created, S::Exited, None),
        ];
        for (wish, state, action) in table {
            let next_of = |acted| next(&wished(wish, 2, acted), state, &runs("1"), at(9));
            match action {
                Some(action) => assert_eq!(begun(next_of(Some(1))), Some((action, Some(2))), "{wish:?} {state:?}"),
                None => assert_eq!(next_of(None), Next::Acknowledge(2), "{wish:?} {state:?}"),
            }
            assert_eq!(next_of(Some(2)), Next::Nothing, "{wish:?} {state:?}");
        }
        assert_eq!(next(&wished(D::Unknown, 2, None), S::Exited, &runs("1"), at(9)), Next::Nothing);
    }

    #[test]
    fn an_annotation_is_begun_if_it_names_an_action_and_dropped_if_not() {
        let state = ContainerState::Running;
        assert_eq!(begun(next(&asked(ACTION, "restart"), state, &runs("1"), at(9))), Some((Action::Restart, None)));
        assert_eq!(next(&asked(ACTION, "Restart"), state, &runs("1"), at(9)), Next::Discard);
        assert_eq!(next(&asked(ACTING, "{"), state, &runs("1"), at(9)), Next::Discard);
    }

    #[test]
    fn a_claim_is_resumed_until_its_result_is_written_and_no_two_have_the_same_time() {
        let mut container = asked(ACTION, "restart");
        let Next::Begin(first) = next(&container, ContainerState::Running, &runs("1"), at(9)) else {
            panic!("it begins")
        };
        let text = serde_json::to_string(&first).unwrap();
        container.annotations_mut().insert(ACTING.to_owned(), text);
        let state = ContainerState::Running;
        assert_eq!(next(&container, state, &runs("1"), at(10)), Next::Resume(first.clone()));
        let last = result(&first, Ok(()), at(9));
        container.status = Some(ContainerStatus { last_action: Some(last), ..ContainerStatus::default() });
        assert_eq!(next(&container, state, &runs("1"), at(10)), Next::Clear(first.clone()));
        container.annotations_mut().remove(ACTING);
        let Next::Begin(second) = next(&container, state, &runs("2"), at(9)) else { panic!("it begins") };
        assert!(second.observed_at > first.observed_at, "within the same second too");
    }

    #[test]
    fn what_somebody_else_began_is_not_done_twice() {
        use ContainerState as S;
        let fate_of = |action, state, now: &str| {
            let claim = Claim { action, generation: None, observed_at: Time(at(1)), before: runs("1") };
            fate(&claim, state, &runs(now))
        };
        for (action, state, now, expected) in [
            (Action::Restart, S::Running, "1", Fate::Unknown),
            (Action::Restart, S::Exited, "1", Fate::Unknown),
            (Action::Restart, S::Running, "2", Fate::Done),
            (Action::Restart, S::Exited, "2", Fate::Done),
            (Action::Start, S::Exited, "1", Fate::Again),
            (Action::Start, S::Running, "2", Fate::Done),
            (Action::Start, S::Exited, "2", Fate::Done),
            (Action::Stop, S::Running, "1", Fate::Again),
            (Action::Stop, S::Exited, "1", Fate::Done),
            (Action::Stop, S::Running, "2", Fate::Done),
            (Action::Pause, S::Paused, "1", Fate::Done),
            (Action::Pause, S::Running, "1", Fate::Again),
            (Action::Pause, S::Running, "2", Fate::Unknown),
            (Action::Unpause, S::Running, "1", Fate::Done),
            (Action::Unpause, S::Paused, "1", Fate::Again),
        ] {
            assert_eq!(fate_of(action, state, now), expected, "{action:?} {state:?} {now}");
        }
    }
}
