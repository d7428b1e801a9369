//! The condition `Settled`, which the App controller sets.
//!
//! It forwards reason and message of the condition that it waits for.

super::condition_specs! { kind "App", controller "app";
    WAITING_FOR_REMOVAL = Settled False [WaitingForLimaVM], Passing Watch,
        "Waiting for LimaVM to be removed",
        "The App is being deleted, and the LimaVM is not gone yet.";
    NOT_CREATED = Settled False [CreateFailed], Failed ServiceLog,
        "<the message of Created, or why the LimaVM or its dependencies could not be created>",
        "The VM could not be created, or an object that the App does not own has its name. The controller retries.";
    APPLYING_TEMPLATE = Settled False [ApplyingTemplate], Passing Watch,
        "Applying the configuration change to the VM",
        "The VM is being created, or has not been started with the newest template yet.";
    WAITING_FOR_LIMA_VM = Settled False [WaitingForLimaVM], Passing Watch,
        "Waiting for LimaVM to report its state",
        "The LimaVM is missing, is being deleted, or has not observed its latest generation.";
    NOT_STARTED = Settled False [Reconciling, Starting, Stopped, StartFailed, StopFailed], Forwarded Watch,
        "<the message of Running when its reason ends in Failed, else: LimaVM has not yet reached Started>",
        "The App should run, and the LimaVM does not. Reason and message are those of `Running`.";
    NOT_STOPPED = Settled False [Started, Reconciling, Starting, StartFailed, StopFailed], Forwarded Watch,
        "<the message of Running when its reason ends in Failed, else: LimaVM has not yet reached Stopped>",
        "The App should not run, and the LimaVM does. Reason and message are those of `Running`.";
    WAITING_FOR_ENGINE = Settled False [WaitingForEngine], Passing Watch,
        "Waiting for container engine condition",
        "The engine controller is enabled and has not reported yet.";
    ENGINE_STALE = Settled False [EngineStale], Passing Watch,
        "Container engine needs to be synchronized",
        "The engine controller has not observed this generation yet, or has not disconnected from a stopped engine.";
    ENGINE_NOT_READY = Settled False [Connecting, ConnectFailed, Stopped], Forwarded Watch,
        "<the message of ContainerEngineReady>",
        "The App should run, and the engine controller is not ready.";
    WAITING_FOR_KUBERNETES = Settled False [WaitingForKubernetes], Passing Watch,
        "Waiting for Kubernetes condition",
        "Kubernetes and its controller are enabled, and the controller has not reported yet.";
    KUBERNETES_STALE = Settled False [KubernetesStale], Passing Watch,
        "Kubernetes context needs to be synchronized",
        "The Kubernetes controller has not observed this generation yet, or has not cleaned up a cluster that was disabled.";
    KUBERNETES_NOT_READY = Settled False [NotApplicable, NotRunning, Downloading, DownloadFailed, DowngradeRefused, Unsupported,
            CertificatesInvalid, StartFailed, CrashLoopBackOff, Probing, WaitingForNode, MergeFailed], Forwarded Watch,
        "<the message of KubernetesReady>",
        "Kubernetes is enabled and not ready.";
    IS_SETTLED = Settled True [Settled], Good Nothing,
        "App has reached the desired state",
        "The App matches the generation in `observedGeneration`.";
}
