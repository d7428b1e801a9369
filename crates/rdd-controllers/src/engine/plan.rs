//! Decides whether to connect to the engine, and which condition to report. No I/O.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rdd_runtime::{Plan, conditions};
use rdd_types::{
    app::{App, EngineName},
    conditions::{CONTAINER_ENGINE_READY, ConditionSpec, PendingCondition, RUNNING, engine as specs},
};

use crate::condition;

/// The interval at which deleted mirrors are counted again, in case no watch event arrives.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Everything that the plan depends on.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The App.
    pub app: Arc<App>,
    /// The state of the connection.
    pub connection: Connection,
    /// The namespace that the watcher is to mirror into; `None` if it is not to connect.
    pub is_wanted: Option<String>,
    /// What is published.
    pub publication: Publication,
    /// How many mirrors exist.
    pub mirrors: usize,
    /// The time of the observation.
    pub now: Timestamp,
}

/// The state of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Connection {
    /// There is no connection.
    Off,
    /// The watcher is connecting, for the first time or after this error.
    Connecting {
        /// Why the last connection or attempt ended.
        error: Option<String>,
    },
    /// The engine is connected and mirrored.
    Live,
}

/// What is published to other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publication {
    /// Unknown: this process has neither published nor withdrawn; an earlier process may have published.
    Unknown,
    /// The socket is published.
    Published,
    /// Nothing is published.
    Withdrawn,
}

/// The actions of a plan. The names after `also` are steps of the watcher.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Makes the watcher connect.
    Connect,
    /// Makes the watcher disconnect, and waits until it has.
    Disconnect,
    /// Publishes the socket to other programs.
    Publish,
    /// Removes the publication.
    Withdraw,
    /// Removes all mirrors, and deletes nothing from the engine.
    DeleteMirrors,
    /// Writes the condition.
    Report(Box<Condition>),
}

rdd_runtime::steps!(Step {
    Self::Connect => "connect",
    Self::Disconnect => "disconnect",
    Self::Publish => "publish",
    Self::Withdraw => "withdraw",
    Self::DeleteMirrors => "delete-mirrors",
    Self::Report(_) => "report",
} also [
    "listen",
    "sync",
    "create-mirror",
    "write-mirror",
    "mark-mirror",
    "remove-mirror",
    "remove-thing",
    "release-mirror",
    "claim",
    "act",
    "record",
    "unclaim",
]);

/// What happens to the mirrors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// They follow the engine.
    Follow,
    /// It is unknown whether the engine runs: mirrors and pending requests stay.
    Keep,
    /// They are removed, and then this condition is reported.
    Clear(&'static ConditionSpec),
}

fn goal(app: &App) -> Goal {
    if app.metadata.deletion_timestamp.is_some() {
        return Goal::Clear(&specs::STOPPED);
    }
    let known = app.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    match conditions::find(known, RUNNING).map(|running| running.status.as_str()) {
        Some("True") if app.spec.container_engine.name == EngineName::Moby => Goal::Follow,
        Some("True") => Goal::Clear(&specs::NOT_APPLICABLE),
        Some("Unknown") => Goal::Keep,
        _ => Goal::Clear(&specs::STOPPED),
    }
}

/// Whether the mirrors of this App are to be removed.
pub(super) fn clears(app: &App) -> bool {
    matches!(goal(app), Goal::Clear(_))
}

/// Plans the steps for an observation.
pub fn plan(seen: &Observed) -> Plan<Step> {
    match goal(&seen.app) {
        Goal::Follow => plan_following(seen),
        Goal::Keep => plan_keeping(seen),
        Goal::Clear(spec) => plan_clearing(seen, spec),
    }
}

fn plan_following(seen: &Observed) -> Plan<Step> {
    let mut steps = Vec::new();
    if seen.is_wanted.as_ref() != Some(&seen.app.spec.namespace) {
        steps.push(Step::Connect);
    }
    match &seen.connection {
        Connection::Live => {
            steps.extend(report(seen, specs::CONNECTED.pending()));
            // Last: a failed publication does not make the engine less ready.
            steps.extend((seen.publication != Publication::Published).then_some(Step::Publish));
        }
        Connection::Connecting { error: Some(error) } => {
            steps.extend(report(seen, specs::CONNECT_FAILED.with_message(error)))
        }
        Connection::Connecting { error: None } | Connection::Off => {
            steps.extend(report(seen, specs::CONNECTING.pending()));
        }
    }
    Plan::of(steps)
}

fn plan_keeping(seen: &Observed) -> Plan<Step> {
    let claims = |condition: &&Condition| condition.status == "True";
    let is_said = known(seen).filter(claims).is_some();
    match seen.connection {
        Connection::Live => Plan::nothing(),
        // The condition must not stay True while the connection does not work.
        _ if is_said => Plan::of(report(seen, specs::CONNECTING.pending())),
        _ => Plan::nothing(),
    }
}

fn plan_clearing(seen: &Observed, spec: &'static ConditionSpec) -> Plan<Step> {
    let mut steps = Vec::new();
    if seen.is_wanted.is_some() || seen.connection != Connection::Off {
        steps.push(Step::Disconnect);
    }
    if seen.publication != Publication::Withdrawn {
        steps.push(Step::Withdraw);
    }
    if seen.mirrors > 0 {
        return Plan::of(steps).then(Step::DeleteMirrors).again(LOOK_AGAIN);
    }
    // A connection that is ending may have written one more mirror.
    if steps.contains(&Step::Disconnect) {
        return Plan::of(steps).then(Step::DeleteMirrors).again(Duration::ZERO);
    }
    steps.extend(report(seen, spec.pending()));
    Plan::of(steps)
}

fn known(seen: &Observed) -> Option<&Condition> {
    let all = seen.app.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    conditions::find(all, CONTAINER_ENGINE_READY)
}

/// A step that writes the condition; `None` if nothing changes.
fn report(seen: &Observed, pending: PendingCondition) -> Option<Step> {
    let before: Vec<Condition> = known(seen).cloned().into_iter().collect();
    let mut next = before.clone();
    condition::set(&pending, &mut next, seen.app.metadata.generation.unwrap_or_default(), seen.now);
    let is_news = next != before;
    next.pop().filter(|_| is_news).map(|condition| Step::Report(Box::new(condition)))
}
