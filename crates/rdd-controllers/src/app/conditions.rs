//! Every condition that the App controller itself sets; the others are mirrored from the LimaVM.

use crate::saying::Saying;

/// The condition type for whether the App has reached its desired state.
pub const SETTLED: &str = "Settled";
/// The condition type that is mirrored from the LimaVM: whether it runs.
pub const RUNNING: &str = crate::limavm::conditions::RUNNING;
/// The condition type of the engine controller.
pub const CONTAINER_ENGINE_READY: &str = "ContainerEngineReady";
/// The condition type of the Kubernetes controller.
pub const KUBERNETES_READY: &str = "KubernetesReady";

const fn settled(status: &'static str, reason: &'static str, message: &'static str, when: &'static str) -> Saying {
    Saying { condition: SETTLED, status, reason, message, when }
}

/// The App has reached its desired state.
pub static IS_SETTLED: Saying = settled(
    "True",
    "Settled",
    "App has reached the desired state",
    "The App matches the generation in `observedGeneration`.",
);
/// The VM has not been started with the current template yet.
pub static APPLYING_TEMPLATE: Saying = settled(
    "False",
    "ApplyingTemplate",
    "Applying the configuration change to the VM",
    "The VM is being created, or has not been started with the newest template yet.",
);
/// The state of the VM is unknown.
pub static WAITING_FOR_LIMA_VM: Saying = settled(
    "False",
    "WaitingForLimaVM",
    "Waiting for LimaVM to report its state",
    "The LimaVM is missing, is being deleted, or has not observed its latest generation.",
);
/// The VM should run and does not; reason and message are those of the VM.
pub static NOT_STARTED: Saying = settled(
    "False",
    "<the reason of Running>",
    "<the message of Running when its reason ends in Failed, else: LimaVM has not yet reached Started>",
    "The App should run, and the LimaVM does not.",
);
/// The VM should not run and does; reason and message are those of the VM.
pub static NOT_STOPPED: Saying = settled(
    "False",
    "<the reason of Running>",
    "<the message of Running when its reason ends in Failed, else: LimaVM has not yet reached Stopped>",
    "The App should not run, and the LimaVM does.",
);
/// The VM could not be created.
pub static NOT_CREATED: Saying = settled(
    "False",
    "CreateFailed",
    "<the message of Created, or why the LimaVM or its dependencies could not be created>",
    "The VM could not be created, or an object that the App does not own has its name. The controller retries.",
);
/// The App is being deleted.
pub static WAITING_FOR_REMOVAL: Saying = settled(
    "False",
    "WaitingForLimaVM",
    "Waiting for LimaVM to be removed",
    "The App is being deleted, and the LimaVM is not gone yet.",
);
/// The engine controller has not reported yet.
pub static WAITING_FOR_ENGINE: Saying = settled(
    "False",
    "WaitingForEngine",
    "Waiting for container engine condition",
    "The engine controller is enabled and has not reported yet.",
);
/// The engine controller has not reported on this generation.
pub static ENGINE_STALE: Saying = settled(
    "False",
    "EngineStale",
    "Container engine needs to be synchronized",
    "The engine controller has not observed this generation yet, or has not disconnected from a stopped engine.",
);
/// The engine controller reports that it is not ready.
pub static ENGINE_NOT_READY: Saying = settled(
    "False",
    "<the reason of ContainerEngineReady>",
    "<the message of ContainerEngineReady>",
    "The App should run, and the engine controller is not ready.",
);
/// The Kubernetes controller has not reported yet.
pub static WAITING_FOR_KUBERNETES: Saying = settled(
    "False",
    "WaitingForKubernetes",
    "Waiting for Kubernetes condition",
    "Kubernetes and its controller are enabled, and the controller has not reported yet.",
);
/// The Kubernetes controller has not reported on this generation.
pub static KUBERNETES_STALE: Saying = settled(
    "False",
    "KubernetesStale",
    "Kubernetes context needs to be synchronized",
    "The Kubernetes controller has not observed this generation yet, or has not cleaned up a cluster that was disabled.",
);
/// The Kubernetes controller reports that it is not ready.
pub static KUBERNETES_NOT_READY: Saying = settled(
    "False",
    "<the reason of KubernetesReady>",
    "<the message of KubernetesReady>",
    "Kubernetes is enabled and not ready.",
);

/// All of the above, in the order in which the controller checks them.
pub static ALL: [&Saying; 13] = [
    &WAITING_FOR_REMOVAL,
    &NOT_CREATED,
    &APPLYING_TEMPLATE,
    &WAITING_FOR_LIMA_VM,
    &NOT_STARTED,
    &NOT_STOPPED,
    &ENGINE_STALE,
    &WAITING_FOR_ENGINE,
    &ENGINE_NOT_READY,
    &WAITING_FOR_KUBERNETES,
    &KUBERNETES_STALE,
    &KUBERNETES_NOT_READY,
    &IS_SETTLED,
];
