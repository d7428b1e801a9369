//! Decides whether an App is settled, as a pure function of all conditions: the first match wins.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rdd_runtime::conditions::find;

use super::conditions as specs;
use crate::{limavm::conditions as vm, saying::Said};

/// Everything that the verdict depends on.
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
    /// The current generation of the LimaVM; conditions of an older one do not count.
    pub vm_generation: i64,
    /// The conditions of the LimaVM.
    pub vm: &'a [Condition],
    /// The App's conditions that other controllers write.
    pub app: &'a [Condition],
    /// Whether the engine controller runs.
    pub has_engine: bool,
    /// Whether the Kubernetes controller runs.
    pub has_kubernetes: bool,
}

/// Returns the `Settled` condition.
pub fn settled(inputs: &Inputs<'_>) -> Said {
    let verdict = of_vm(inputs).or_else(|| of_engine(inputs)).or_else(|| of_kubernetes(inputs));
    verdict.unwrap_or_else(|| specs::IS_SETTLED.say())
}

fn of_vm(inputs: &Inputs<'_>) -> Option<Said> {
    let running = find(inputs.vm, vm::RUNNING);
    // A failure explains more than a condition that only waits for it, so it comes first.
    if let Some(created) = find(inputs.vm, vm::CREATED).filter(|created| has_failed(created)) {
        return Some(specs::NOT_CREATED.quote(&created.reason, &created.message));
    }
    if !inputs.template_is_current && !running.is_some_and(has_failed) {
        return Some(specs::APPLYING_TEMPLATE.say());
    }
    let Some(running) = running else { return Some(specs::WAITING_FOR_LIMA_VM.say()) };
    let is_there = if inputs.wanted { running.status == "True" } else { running.reason == vm::STOPPED.reason };
    if is_there && running.observed_generation.unwrap_or(0) < inputs.vm_generation {
        return Some(specs::WAITING_FOR_LIMA_VM.say());
    }
    if is_there && inputs.template_is_current {
        return None;
    }
    let (saying, goal) =
        if inputs.wanted { (&specs::NOT_STARTED, "Started") } else { (&specs::NOT_STOPPED, "Stopped") };
    let explains = has_failed(running) && !running.message.is_empty();
    let message = if explains { running.message.clone() } else { format!("LimaVM has not yet reached {goal}") };
    Some(saying.quote(&running.reason, &message))
}

fn of_engine(inputs: &Inputs<'_>) -> Option<Said> {
    if !inputs.has_engine {
        return None;
    }
    let engine = find(inputs.app, specs::CONTAINER_ENGINE_READY);
    let is_stale = |engine: &Condition| engine.observed_generation.unwrap_or(0) < inputs.generation;
    if !inputs.wanted {
        let has_let_go = engine.is_some_and(|engine| {
            !is_stale(engine) && (engine.reason == "Stopped" || engine.reason == "NotApplicable")
        });
        return (!has_let_go).then(|| specs::ENGINE_STALE.say());
    }
    let Some(engine) = engine else { return Some(specs::WAITING_FOR_ENGINE.say()) };
    if is_stale(engine) {
        return Some(specs::ENGINE_STALE.say());
    }
    let is_final = engine.status == "True" || engine.reason == "NotApplicable";
    (!is_final).then(|| specs::ENGINE_NOT_READY.quote(&engine.reason, &engine.message))
}

fn of_kubernetes(inputs: &Inputs<'_>) -> Option<Said> {
    // A stop does not wait until the Kubernetes context is withdrawn.
    if !inputs.has_kubernetes || !inputs.wanted {
        return None;
    }
    let found = find(inputs.app, specs::KUBERNETES_READY);
    let is_stale = |condition: &Condition| condition.observed_generation.unwrap_or(0) < inputs.generation;
    if !inputs.kubernetes_wanted {
        // Without a condition Kubernetes was never enabled, so nothing has to be cleaned up.
        let is_gone = found.is_none_or(|condition| condition.reason == "NotApplicable" && !is_stale(condition));
        return (!is_gone).then(|| specs::KUBERNETES_STALE.say());
    }
    let Some(kubernetes) = found else {
        return Some(specs::WAITING_FOR_KUBERNETES.say());
    };
    if is_stale(kubernetes) {
        return Some(specs::KUBERNETES_STALE.say());
    }
    (kubernetes.status != "True").then(|| specs::KUBERNETES_NOT_READY.quote(&kubernetes.reason, &kubernetes.message))
}

fn has_failed(condition: &Condition) -> bool {
    condition.status == "False" && condition.reason.ends_with("Failed")
}
