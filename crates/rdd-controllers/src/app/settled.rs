//! Decides whether an App is settled, as a pure function of all conditions: the first match wins.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rdd_runtime::conditions::find;

use rdd_types::conditions::{
    CONTAINER_ENGINE_READY, CREATED, KUBERNETES_READY, PendingCondition, RUNNING, Reason, app as specs,
    limavm as vm_specs,
};

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
pub fn settled(inputs: &Inputs<'_>) -> PendingCondition {
    let verdict = of_vm(inputs).or_else(|| of_engine(inputs)).or_else(|| of_kubernetes(inputs));
    verdict.unwrap_or_else(|| specs::IS_SETTLED.pending())
}

fn of_vm(inputs: &Inputs<'_>) -> Option<PendingCondition> {
    let running = find(inputs.vm, RUNNING);
    // A failure explains more than a condition that only waits for it, so it comes first.
    if let Some(created) = find(inputs.vm, CREATED).filter(|created| has_failed(created)) {
        return Some(specs::NOT_CREATED.forward(&created.reason, &created.message));
    }
    if !inputs.template_is_current && !running.is_some_and(has_failed) {
        return Some(specs::APPLYING_TEMPLATE.pending());
    }
    let Some(running) = running else { return Some(specs::WAITING_FOR_LIMA_VM.pending()) };
    let is_there = if inputs.wanted { running.status == "True" } else { running.reason == vm_specs::STOPPED.reason() };
    if is_there && running.observed_generation.unwrap_or(0) < inputs.vm_generation {
        return Some(specs::WAITING_FOR_LIMA_VM.pending());
    }
    if is_there && inputs.template_is_current {
        return None;
    }
    let (spec, goal) =
        if inputs.wanted { (&specs::NOT_STARTED, Reason::Started) } else { (&specs::NOT_STOPPED, Reason::Stopped) };
    let explains = has_failed(running) && !running.message.is_empty();
    let message = if explains { running.message.clone() } else { format!("LimaVM has not yet reached {goal}") };
    Some(spec.forward(&running.reason, &message))
}

fn of_engine(inputs: &Inputs<'_>) -> Option<PendingCondition> {
    if !inputs.has_engine {
        return None;
    }
    let engine = find(inputs.app, CONTAINER_ENGINE_READY);
    let is_stale = |engine: &Condition| engine.observed_generation.unwrap_or(0) < inputs.generation;
    if !inputs.wanted {
        let has_let_go = engine.is_some_and(|engine| {
            !is_stale(engine) && (engine.reason == Reason::Stopped || engine.reason == Reason::NotApplicable)
        });
        return (!has_let_go).then(|| specs::ENGINE_STALE.pending());
    }
    let Some(engine) = engine else { return Some(specs::WAITING_FOR_ENGINE.pending()) };
    if is_stale(engine) {
        return Some(specs::ENGINE_STALE.pending());
    }
    let is_final = engine.status == "True" || engine.reason == Reason::NotApplicable;
    (!is_final).then(|| specs::ENGINE_NOT_READY.forward(&engine.reason, &engine.message))
}

fn of_kubernetes(inputs: &Inputs<'_>) -> Option<PendingCondition> {
    // A stop does not wait until the Kubernetes context is withdrawn.
    if !inputs.has_kubernetes || !inputs.wanted {
        return None;
    }
    let found = find(inputs.app, KUBERNETES_READY);
    let is_stale = |condition: &Condition| condition.observed_generation.unwrap_or(0) < inputs.generation;
    if !inputs.kubernetes_wanted {
        // Without a condition Kubernetes was never enabled, so nothing has to be cleaned up.
        let is_gone = found.is_none_or(|condition| condition.reason == Reason::NotApplicable && !is_stale(condition));
        return (!is_gone).then(|| specs::KUBERNETES_STALE.pending());
    }
    let Some(kubernetes) = found else {
        return Some(specs::WAITING_FOR_KUBERNETES.pending());
    };
    if is_stale(kubernetes) {
        return Some(specs::KUBERNETES_STALE.pending());
    }
    (kubernetes.status != "True").then(|| specs::KUBERNETES_NOT_READY.forward(&kubernetes.reason, &kubernetes.message))
}

fn has_failed(condition: &Condition) -> bool {
    condition.status == "False" && condition.reason.ends_with("Failed")
}
