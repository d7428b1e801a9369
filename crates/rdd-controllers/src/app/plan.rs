//! The policy of the App controller, without IO: from the App and the template input to the LimaVM, and back to `Settled`.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rdd_runtime::{Plan, conditions};
use rdd_types::{
    app::{App, AppStatus, VM},
    conditions::{CONTAINER_ENGINE_READY, KUBERNETES_READY, PendingCondition, Reason, SETTLED, app as specs},
    lima::LimaVM,
    names::finalizer,
};

use super::settled::{Inputs, settled};
use crate::condition;

/// How soon to reconcile again when no event announces the change that the App waits for.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Everything that the plan depends on.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The App, read from the server.
    pub app: Arc<App>,
    /// Whether the App was deleted before it could be observed.
    pub is_gone: bool,
    /// Its namespace.
    pub namespace: Namespace,
    /// The LimaVM of its name in its namespace.
    pub vm: Option<Arc<LimaVM>>,
    /// The ConfigMap that hands a new LimaVM its template.
    pub input: Input,
    /// The template ConfigMap of the existing LimaVM.
    pub template: Option<Copy>,
    /// The template for the current settings.
    pub rendered: String,
    /// Which other controllers run.
    pub peers: Peers,
    /// When this was observed.
    pub now: Timestamp,
}

/// The namespace of the App.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespace {
    /// It does not exist.
    Absent,
    /// It exists.
    Present {
        /// Whether the App created it.
        ours: bool,
    },
    /// It is being deleted.
    Terminating {
        /// Whether the App created it.
        ours: bool,
    },
}

/// The ConfigMap that hands a new LimaVM its template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// It does not exist.
    Absent,
    /// The App created it.
    Ours,
    /// Another owner created it.
    Foreign,
}

/// The template of a LimaVM, as last read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// Its text.
    pub text: String,
    /// The resource version of its ConfigMap.
    pub resource_version: String,
}

/// Which other controllers run.
#[derive(Debug, Clone, std::marker::Copy, PartialEq, Eq)]
pub struct Peers {
    /// The engine controller.
    pub engine: bool,
    /// The Kubernetes controller.
    pub kubernetes: bool,
}

/// The steps of the App controller.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Creates the namespace.
    CreateNamespace,
    /// Creates or updates the template input.
    ApplyInput,
    /// Creates the LimaVM.
    CreateVM,
    /// Deletes the template input: the LimaVM has its own copy.
    DeleteInput,
    /// Sets `spec.running` of the LimaVM to false.
    StopVM,
    /// Writes the new template.
    PatchTemplate,
    /// Sets `spec.running` of the LimaVM to true.
    StartVM,
    /// Writes this controller's part of the status.
    WriteStatus(Box<AppStatus>),
    /// Removes the App's finalizer from the LimaVM, so that it can be deleted.
    ReleaseVM,
    /// Deletes the LimaVM.
    DeleteVM,
    /// Deletes all other objects that the App owns in its namespace.
    Sweep,
    /// Deletes the namespace.
    DeleteNamespace,
    /// Removes the cleanup finalizer from the App.
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

/// Returns the steps that bring the observed state closer to the desired state.
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

    /// Whether the App owns the LimaVM, by UID in its owner references. A name alone proves nothing.
    fn owns(&self, vm: &LimaVM) -> bool {
        let ours = self.app.metadata.uid.as_deref();
        let owners = vm.metadata.owner_references.iter().flatten();
        ours.is_some() && owners.into_iter().any(|owner| Some(owner.uid.as_str()) == ours)
    }

    fn generation(&self) -> i64 {
        self.app.metadata.generation.unwrap_or_default()
    }
}

/// The status to write when this step failed, for failures that a user should see on the App.
pub fn after_failure(failed: &Step, seen: &Observed, error: &str) -> Option<Step> {
    let is_deleting = seen.app.metadata.deletion_timestamp.is_some();
    let spec = match failed {
        Step::WriteStatus(_) | Step::Release => return None,
        _ if is_deleting => &specs::WAITING_FOR_REMOVAL,
        Step::CreateNamespace | Step::ApplyInput | Step::CreateVM => &specs::NOT_CREATED,
        Step::PatchTemplate => &specs::APPLYING_TEMPLATE,
        _ => &specs::WAITING_FOR_LIMA_VM,
    };
    let said = spec.with_message(error);
    status(seen, said)
}

fn plan_life(seen: &Observed) -> Plan<Step> {
    let namespace = &seen.app.spec.namespace;
    if let Namespace::Terminating { .. } = seen.namespace {
        let why = format!("namespace {namespace:?} is being deleted");
        return Plan::of(status(seen, specs::NOT_CREATED.with_message(&why))).again(LOOK_AGAIN);
    }
    let mut steps = Vec::new();
    if seen.namespace == Namespace::Absent {
        steps.push(Step::CreateNamespace);
    }
    match &seen.vm {
        None => plan_creation(seen, steps),
        Some(vm) if !seen.owns(vm) => {
            let why = format!("LimaVM {:?} in namespace {namespace:?} does not belong to the App", VM);
            Plan::of(status(seen, specs::NOT_CREATED.with_message(&why))).again(LOOK_AGAIN)
        }
        Some(vm) if vm.metadata.deletion_timestamp.is_some() => {
            // Something bypassed the delete guard. The VM cannot go while the App's finalizer holds it, and a new one has to wait for its end.
            steps.extend(is_held(vm).then_some(Step::ReleaseVM));
            steps.extend(status(seen, specs::WAITING_FOR_LIMA_VM.pending()));
            Plan::of(steps).again(LOOK_AGAIN)
        }
        Some(vm) => plan_vm(seen, vm, steps),
    }
}

fn plan_creation(seen: &Observed, mut steps: Vec<Step>) -> Plan<Step> {
    if seen.input == Input::Foreign {
        let (name, namespace) = (VM, &seen.app.spec.namespace);
        let why = format!("ConfigMap {name:?} in namespace {namespace:?} does not belong to the App");
        steps.extend(status(seen, specs::NOT_CREATED.with_message(&why)));
        return Plan::of(steps).again(LOOK_AGAIN);
    }
    steps.extend(status(seen, specs::WAITING_FOR_LIMA_VM.pending()));
    steps.extend([Step::ApplyInput, Step::CreateVM]);
    Plan::of(steps)
}

fn plan_vm(seen: &Observed, vm: &LimaVM, mut steps: Vec<Step>) -> Plan<Step> {
    if seen.input == Input::Ours {
        steps.push(Step::DeleteInput);
    }
    let wanted = seen.app.spec.running;
    // A stop comes before a template change and a start after it, so that the VM is not restarted needlessly.
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
        // If `spec.running` is about to change, conditions of the current generation do not count: expect the next one.
        vm_generation: vm.metadata.generation.unwrap_or_default() + i64::from(!is_told),
        vm: &vm_status.conditions,
        app: others,
        has_engine: seen.peers.engine,
        has_kubernetes: seen.peers.kubernetes,
    });
    steps.extend(status(seen, verdict));
    Plan::of(steps)
}

/// Deletes what the App owns, in dependency order. It resumes where an interrupted attempt ended.
fn plan_teardown(seen: &Observed) -> Plan<Step> {
    if !finalizers(&seen.app.metadata.finalizers).any(|name| name == finalizer::CLEANUP) {
        return Plan::nothing();
    }
    let mut steps = Vec::new();
    if let Some(vm) = seen.owned_vm() {
        // Also for a VM that is being deleted already: only the App removes this finalizer.
        steps.extend(is_held(vm).then_some(Step::ReleaseVM));
        steps.extend(vm.metadata.deletion_timestamp.is_none().then_some(Step::DeleteVM));
        // The engine and Kubernetes controllers react to these conditions and clean up while the App still exists.
        steps.extend(status(seen, specs::WAITING_FOR_REMOVAL.pending()));
        return Plan::of(steps).again(LOOK_AGAIN);
    }
    if !engine_has_let_go(seen) {
        steps.extend(status(seen, specs::ENGINE_STALE.pending()));
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

/// Whether the engine controller reports that no mirrors are left. An engine controller that does not run has none.
fn engine_has_let_go(seen: &Observed) -> bool {
    let known = seen.app.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let is_final = |engine: &Condition| {
        engine.observed_generation.unwrap_or(0) >= seen.generation()
            && (engine.reason == Reason::Stopped || engine.reason == Reason::NotApplicable)
    };
    !seen.peers.engine || conditions::find(known, CONTAINER_ENGINE_READY).is_some_and(is_final)
}

fn is_held(vm: &LimaVM) -> bool {
    finalizers(&vm.metadata.finalizers).any(|name| name == finalizer::OWNED_BY_APP)
}

fn finalizers(list: &Option<Vec<String>>) -> impl Iterator<Item = &str> {
    list.iter().flatten().map(String::as_str)
}

/// The step that writes the status with the LimaVM's conditions and this verdict, if anything changed.
fn status(seen: &Observed, verdict: PendingCondition) -> Option<Step> {
    let known = seen.app.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let ours: Vec<Condition> = known.iter().filter(|one| !belongs_to_others(&one.type_)).cloned().collect();
    let from = seen
        .owned_vm()
        .and_then(|vm| vm.status.as_ref())
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    // Include conditions that the LimaVM no longer has: mirroring removes them from the App.
    let kinds: BTreeSet<&str> =
        from.iter().chain(&ours).map(|one| one.type_.as_str()).filter(|kind| !is_reserved(kind)).collect();
    let kinds: Vec<&str> = kinds.into_iter().collect();
    let mut next = ours.clone();
    conditions::mirror(from, &mut next, &kinds, Some(seen.generation()));
    condition::set(&verdict, &mut next, seen.generation(), seen.now);
    // `Settled` comes last, where people expect it.
    next.sort_by_key(|one| one.type_ == SETTLED);
    // Compare as sets: the server may return the conditions in another order.
    let is_news = next.len() != ours.len() || next.iter().any(|one| !ours.contains(one));
    is_news.then(|| Step::WriteStatus(Box::new(AppStatus { conditions: next, ..AppStatus::default() })))
}

/// Whether another controller writes this condition of the App.
fn belongs_to_others(condition: &str) -> bool {
    [CONTAINER_ENGINE_READY, KUBERNETES_READY].contains(&condition)
}

/// Whether a LimaVM must not pass this condition on to the App.
fn is_reserved(condition: &str) -> bool {
    condition == SETTLED || belongs_to_others(condition)
}
