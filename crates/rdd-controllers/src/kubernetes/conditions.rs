//! Everything that the Kubernetes controller says in an App's condition `KubernetesReady`.

use crate::{app::conditions::KUBERNETES_READY, saying::Saying};

const fn ready(status: &'static str, reason: &'static str, message: &'static str, when: &'static str) -> Saying {
    Saying { condition: KUBERNETES_READY, status, reason, message, when }
}

/// It is not wanted.
pub static NOT_APPLICABLE: Saying = ready(
    "False",
    "NotApplicable",
    "Kubernetes is not enabled",
    "`spec.kubernetes.enabled` is false, or the App is being deleted.",
);
/// There is nothing that it could run in.
pub static NOT_RUNNING: Saying = ready(
    "False",
    "NotRunning",
    "VM is not running",
    "Kubernetes is enabled, and the App does not run or is not to run.",
);
/// The release is on its way.
pub static DOWNLOADING: Saying = ready(
    "False",
    "Downloading",
    "<which release is being downloaded, and how much of it is there>",
    "The release that was asked for is not on this machine yet.",
);
/// The release did not come.
pub static DOWNLOAD_FAILED: Saying = ready(
    "False",
    "DownloadFailed",
    "<why the release could not be downloaded, or did not match its checksum>",
    "The download failed. It is tried again after a growing delay, and goes on where it stopped.",
);
/// An older release cannot use the data of a newer one.
pub static DOWNGRADE_REFUSED: Saying = ready(
    "False",
    "DowngradeRefused",
    "<which release the data is of, and what to do>",
    "The cluster's data was used by a newer release than the one that was asked for.",
);
/// It cannot be had as things are.
pub static UNSUPPORTED: Saying = ready(
    "False",
    "Unsupported",
    "<what is missing, and what to do>",
    "There is no such release, or the machine cannot run Kubernetes as it is. Nothing but another setting, or another machine, changes that.",
);
/// Nobody on this machine can believe its certificates.
pub static CERTIFICATES_INVALID: Saying = ready(
    "False",
    "CertificatesInvalid",
    "<since when or until when the certificates are good, what this machine's clock says, and what to do>",
    "The cluster was made by a clock that was far ahead or behind, or this machine's clock is wrong. Data that may be somebody's is left alone; a cluster \
     that nobody can have used is made anew.",
);
/// It could not be started.
pub static START_FAILED: Saying = ready(
    "False",
    "StartFailed",
    "<why Kubernetes could not be started, or its last words>",
    "Kubernetes could not be started, ended by itself, or has no port. It is tried again after a growing delay.",
);
/// It ends again and again, each time for the same reason.
pub static CRASH_LOOP: Saying = ready(
    "False",
    "CrashLoopBackOff",
    "<how often Kubernetes ended in the same way, and its last words>",
    "Kubernetes ended three times in a row in the same way: no wait ends well until somebody mends the cause. It is tried again after a growing delay.",
);
/// It does not answer.
pub static PROBING: Saying = ready(
    "False",
    "Probing",
    "Waiting for k3s API server",
    "Kubernetes was started and does not answer through the published port. One that was ready may miss two answers in a row.",
);
/// It cannot be believed yet.
pub static PROBING_EARLY: Saying = ready(
    "False",
    "Probing",
    "<Waiting until the certificates of Kubernetes are valid, and when that is>",
    "The clock by which the certificates were made was a little ahead.",
);
/// It answers, and could run nothing.
pub static WAITING_FOR_NODE: Saying = ready(
    "False",
    "WaitingForNode",
    "<Cannot reach cluster: …, Cannot list nodes: …, No node has registered yet, No node is Ready yet, or No node has reported since Kubernetes was started>",
    "Kubernetes answers, and no node is ready. One that was ready may miss two looks in a row.",
);
/// The context could not be published.
pub static MERGE_FAILED: Saying = ready(
    "False",
    "MergeFailed",
    "<Failed to publish Kubernetes context: and why>",
    "Kubernetes answers, and the kubeconfigs could not be written. It is tried again after a growing delay.",
);
/// All is well.
pub static READY: Saying = ready(
    "True",
    "Ready",
    "Kubernetes cluster is ready",
    "A node is ready, the API answers through the published port with the published kubeconfig, and the context is published.",
);

/// The same, with something that a person should know.
pub static READY_WITH_WARNING: Saying = ready(
    "True",
    "Ready",
    "<Kubernetes cluster is ready; warning: what this machine has that this release does not support>",
    "As above, on a machine with control groups of version 1 and Kubernetes 1.35 or later.",
);

/// The text of [`READY_WITH_WARNING`].
pub fn warning_message(warning: &str) -> String {
    format!("{}; warning: {warning}", READY.message)
}

/// All of the above, in the order in which they come up.
pub static ALL: [&Saying; 15] = [
    &NOT_APPLICABLE,
    &NOT_RUNNING,
    &DOWNLOADING,
    &DOWNLOAD_FAILED,
    &DOWNGRADE_REFUSED,
    &UNSUPPORTED,
    &CERTIFICATES_INVALID,
    &START_FAILED,
    &CRASH_LOOP,
    &PROBING,
    &PROBING_EARLY,
    &WAITING_FOR_NODE,
    &MERGE_FAILED,
    &READY,
    &READY_WITH_WARNING,
];
