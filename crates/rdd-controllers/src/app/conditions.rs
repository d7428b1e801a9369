//! Everything that the App controller itself says in an App's conditions; the rest is mirrored.

use crate::saying::Saying;

/// The condition type that tells whether the App is as wanted.
pub const SETTLED: &str = "Settled";
/// The condition type that is copied from the LimaVM: whether it runs.
pub const RUNNING: &str = crate::limavm::conditions::RUNNING;
/// The condition type of the engine's mirror.
pub const CONTAINER_ENGINE_READY: &str = "ContainerEngineReady";
/// The condition type of the Kubernetes controller.
pub const KUBERNETES_READY: &str = "KubernetesReady";

const fn settled(status: &'static str, reason: &'static str, message: &'static str, when: &'static str) -> Saying {
    Saying { condition: SETTLED, status, reason, message, when }
}

/// All is as wanted.
pub static IS_SETTLED: Saying = settled(
    "True",
    "Settled",
    "App has reached the desired state",
    "Everything is as the generation in `observedGeneration` wants it.",
);
/// The VM has not taken over the template yet.
pub static APPLYING_TEMPLATE: Saying = settled(
    "False",
    "ApplyingTemplate",
    "Applying the configuration change to the VM",
    "The VM is being created, or has not been started with the newest template yet.",
);
/// Nothing is known of the VM.
pub static WAITING_FOR_LIMA_VM: Saying = settled(
    "False",
    "WaitingForLimaVM",
    "Waiting for LimaVM to report its state",
    "The LimaVM is missing, is being deleted, or has not looked at what it was last told.",
);
/// What the VM says, on the way up.
pub static NOT_STARTED: Saying = settled(
    "False",
    "<the reason of Running>",
    "<the message of Running when its reason ends in Failed, else: LimaVM has not yet reached Started>",
    "The App shall run, and the LimaVM does not.",
);
/// What the VM says, on the way down.
pub static NOT_STOPPED: Saying = settled(
    "False",
    "<the reason of Running>",
    "<the message of Running when its reason ends in Failed, else: LimaVM has not yet reached Stopped>",
    "The App shall not run, and the LimaVM does.",
);
/// The VM could not be created.
pub static NOT_CREATED: Saying = settled(
    "False",
    "CreateFailed",
    "<the message of Created, or why the LimaVM itself or what it needs could not be made>",
    "There is no VM and making one failed, or something that is not the App's has its name. It is tried again.",
);
/// The App is being deleted.
pub static WAITING_FOR_REMOVAL: Saying = settled(
    "False",
    "WaitingForLimaVM",
    "Waiting for LimaVM to be removed",
    "The App is being deleted, and the LimaVM is not gone yet.",
);
/// The engine's mirror has not said anything.
pub static WAITING_FOR_ENGINE: Saying = settled(
    "False",
    "WaitingForEngine",
    "Waiting for container engine condition",
    "The engine controller is enabled and has not reported yet.",
);
/// The engine's mirror speaks of an older generation.
pub static ENGINE_STALE: Saying = settled(
    "False",
    "EngineStale",
    "Container engine needs to be synchronized",
    "The engine controller has not looked at this generation yet, or has not let go of a stopped engine.",
);
/// The engine's mirror has trouble.
pub static ENGINE_NOT_READY: Saying = settled(
    "False",
    "<the reason of ContainerEngineReady>",
    "<the message of ContainerEngineReady>",
    "The App shall run, and the engine controller is not ready.",
);
/// The Kubernetes controller has not said anything.
pub static WAITING_FOR_KUBERNETES: Saying = settled(
    "False",
    "WaitingForKubernetes",
    "Waiting for Kubernetes condition",
    "Kubernetes and its controller are enabled, and the controller has not reported yet.",
);
/// The Kubernetes controller speaks of an older generation.
pub static KUBERNETES_STALE: Saying = settled(
    "False",
    "KubernetesStale",
    "Kubernetes context needs to be synchronized",
    "The Kubernetes controller has not looked at this generation yet, or has not let go of a cluster that was disabled.",
);
/// The Kubernetes controller has trouble.
pub static KUBERNETES_NOT_READY: Saying = settled(
    "False",
    "<the reason of KubernetesReady>",
    "<the message of KubernetesReady>",
    "Kubernetes is enabled and not ready.",
);

/// All of the above, in the order in which they are looked at.
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
