//! Whether the engine is connected to, and what is said of it: the whole policy, without IO.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rdd_runtime::{Plan, conditions};
use rdd_types::{
    app::{App, EngineName},
    conditions::{CONTAINER_ENGINE_READY, ConditionSpec, PendingCondition, RUNNING, engine as specs},
};

use crate::condition;

/// How soon to look again at mirrors that are on their way out, should nobody tell of their end.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// All that the plan needs to know.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The App.
    pub app: Arc<App>,
    /// How the connection is.
    pub connection: Connection,
    /// The namespace into which the watcher was last told to mirror, if it was.
    pub is_wanted: Option<String>,
    /// What outsiders were told.
    pub publication: Publication,
    /// How many mirrors there are.
    pub mirrors: usize,
    /// When this was seen.
    pub now: Timestamp,
}

/// How the connection is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Connection {
    /// There is none.
    Off,
    /// It is being made, for the first time or after this error.
    Connecting {
        /// Why the last one ended, or was not made.
        error: Option<String>,
    },
    /// Everything is mirrored.
    Live,
}

/// What outsiders were told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publication {
    /// This process has told nothing; another one may have.
    Unknown,
    /// Where the engine is.
    Published,
    /// That there is none.
    Withdrawn,
}

/// What is done to come nearer. The names without a step are those of the watcher's: it connects, looks, and works on one object at a time.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Tells the watcher to connect.
    Connect,
    /// Tells the watcher to hang up, and waits for it.
    Disconnect,
    /// Tells outsiders where the engine is.
    Publish,
    /// Tells outsiders that there is none.
    Withdraw,
    /// Removes every mirror, and nothing from the engine.
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

/// What is to become of the mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// It follows the engine.
    Follow,
    /// Nobody knows yet whether there is an engine: what is there stays, requests that wait on it included.
    Keep,
    /// It goes, and then this is said.
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

/// Whether the mirrors of this App are to go.
pub(super) fn clears(app: &App) -> bool {
    matches!(goal(app), Goal::Clear(_))
}

/// The steps for what was seen.
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
            // Last: what hinders it does not make the engine less ready.
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
        // It is never True with nobody watching.
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
    // A connection that has just ended may have written one more.
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

/// The condition, if it is news.
fn report(seen: &Observed, pending: PendingCondition) -> Option<Step> {
    let before: Vec<Condition> = known(seen).cloned().into_iter().collect();
    let mut next = before.clone();
    condition::set(&pending, &mut next, seen.app.metadata.generation.unwrap_or_default(), seen.now);
    let is_news = next != before;
    next.pop().filter(|_| is_news).map(|condition| Step::Report(Box::new(condition)))
}
