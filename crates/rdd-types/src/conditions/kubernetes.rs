//! The condition that the Kubernetes controller sets on the App.

super::condition_specs! { kind "App", controller "kubernetes";
    NOT_APPLICABLE = KubernetesReady False [NotApplicable], Unwanted Watch,
        "Kubernetes is not enabled",
        "`spec.kubernetes.enabled` is false, or the App is being deleted.";
    NOT_RUNNING = KubernetesReady False [NotRunning], Passing Watch,
        "VM is not running",
        "Kubernetes is enabled, and the App does not run or should not run.";
    DOWNLOADING = KubernetesReady False [Downloading], Passing Watch,
        "<which release is being downloaded, and how much of it is there>",
        "The requested release is not on this machine yet.";
    DOWNLOAD_FAILED = KubernetesReady False [DownloadFailed], Failed ServiceLog,
        "<why the release could not be downloaded, or did not match its checksum>",
        "The download failed. The controller retries with backoff, and resumes a partial download.";
    DOWNGRADE_REFUSED = KubernetesReady False [DowngradeRefused], Final Release,
        "<which release the data is of, and what to do>",
        "A newer release than the requested one has used the cluster's data.";
    UNSUPPORTED = KubernetesReady False [Unsupported], Final Disable,
        "<what is missing, and what to do>",
        "There is no such release, or this machine cannot run Kubernetes. Only another setting, or a change of the machine, helps.";
    CERTIFICATES_INVALID = KubernetesReady False [CertificatesInvalid], Final Clock,
        "<since when or until when the certificates are valid, what this machine's clock says, and what to do>",
        "The clock was far off when the cluster was created, or this machine's clock is wrong. The controller keeps data that may be in use, and recreates a cluster that cannot have been used.";
    START_FAILED = KubernetesReady False [StartFailed], Failed ClusterLog,
        "<why Kubernetes could not be started, or the last line of its log>",
        "Kubernetes could not be started, ended by itself, or has no port. The controller retries with backoff.";
    CRASH_LOOP = KubernetesReady False [CrashLoopBackOff], Final CrashLog,
        "<how often Kubernetes ended in the same way, and the last line of its log>",
        "Kubernetes ended three times in a row in the same way; someone has to fix the cause. The controller retries with backoff.";
    PROBING = KubernetesReady False [Probing], Passing ClusterLog,
        "Waiting for k3s API server",
        "Kubernetes has been started and does not answer through the published port. A cluster that was ready may miss two probes in a row.";
    PROBING_EARLY = KubernetesReady False [Probing], Passing ClusterLog,
        "<Waiting until the certificates of Kubernetes are valid, and when that is>",
        "The clock that the certificates were made with was slightly ahead.";
    WAITING_FOR_NODE = KubernetesReady False [WaitingForNode], Passing Nodes,
        "<Cannot reach cluster: …, Cannot list nodes: …, No node has registered yet, No node is Ready yet, or No node has reported since Kubernetes was started>",
        "Kubernetes answers, and no node is ready. A node that was ready may miss two probes in a row.";
    MERGE_FAILED = KubernetesReady False [MergeFailed], Failed Kubeconfig,
        "<Failed to publish Kubernetes context: and why>",
        "Kubernetes answers, and the kubeconfigs could not be written. The controller retries with backoff.";
    READY = KubernetesReady True [Ready], Good Nothing,
        "Kubernetes cluster is ready",
        "A node is ready, the API answers through the published port with the published kubeconfig, and the context is published.";
    READY_WITH_WARNING = KubernetesReady True [Ready], Good Nothing,
        "<Kubernetes cluster is ready; warning: what this machine has that this release does not support>",
        "As above, on a machine with control groups of version 1 and Kubernetes 1.35 or later.";
}

/// The message of [`READY_WITH_WARNING`].
pub fn warning_message(warning: &str) -> String {
    format!("{}; warning: {warning}", READY.message)
}
