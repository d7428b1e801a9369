//! Judges the observed state: a tree of parts, each with its state, reason, age and suggested command. It does no I/O.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::facts::{Answer, Daemon, Discovery, Facts, Known, Mirrors};
use crate::app::{
    condition::{self, Condition},
    names::{self, conditions},
    remedy::{self, Places},
};

/// How long a part may be starting before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(90);

/// The state of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is ready for use.
    Ready,
    /// It is starting.
    Starting,
    /// It is stopping.
    Stopping,
    /// It waits for the part that it depends on.
    Waiting,
    /// It is not wanted.
    Off,
    /// It is wanted, and failed.
    Failed,
    /// Its state could not be observed.
    Unknown,
}

impl State {
    /// The state as users and scripts see it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Starting => "starting",
            Self::Stopping => "stopping",
            Self::Waiting => "waiting",
            Self::Off => "off",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// A part of the instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its name for scripts, which is stable across versions.
    pub id: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Its state.
    pub state: State,
    /// The reason of its condition, one CamelCase word; absent if the state does not come from a condition.
    pub reason: Option<String>,
    /// Why it has this state, in one sentence.
    pub message: String,
    /// The time since which it has this state, if it is known.
    pub since: Option<Timestamp>,
    /// The suggested command; absent for a part that is ready.
    pub next: Option<String>,
    /// The parts that depend on it.
    pub children: Vec<Node>,
}

/// The state of the whole instance, as `rdd status -o json` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The instance's name.
    pub name: String,
    /// Whether the App is wanted and every wanted part is ready.
    pub ready: bool,
    /// Whether the App is as its settings require, running or not.
    pub settled: bool,
    /// The worst state of all parts.
    pub state: State,
    /// The most urgent suggested command.
    pub next: Option<String>,
    /// The control plane, with the other parts below it.
    pub tree: Node,
}

impl Report {
    /// Finds a part by its id.
    pub fn node(&self, id: &str) -> Option<&Node> {
        nodes(&self.tree).into_iter().find(|node| node.id == id)
    }
}

/// The part and all parts below it, parents first.
pub fn nodes(node: &Node) -> Vec<&Node> {
    std::iter::once(node).chain(node.children.iter().flat_map(nodes)).collect()
}

/// Computes the report from the observed state.
///
/// A failed part makes the whole instance failed; then come unknown, stopping and starting. The instance is ready only if the App is wanted
/// and settled and no part has one of these states.
pub fn judge(facts: &Facts) -> Report {
    let view = View::of(facts);
    let (machine, engine) = (view.machine(), view.engine());
    let mirrors = view.mirrors(&engine);
    let kubernetes = view.kubernetes(&machine);
    let engine = Node { children: vec![mirrors], ..engine };
    let machine = Node { children: vec![engine, kubernetes], ..machine };
    let app = Node { children: vec![machine], ..view.app() };
    let tree = Node { children: vec![app], ..view.daemon() };
    let all = nodes(&tree);
    let worst = |state: State| all.iter().any(|node| node.state == state);
    let order = [State::Failed, State::Unknown, State::Stopping, State::Starting, State::Waiting];
    let settled = view.settled();
    let ready = settled && view.is_wanted() && !order.iter().any(|state| worst(*state)) && tree.state == State::Ready;
    // Users see `starting` for an instance in which a part waits for another.
    let state = match order.into_iter().find(|state| worst(*state)) {
        Some(State::Waiting) => State::Starting,
        Some(state) => state,
        None if ready => State::Ready,
        None => State::Off,
    };
    // A failed part needs help before one that is starting.
    let advice = |broken: bool| {
        all.iter().filter(|node| (node.state == State::Failed) == broken).find_map(|node| node.next.clone())
    };
    let next = advice(true).or_else(|| advice(false));
    Report { name: facts.instance.clone(), ready, settled, state, next, tree }
}

/// The observed state with the objects that the parts read.
struct View<'f> {
    facts: &'f Facts,
    app: Option<&'f Value>,
    vm: Option<&'f Value>,
}

impl<'f> View<'f> {
    fn of(facts: &'f Facts) -> Self {
        let present = |known: &'f Known| match known {
            Known::Present(object) => Some(object.as_ref()),
            _ => None,
        };
        Self { facts, app: present(&facts.app), vm: present(&facts.vm) }
    }

    fn is_wanted(&self) -> bool {
        self.app.is_some_and(|app| app.pointer("/spec/running") == Some(&Value::Bool(true)))
    }

    fn engine_name(&self) -> &str {
        match self.app.map(|app| condition::text(app, "/spec/containerEngine/name")) {
            None | Some("") => "moby",
            Some(name) => name,
        }
    }

    /// A condition of the App, if it is about the current generation of its settings.
    fn app_condition(&self, kind: &str) -> Option<Condition> {
        let app = self.app?;
        condition::condition(app, kind).filter(|condition| condition.is_of(condition::generation(app)))
    }

    /// The suggested command for a condition.
    fn help(&self, condition: &Condition) -> String {
        remedy::help(condition, &Places { is_host: self.is_host(), ..self.facts.places.clone() })
    }

    /// The condition that `Settled` copied its reason and message from. The reason alone does not identify it, since two parts may share a
    /// reason.
    fn cause_of(&self, settled: Condition) -> Condition {
        let kinds = [
            conditions::CREATED,
            conditions::RUNNING,
            conditions::CONTAINER_ENGINE_READY,
            conditions::KUBERNETES_READY,
        ];
        let of_app = kinds.into_iter().filter_map(|kind| self.app_condition(kind));
        let has_its_words = |one: &Condition| (&one.reason, &one.message) == (&settled.reason, &settled.message);
        of_app.filter(|one| !one.is_true()).find(has_its_words).unwrap_or(settled)
    }

    fn is_host(&self) -> bool {
        self.app.is_some_and(|app| condition::text(app, "/spec/backend") == "host")
    }

    fn settled(&self) -> bool {
        self.app_condition(conditions::SETTLED).is_some_and(|condition| condition.is_true())
    }

    fn runs(&self, controller: &str) -> bool {
        self.facts.discovery.as_ref().is_some_and(|discovery| discovery.controllers.contains(controller))
    }

    /// Whether a part has had its state for longer than a start should take.
    fn is_overdue(&self, since: Option<Timestamp>) -> bool {
        since.is_some_and(|since| self.facts.now.duration_since(since).as_secs() > PATIENCE.as_secs().cast_signed())
    }

    fn daemon(&self) -> Node {
        let node = Node::new("daemon", "control plane");
        let Daemon::Running { pid, since, answer } = &self.facts.daemon else {
            let message = if self.facts.created { "stopped" } else { "not created" };
            return node.state(State::Off, message).next("rdd start");
        };
        // From here on a daemon runs.
        let node = node.since(*since);
        // A start that takes too long counts as a failure.
        let pending = if self.is_overdue(*since) { State::Failed } else { State::Starting };
        match answer {
            Answer::Silent(why) => {
                node.state(pending, format!("it does not answer: {why}")).next("rdd service log --follow")
            }
            Answer::Incompatible(version) => node
                .state(State::Failed, format!("it is of another version: {version}"))
                .next("rdd service stop && rdd service start"),
            Answer::Failing(why) => node.state(State::Failed, why.as_str()).next("rdd service log --follow"),
            Answer::NotReady(checks) => {
                let message = format!(
                    "not up yet: {}",
                    if checks.is_empty() { "it did not say what".to_owned() } else { checks.join(", ") }
                );
                node.state(pending, message).next("rdd service log --follow")
            }
            Answer::Ready { .. } if self.facts.discovery.as_ref().is_some_and(|discovery| !discovery.ready) => {
                node.state(pending, "controllers are being registered").next("rdd service log --follow")
            }
            Answer::Ready { server, version } => {
                let pid = pid.map_or_else(String::new, |pid| format!(", PID {pid}"));
                let controllers = match &self.facts.discovery {
                    Some(Discovery { controllers, .. }) if !controllers.is_empty() => "",
                    _ => ", without controllers",
                };
                node.state(State::Ready, format!("{version} at {server}{pid}{controllers}"))
            }
        }
    }

    fn app(&self) -> Node {
        let node = Node::new("app", "app");
        let Some(app) = self.app else {
            return match &self.facts.app {
                Known::Absent => node.state(State::Off, "there is none yet").next("rdd start"),
                Known::Unknown(_) if self.facts.daemon == Daemon::Stopped => {
                    node.state(State::Off, "needs the control plane")
                }
                Known::Unknown(why) => node.state(State::Unknown, why.as_str()).next("rdd service log"),
                Known::Present(_) => node,
            };
        };
        if condition::is_deleting(app) {
            return node.state(State::Stopping, "it is being deleted").next("rdd delete");
        }
        // The controller has not seen the current generation yet.
        let Some(settled) = self.app_condition(conditions::SETTLED) else {
            return node.state(State::Starting, "its settings have not been looked at yet").next("rdd status --watch");
        };
        let state = match (settled.is_true(), self.is_wanted()) {
            (true, true) => State::Ready,
            (true, false) => State::Off,
            (false, _) if settled.is_failure() => State::Failed,
            (false, true) => State::Starting,
            (false, false) => State::Stopping,
        };
        let node = node.of(&settled, state);
        match state {
            // The text of `Settled` describes a successful stop; the user needs to know only that the App is off.
            State::Off => Node { message: "switched off".to_owned(), ..node.next("rdd start") },
            State::Failed => node.next(self.help(&self.cause_of(settled))),
            _ => node.next("rdd status --watch"),
        }
    }

    fn machine(&self) -> Node {
        let node = Node::new("machine", if self.is_host() { "host" } else { "VM" });
        let Some(vm) = self.vm else {
            return match (&self.facts.vm, self.is_wanted()) {
                (Known::Absent, true) => node.state(State::Starting, "it has not been created"),
                (Known::Absent, false) => node.state(State::Off, "there is none"),
                (Known::Unknown(_), _) if self.facts.daemon == Daemon::Stopped => {
                    node.state(State::Off, "needs the control plane")
                }
                (Known::Unknown(why), _) => node.state(State::Unknown, why.as_str()),
                (Known::Present(_), _) => node,
            };
        };
        let log = format!("rdd limavm log {}", names::APP_VM);
        if condition::is_deleting(vm) {
            return node.state(State::Stopping, "it is being deleted").next(log);
        }
        let created = condition::condition(vm, conditions::CREATED);
        if let Some(created) = created.filter(Condition::is_failure) {
            return node.of(&created, State::Failed).next(self.help(&created));
        }
        // A driver may omit the observed generation; only a condition known to be older is ignored.
        let current = |condition: &Condition| condition.may_be_of(condition::generation(vm));
        let Some(running) = condition::condition(vm, conditions::RUNNING).filter(current) else {
            let state = if self.is_wanted() { State::Starting } else { State::Stopping };
            return node.state(state, "it has not reported its state").next(log);
        };
        let state = match (self.is_wanted(), running.is_true()) {
            (true, true) => State::Ready,
            (false, _) if running.reason == conditions::STOPPED => State::Off,
            _ if running.is_failure() => State::Failed,
            (true, false) => State::Starting,
            (false, _) => State::Stopping,
        };
        let node = node.of(&running, state);
        match state {
            State::Off => node,
            State::Failed => node.next(self.help(&running)),
            _ => node.next(log),
        }
    }

    fn engine(&self) -> Node {
        let node = Node::new("engine", "engine");
        let machine = self.machine();
        if let Some(state) = below(&machine) {
            return node.state(state, format!("{} needs the machine", self.engine_name()));
        }
        // containerd has no socket of its own to ping: it runs if the VM does.
        if self.engine_name() != "moby" {
            return Node {
                since: machine.since,
                ..node.state(State::Ready, format!("{} runs with the machine", self.engine_name()))
            };
        }
        if self.runs(names::ENGINE_CONTROLLER) {
            return match self.app_condition(conditions::CONTAINER_ENGINE_READY) {
                None => node.state(State::Starting, "waiting for the container engine"),
                // The socket address is more useful than the condition's message.
                Some(condition) if condition.is_true() => {
                    let message = format!("moby at unix://{}", self.facts.engine_socket);
                    Node { message, ..node.of(&condition, State::Ready) }
                }
                Some(condition) if condition.is_failure() => {
                    node.of(&condition, State::Failed).next(self.help(&condition))
                }
                Some(condition) => node.of(&condition, State::Starting).next(self.help(&condition)),
            };
        }
        // Without the engine controller, the result of the ping decides.
        let socket = &self.facts.engine_socket;
        match &self.facts.engine {
            Some(Ok(())) => {
                Node { since: machine.since, ..node.state(State::Ready, format!("moby at unix://{socket}")) }
            }
            Some(Err(why)) => {
                let state = if self.is_overdue(machine.since) { State::Failed } else { State::Starting };
                node.state(state, format!("unix://{socket} does not answer: {why}"))
                    .next(format!("rdd limavm log {}", names::APP_VM))
            }
            None => node.state(State::Unknown, format!("unix://{socket} was not asked")),
        }
    }

    fn mirrors(&self, engine: &Node) -> Node {
        let node = Node::new("mirrors", "mirrors");
        // Before the App exists, its engine is unknown.
        if self.app.is_none()
            && let Some(state) = below(engine)
        {
            return node.state(state, "needs the engine");
        }
        if self.engine_name() != "moby" {
            return node.state(State::Off, format!("{} is not mirrored", self.engine_name()));
        }
        if !self.runs(names::ENGINE_CONTROLLER) {
            return node.state(State::Off, "no controller mirrors the engine");
        }
        if let Some(state) = below(engine) {
            return node.state(state, "needs the engine");
        }
        let message = match &self.facts.mirrors {
            Some(Mirrors { containers, images, volumes }) => {
                let parts = [(*containers, "container"), (*images, "image"), (*volumes, "volume")];
                parts.map(|(count, what)| counted(count, what)).join(", ")
            }
            None => "containers, images and volumes are in the API".to_owned(),
        };
        Node { since: engine.since, ..node.state(State::Ready, message) }
    }

    fn kubernetes(&self, machine: &Node) -> Node {
        let node = Node::new("kubernetes", "Kubernetes");
        if let (Known::Unknown(_), Some(state)) = (&self.facts.app, below(machine)) {
            return node.state(state, "needs the machine");
        }
        if !self.app.is_some_and(|app| app.pointer("/spec/kubernetes/enabled") == Some(&Value::Bool(true))) {
            return node.state(State::Off, "not enabled");
        }
        if let Some(state) = below(machine) {
            return node.state(state, "needs the machine");
        }
        if !self.runs(names::KUBERNETES_CONTROLLER) {
            return node.state(State::Failed, "enabled, but no controller for it runs").next("rdd service log");
        }
        match self.app_condition(conditions::KUBERNETES_READY) {
            None => node.state(State::Starting, "waiting for Kubernetes"),
            Some(condition) if condition.is_true() => node.of(&condition, State::Ready),
            Some(condition) if condition.is_failure() => node.of(&condition, State::Failed).next(self.help(&condition)),
            Some(condition) => node.of(&condition, State::Starting).next(self.help(&condition)),
        }
    }
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The state of a part whose parent is not ready; `None` if the parent is ready.
fn below(ground: &Node) -> Option<State> {
    match ground.state {
        State::Ready => None,
        State::Off => Some(State::Off),
        State::Unknown => Some(State::Unknown),
        State::Stopping => Some(State::Stopping),
        State::Starting | State::Waiting | State::Failed => Some(State::Waiting),
    }
}

impl Node {
    fn new(id: &'static str, title: &'static str) -> Self {
        let (state, message) = (State::Unknown, String::new());
        Self { id, title, state, reason: None, message, since: None, next: None, children: Vec::new() }
    }

    fn state(self, state: State, message: impl Into<String>) -> Self {
        Self { state, message: message.into(), ..self }
    }

    fn of(self, condition: &Condition, state: State) -> Self {
        let reason = Some(condition.reason.clone()).filter(|reason| !reason.is_empty());
        let since = condition.last_transition_time;
        Self { state, reason, message: condition.message.clone(), since, ..self }
    }

    fn since(self, since: Option<Timestamp>) -> Self {
        Self { since, ..self }
    }

    /// Sets the suggested command, unless the part is ready.
    fn next(self, command: impl Into<String>) -> Self {
        let helps = !matches!(self.state, State::Ready);
        Self { next: helps.then(|| command.into()), ..self }
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
pub(crate) mod tests;
