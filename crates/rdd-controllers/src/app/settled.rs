//! Whether an App is as wanted, from everything that is said of it: one pure function, first match wins.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rdd_runtime::conditions::find;

use super::conditions as says;
use crate::{limavm::conditions as vm, saying::Said};

/// All that the answer depends on.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// The App's generation.
    pub generation: i64,
    /// `spec.running`
    pub wanted: bool,
    /// `spec.kubernetes.enabled`
    pub kubernetes_wanted: bool,
    /// Whether the VM was started with the newest template.
    pub template_is_current: bool,
    /// The generation of the LimaVM: what it says about an older one does not count.
    pub vm_generation: i64,
    /// What the LimaVM says.
    pub vm: &'a [Condition],
    /// What is said of the App by other controllers.
    pub app: &'a [Condition],
    /// Whether the engine's mirror takes part.
    pub has_engine: bool,
    /// Whether the Kubernetes controller takes part.
    pub has_kubernetes: bool,
}

/// What `Settled` says.
pub fn settled(inputs: &Inputs<'_>) -> Said {
    let verdict = of_vm(inputs).or_else(|| of_engine(inputs)).or_else(|| of_kubernetes(inputs));
    verdict.unwrap_or_else(|| says::IS_SETTLED.say())
}

fn of_vm(inputs: &Inputs<'_>) -> Option<Said> {
    let running = find(inputs.vm, vm::RUNNING);
    // What failed is said before anything that only waits for it.
    if let Some(created) = find(inputs.vm, vm::CREATED).filter(|created| has_failed(created)) {
        return Some(says::NOT_CREATED.quote(&created.reason, &created.message));
    }
    if !inputs.template_is_current && !running.is_some_and(has_failed) {
        return Some(says::APPLYING_TEMPLATE.say());
    }
    let Some(running) = running else { return Some(says::WAITING_FOR_LIMA_VM.say()) };
    let is_there = if inputs.wanted { running.status == "True" } else { running.reason == vm::STOPPED.reason };
    if is_there && running.observed_generation.unwrap_or(0) < inputs.vm_generation {
        return Some(says::WAITING_FOR_LIMA_VM.say());
    }
    if is_there && inputs.template_is_current {
        return None;
    }
    let (saying, goal) = if inputs.wanted { (&says::NOT_STARTED, "Started") } else { (&says::NOT_STOPPED, "Stopped") };
    let explains = has_failed(running) && !running.message.is_empty();
    let message = if explains { running.message.clone() } else { format!("LimaVM has not yet reached {goal}") };
    Some(saying.quote(&running.reason, &message))
}

fn of_engine(inputs: &Inputs<'_>) -> Option<Said> {
    if !inputs.has_engine {
        return None;
    }
    let engine = find(inputs.app, says::CONTAINER_ENGINE_READY);
    let is_stale = |engine: &Condition| engine.observed_generation.unwrap_or(0) < inputs.generation;
    if !inputs.wanted {
        let has_let_go = engine.is_some_and(|engine| {
            !is_stale(engine) && (engine.reason == "Stopped" || engine.reason == "NotApplicable")
        });
        return (!has_let_go).then(|| says::ENGINE_STALE.say());
    }
    let Some(engine) = engine else { return Some(says::WAITING_FOR_ENGINE.say()) };
    if is_stale(engine) {
        return Some(says::ENGINE_STALE.say());
    }
    let is_final = engine.status == "True" || engine.reason == "NotApplicable";
    (!is_final).then(|| says::ENGINE_NOT_READY.quote(&engine.reason, &engine.message))
}

fn of_kubernetes(inputs: &Inputs<'_>) -> Option<Said> {
    // A stop never waits for the context to be taken away.
    if !inputs.has_kubernetes || !inputs.wanted {
        return None;
    }
    let found = find(inputs.app, says::KUBERNETES_READY);
    let is_stale = |condition: &Condition| condition.observed_generation.unwrap_or(0) < inputs.generation;
    if !inputs.kubernetes_wanted {
        // Who never had it has nothing to be rid of.
        let is_gone = found.is_none_or(|condition| condition.reason == "NotApplicable" && !is_stale(condition));
        return (!is_gone).then(|| says::KUBERNETES_STALE.say());
    }
    let Some(kubernetes) = found else {
        return Some(says::WAITING_FOR_KUBERNETES.say());
    };
    if is_stale(kubernetes) {
        return Some(says::KUBERNETES_STALE.say());
    }
    (kubernetes.status != "True").then(|| says::KUBERNETES_NOT_READY.quote(&kubernetes.reason, &kubernetes.message))
}

fn has_failed(condition: &Condition) -> bool {
    condition.status == "False" && condition.reason.ends_with("Failed")
}
