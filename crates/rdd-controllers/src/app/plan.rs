//! The whole policy of App, without IO: the chain from the App over its input to the LimaVM, and back to `Settled`.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rdd_runtime::{Plan, conditions};
use rdd_types::{
    app::{App, AppStatus, VM},
    lima::LimaVM,
    names::finalizer,
};

use super::{
    conditions as says,
    settled::{Inputs, settled},
};
use crate::saying::Said;

/// How soon to look again at what nobody tells us of.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// All that the plan needs to know.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The App, as it is now.
    pub app: Arc<App>,
    /// Whether it went away before anybody looked.
    pub is_gone: bool,
    /// Its namespace.
    pub namespace: Namespace,
    /// The LimaVM of its name in its namespace.
    pub vm: Option<Arc<LimaVM>>,
    /// The ConfigMap that hands a new LimaVM its template.
    pub input: Input,
    /// The ConfigMap with the template of the LimaVM that is there.
    pub template: Option<Copy>,
    /// What the template should be.
    pub rendered: String,
    /// Which other controllers take part.
    pub peers: Peers,
    /// When this was seen.
    pub now: Timestamp,
}

/// The namespace of the App.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespace {
    /// There is none.
    Absent,
    /// It is there.
    Present {
        /// Whether the App made it.
        ours: bool,
    },
    /// It is going away.
    Terminating {
        /// Whether the App made it.
        ours: bool,
    },
}

/// The ConfigMap that hands a new LimaVM its template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// There is none.
    Absent,
    /// The App made it.
    Ours,
    /// Somebody else did.
    Foreign,
}

/// The template of a LimaVM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// Its text.
    pub text: String,
    /// Its version.
    pub resource_version: String,
}

/// Which other controllers take part.
#[derive(Debug, Clone, std::marker::Copy, PartialEq, Eq)]
pub struct Peers {
    /// The engine's mirror.
    pub engine: bool,
    /// Kubernetes.
    pub kubernetes: bool,
}

/// What is done to come nearer.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Makes the namespace.
    CreateNamespace,
    /// Makes the input, or brings it up to date.
    ApplyInput,
    /// Makes the LimaVM.
    CreateVM,
    /// Removes the input: the LimaVM has a copy.
    DeleteInput,
    /// Tells the LimaVM to stop.
    StopVM,
    /// Writes the new template.
    PatchTemplate,
    /// Tells the LimaVM to run.
    StartVM,
    /// Writes our part of the status.
    WriteStatus(Box<AppStatus>),
    /// Lets go of the LimaVM, so that it can be deleted.
    ReleaseVM,
    /// Deletes the LimaVM.
    DeleteVM,
    /// Removes every other object that the App owns in its namespace.
    Sweep,
    /// Deletes the namespace.
    DeleteNamespace,
    /// Takes our finalizer off: nothing is left to clean up.
    Release,
}

rdd_runtime::steps!(Step {
    Self::CreateNamespace => "create-namespace",
    Self::ApplyInput => "apply-input",
    Self::CreateVM => "create-vm",
    Self::DeleteInput => "delete-input",
    Self::StopVM => "stop-vm",
    Self::PatchTemplate => "patch-template",
    Self::StartVM => "start-vm",
    Self::WriteStatus(_) => "write-status",
    Self::ReleaseVM => "release-vm",
    Self::DeleteVM => "delete-vm",
    Self::Sweep => "sweep",
    Self::DeleteNamespace => "delete-namespace",
    Self::Release => "release",
});

/// The steps for what was seen.
pub fn plan(seen: &Observed) -> Plan<Step> {
    match seen.app.metadata.deletion_timestamp {
        _ if seen.is_gone => Plan::nothing(),
        Some(_) => plan_teardown(seen),
        None => plan_life(seen),
    }
}

impl Observed {
    fn owned_vm(&self) -> Option<&LimaVM> {
        self.vm.as_deref().filter(|vm| self.owns(vm))
    }

    /// By its controller reference; a name alone says nothing.
    fn owns(&self, vm: &LimaVM) -> bool {
        let ours = self.app.metadata.uid.as_deref();
        let owners = vm.metadata.owner_references.iter().flatten();
        ours.is_some() && owners.into_iter().any(|owner| Some(owner.uid.as_str()) == ours)
    }

    fn generation(&self) -> i64 {
        self.app.metadata.generation.unwrap_or_default()
    }
}

/// What is said when this step failed, if it is anything that people should see where they look for the state of the App.
pub fn after_failure(failed: &Step, seen: &Observed, error: &str) -> Option<Step> {
    let is_deleting = seen.app.metadata.deletion_timestamp.is_some();
    let saying = match failed {
        Step::WriteStatus(_) | Step::Release => return None,
        _ if is_deleting => &says::WAITING_FOR_REMOVAL,
        Step::CreateNamespace | Step::ApplyInput | Step::CreateVM => &says::NOT_CREATED,
        Step::PatchTemplate => &says::APPLYING_TEMPLATE,
        _ => &says::WAITING_FOR_LIMA_VM,
    };
    let said = saying.with(error);
    status(seen, said)
}

fn plan_life(seen: &Observed) -> Plan<Step> {
    let namespace = &seen.app.spec.namespace;
    if let Namespace::Terminating { .. } = seen.namespace {
        let why = format!("namespace {namespace:?} is being deleted");
        return Plan::of(status(seen, says::NOT_CREATED.with(&why))).again(LOOK_AGAIN);
    }
    let mut steps = Vec::new();
    if seen.namespace == Namespace::Absent {
        steps.push(Step::CreateNamespace);
    }
    match &seen.vm {
        None => plan_creation(seen, steps),
        Some(vm) if !seen.owns(vm) => {
            let why = format!("LimaVM {:?} in namespace {namespace:?} does not belong to the App", VM);
            Plan::of(status(seen, says::NOT_CREATED.with(&why))).again(LOOK_AGAIN)
        }
        Some(vm) if vm.metadata.deletion_timestamp.is_some() => {
            // Somebody deleted it past the guard. It cannot go while we hold it, and there is no new one before it is gone.
            steps.extend(is_held(vm).then_some(Step::ReleaseVM));
            steps.extend(status(seen, says::WAITING_FOR_LIMA_VM.say()));
            Plan::of(steps).again(LOOK_AGAIN)
        }
        Some(vm) => plan_vm(seen, vm, steps),
    }
}

fn plan_creation(seen: &Observed, mut steps: Vec<Step>) -> Plan<Step> {
    if seen.input == Input::Foreign {
        let (name, namespace) = (VM, &seen.app.spec.namespace);
        let why = format!("ConfigMap {name:?} in namespace {namespace:?} does not belong to the App");
        steps.extend(status(seen, says::NOT_CREATED.with(&why)));
        return Plan::of(steps).again(LOOK_AGAIN);
    }
    steps.extend(status(seen, says::WAITING_FOR_LIMA_VM.say()));
    steps.extend([Step::ApplyInput, Step::CreateVM]);
    Plan::of(steps)
}

fn plan_vm(seen: &Observed, vm: &LimaVM, mut steps: Vec<Step>) -> Plan<Step> {
    if seen.input == Input::Ours {
        steps.push(Step::DeleteInput);
    }
    let wanted = seen.app.spec.running;
    // A stop goes before a change of the template, a start after it: nothing is restarted for nothing.
    if vm.spec.running && !wanted {
        steps.push(Step::StopVM);
    }
    let is_written = seen.template.as_ref().is_none_or(|copy| copy.text == seen.rendered);
    if !is_written {
        steps.push(Step::PatchTemplate);
    }
    if wanted && !vm.spec.running {
        steps.push(Step::StartVM);
    }
    let is_told = vm.spec.running == wanted;
    let vm_status = vm.status.clone().unwrap_or_default();
    let is_current = seen.template.as_ref().is_none_or(|copy| {
        is_written && Some(&copy.resource_version) == vm_status.observed_template_resource_version.as_ref()
    });
    let others = seen.app.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let verdict = settled(&Inputs {
        generation: seen.generation(),
        wanted,
        kubernetes_wanted: seen.app.spec.kubernetes.as_ref().is_some_and(|kubernetes| kubernetes.enabled),
        template_is_current: is_current,
        // What was said before it is told what is wanted now says nothing about that.
        vm_generation: vm.metadata.generation.unwrap_or_default() + i64::from(!is_told),
        vm: &vm_status.conditions,
        app: others,
        has_engine: seen.peers.engine,
        has_kubernetes: seen.peers.kubernetes,
    });
    steps.extend(status(seen, verdict));
    Plan::of(steps)
}

/// In the order in which things depend on each other, and only what is the App's. It goes on from wherever an earlier attempt ended.
fn plan_teardown(seen: &Observed) -> Plan<Step> {
    if !finalizers(&seen.app.metadata.finalizers).any(|name| name == finalizer::CLEANUP) {
        return Plan::nothing();
    }
    let mut steps = Vec::new();
    if let Some(vm) = seen.owned_vm() {
        // Also when it is being deleted already: nobody else lets go of it.
        steps.extend(is_held(vm).then_some(Step::ReleaseVM));
        steps.extend(vm.metadata.deletion_timestamp.is_none().then_some(Step::DeleteVM));
        // The engine's and Kubernetes' controllers see by these that the VM goes down, and clean up while the App is still there.
        steps.extend(status(seen, says::WAITING_FOR_REMOVAL.say()));
        return Plan::of(steps).again(LOOK_AGAIN);
    }
    if !engine_has_let_go(seen) {
        steps.extend(status(seen, says::ENGINE_STALE.say()));
        return Plan::of(steps).again(LOOK_AGAIN);
    }
    if seen.input == Input::Ours {
        steps.push(Step::DeleteInput);
    }
    if seen.namespace != Namespace::Absent {
        steps.push(Step::Sweep);
    }
    if let Namespace::Present { ours: true } = seen.namespace {
        steps.push(Step::DeleteNamespace);
    }
    steps.push(Step::Release);
    Plan::of(steps)
}

/// Whether no mirror of the engine is left, as its controller says of the App that is being deleted. One that does not run has none to let go.
fn engine_has_let_go(seen: &Observed) -> bool {
    let known = seen.app.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let is_final = |engine: &Condition| {
        engine.observed_generation.unwrap_or(0) >= seen.generation()
            && (engine.reason == "Stopped" || engine.reason == "NotApplicable")
    };
    !seen.peers.engine || conditions::find(known, says::CONTAINER_ENGINE_READY).is_some_and(is_final)
}

fn is_held(vm: &LimaVM) -> bool {
    finalizers(&vm.metadata.finalizers).any(|name| name == finalizer::OWNED_BY_APP)
}

fn finalizers(list: &Option<Vec<String>>) -> impl Iterator<Item = &str> {
    list.iter().flatten().map(String::as_str)
}

/// A status with what the LimaVM says and this verdict, if that is news.
fn status(seen: &Observed, verdict: Said) -> Option<Step> {
    let known = seen.app.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let ours: Vec<Condition> = known.iter().filter(|one| !belongs_to_others(&one.type_)).cloned().collect();
    let from = seen
        .owned_vm()
        .and_then(|vm| vm.status.as_ref())
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    // Those that are there, and those that were: what vanished from the LimaVM vanishes here.
    let kinds: BTreeSet<&str> =
        from.iter().chain(&ours).map(|one| one.type_.as_str()).filter(|kind| !is_reserved(kind)).collect();
    let kinds: Vec<&str> = kinds.into_iter().collect();
    let mut next = ours.clone();
    conditions::mirror(from, &mut next, &kinds, Some(seen.generation()));
    verdict.put(&mut next, seen.generation(), seen.now);
    // The verdict comes last, as people read it.
    next.sort_by_key(|one| one.type_ == says::SETTLED);
    // In whatever order the server keeps them.
    let is_news = next.len() != ours.len() || next.iter().any(|one| !ours.contains(one));
    is_news.then(|| Step::WriteStatus(Box::new(AppStatus { conditions: next, ..AppStatus::default() })))
}

/// Conditions of the App that other controllers write.
fn belongs_to_others(condition: &str) -> bool {
    [says::CONTAINER_ENGINE_READY, says::KUBERNETES_READY].contains(&condition)
}

/// Conditions that a LimaVM cannot bring into an App.
fn is_reserved(condition: &str) -> bool {
    condition == says::SETTLED || belongs_to_others(condition)
}
