//! Every condition and reason that our controllers write, and the table that explains them.

use std::fmt;

/// Declares an enum whose variants are written as they are spelt.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $word:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$doc])* $word),+ }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$word),+];

            /// As it stands in the API.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$word => stringify!($word)),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl PartialEq<$name> for str {
            fn eq(&self, other: &$name) -> bool {
                self == other.as_str()
            }
        }

        impl PartialEq<$name> for String {
            fn eq(&self, other: &$name) -> bool {
                self == other.as_str()
            }
        }

        impl From<$name> for String {
            fn from(word: $name) -> Self {
                word.as_str().to_owned()
            }
        }
    };
}

words! {
    /// Whether a condition holds.
    Status {
        /// It does.
        True,
        /// It does not.
        False,
        /// Nobody can tell.
        Unknown,
    }
}

words! {
    /// What a condition is about.
    ConditionType {
        /// The VM exists.
        Created,
        /// The VM, or the container, runs.
        Running,
        /// The container engine answers, and its mirror is up to date.
        ContainerEngineReady,
        /// Kubernetes answers, and its context is published.
        KubernetesReady,
        /// All that was asked for is done.
        Settled,
        /// The container is paused.
        Paused,
        /// The container is being restarted.
        Restarting,
        /// The container could not be removed.
        Dead,
        /// The container ran out of memory.
        OOMKilled,
        /// The controller takes care of the Demo.
        Ready,
        /// The Demo is being processed.
        Processing,
        /// The Demo was processed.
        Completed,
        /// The request was done.
        Complete,
        /// The request could not be done.
        Failed,
    }
}

words! {
    /// Why a condition is what it is.
    Reason {
        /// See [`TABLE`], as for all of them.
        Pending,
        Created,
        CreateFailed,
        Reconciling,
        Starting,
        Started,
        Stopped,
        StartFailed,
        StopFailed,
        Connected,
        Connecting,
        NotApplicable,
        ConnectFailed,
        NotRunning,
        Downloading,
        DownloadFailed,
        DowngradeRefused,
        Unsupported,
        CertificatesInvalid,
        CrashLoopBackOff,
        Probing,
        WaitingForNode,
        MergeFailed,
        Ready,
        Running,
        Paused,
        NotPaused,
        Restarting,
        NotRestarting,
        Dead,
        NotDead,
        OOMKilled,
        Processing,
        InProgress,
        Completed,
        ApplyingTemplate,
        WaitingForLimaVM,
        Settled,
        EngineStale,
        WaitingForEngine,
        WaitingForKubernetes,
        KubernetesStale,
        MockController,
    }
}

/// One line of [`TABLE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The kind that has the condition.
    pub kind: &'static str,
    /// What it is about.
    pub condition: ConditionType,
    /// Whether it holds.
    pub status: Status,
    /// Why.
    pub reason: Reason,
    /// What it means.
    pub meaning: &'static str,
    /// The controller that writes it.
    pub writer: &'static str,
}

const fn row(
    (kind, writer): (&'static str, &'static str),
    condition: ConditionType,
    status: Status,
    reason: Reason,
    meaning: &'static str,
) -> Row {
    Row { kind, condition, status, reason, meaning, writer }
}

const LIMA: (&str, &str) = ("LimaVM", "limavm");
const APP: (&str, &str) = ("App", "app");
const ENGINE: (&str, &str) = ("App", "engine");
const KUBERNETES: (&str, &str) = ("App", "kubernetes");
const CONTAINER: (&str, &str) = ("Container", "container");
const DEMO: (&str, &str) = ("Demo", "demo");
const MOCK: (&str, &str) = ("App", "mock");

use ConditionType as C;
use Reason as R;
use Status::{False, True, Unknown};

/// Every condition that is written, with every status and reason it can have. Documentation is made of it, and tests hold controllers to it.
///
/// An App has the conditions `Created` and `Running` of its LimaVM, as they are there. `Settled` takes over the reason of what it waits for:
/// those of `Created`, `Running`, `ContainerEngineReady` and `KubernetesReady` that do not end well.
#[rustfmt::skip]
pub const TABLE: &[Row] = &[
    row(LIMA, C::Created, Unknown, R::Pending, "the controller has seen the LimaVM and done nothing yet"),
    row(LIMA, C::Created, True, R::Created, "the VM exists, complete"),
    row(LIMA, C::Created, False, R::CreateFailed, "the VM could not be made; the message says why, and it is tried again"),
    row(LIMA, C::Running, Unknown, R::Reconciling, "the controller was restarted and is finding out whether the VM runs"),
    row(LIMA, C::Running, False, R::Starting, "the VM is starting"),
    row(LIMA, C::Running, True, R::Started, "the VM is up"),
    row(LIMA, C::Running, False, R::Stopped, "the VM is stopped, for good or for a restart"),
    row(LIMA, C::Running, False, R::StartFailed, "the VM could not be started, or ended at once; the message says why, and it is tried again"),
    row(LIMA, C::Running, False, R::StopFailed, "the VM could not be stopped; the message says why, and it is tried again"),
    row(ENGINE, C::ContainerEngineReady, True, R::Connected, "the engine answers and its mirror is up to date"),
    row(ENGINE, C::ContainerEngineReady, Unknown, R::NotApplicable, "this engine is not mirrored, so nobody can tell"),
    row(ENGINE, C::ContainerEngineReady, False, R::Connecting, "the engine is being connected to, and its mirror is not complete yet"),
    row(ENGINE, C::ContainerEngineReady, False, R::ConnectFailed, "the engine does not answer, or its mirror could not be made; it is tried again"),
    row(ENGINE, C::ContainerEngineReady, False, R::Stopped, "the VM does not run and all mirrors are gone"),
    row(KUBERNETES, C::KubernetesReady, False, R::NotApplicable, "Kubernetes is not enabled"),
    row(KUBERNETES, C::KubernetesReady, False, R::NotRunning, "the VM does not run"),
    row(KUBERNETES, C::KubernetesReady, False, R::Downloading, "the release is on its way; the message says how much of it is there"),
    row(KUBERNETES, C::KubernetesReady, False, R::DownloadFailed, "the release did not come; the message says why, and it is tried again"),
    row(KUBERNETES, C::KubernetesReady, False, R::DowngradeRefused, "a newer release used the data of the cluster"),
    row(KUBERNETES, C::KubernetesReady, False, R::Unsupported, "there is no such release, or the machine cannot run Kubernetes as it is"),
    row(KUBERNETES, C::KubernetesReady, False, R::CertificatesInvalid, "the certificates of the cluster are of another time than this machine's"),
    row(KUBERNETES, C::KubernetesReady, False, R::StartFailed, "Kubernetes could not be started, or ended; the message says why, and it is tried again"),
    row(KUBERNETES, C::KubernetesReady, False, R::CrashLoopBackOff, "Kubernetes ended three times in a row in the same way; the message says why, and it is tried again"),
    row(KUBERNETES, C::KubernetesReady, False, R::Probing, "Kubernetes does not answer yet"),
    row(KUBERNETES, C::KubernetesReady, False, R::WaitingForNode, "Kubernetes answers and no node is ready yet"),
    row(KUBERNETES, C::KubernetesReady, False, R::MergeFailed, "the context could not be published; the message says why, and it is tried again"),
    row(KUBERNETES, C::KubernetesReady, True, R::Ready, "Kubernetes answers, a node is ready and the context is published"),
    row(APP, C::Settled, False, R::ApplyingTemplate, "a change of the settings is on its way to the VM"),
    row(APP, C::Settled, False, R::WaitingForLimaVM, "the LimaVM has not said anything yet"),
    row(APP, C::Settled, False, R::CreateFailed, "the VM could not be made"),
    row(APP, C::Settled, False, R::Reconciling, "the controller of the VM was restarted"),
    row(APP, C::Settled, False, R::Starting, "the VM is starting"),
    row(APP, C::Settled, False, R::Started, "the VM has not stopped yet"),
    row(APP, C::Settled, False, R::Stopped, "the VM, or the engine in it, has not started yet"),
    row(APP, C::Settled, False, R::StartFailed, "the VM, or Kubernetes in it, could not be started"),
    row(APP, C::Settled, False, R::StopFailed, "the VM could not be stopped"),
    row(APP, C::Settled, False, R::WaitingForEngine, "nothing was said of the engine yet"),
    row(APP, C::Settled, False, R::EngineStale, "what was said of the engine is older than the settings"),
    row(APP, C::Settled, False, R::Connecting, "the mirror of the engine is not complete yet"),
    row(APP, C::Settled, False, R::ConnectFailed, "the engine does not answer"),
    row(APP, C::Settled, False, R::WaitingForKubernetes, "nothing was said of Kubernetes yet"),
    row(APP, C::Settled, False, R::KubernetesStale, "what was said of Kubernetes is older than the settings"),
    row(APP, C::Settled, False, R::NotApplicable, "the controller of Kubernetes has not seen yet that it is enabled"),
    row(APP, C::Settled, False, R::NotRunning, "the controller of Kubernetes has not seen yet that the VM runs"),
    row(APP, C::Settled, False, R::Downloading, "the release of Kubernetes is on its way"),
    row(APP, C::Settled, False, R::DownloadFailed, "the release of Kubernetes did not come"),
    row(APP, C::Settled, False, R::DowngradeRefused, "a newer release of Kubernetes used the data of the cluster"),
    row(APP, C::Settled, False, R::Unsupported, "the machine cannot run the Kubernetes that was asked for"),
    row(APP, C::Settled, False, R::CertificatesInvalid, "the certificates of the cluster are of another time than this machine's"),
    row(APP, C::Settled, False, R::CrashLoopBackOff, "Kubernetes ends again and again, each time in the same way"),
    row(APP, C::Settled, False, R::Probing, "Kubernetes does not answer yet"),
    row(APP, C::Settled, False, R::WaitingForNode, "no node is ready yet"),
    row(APP, C::Settled, False, R::MergeFailed, "the context of Kubernetes could not be published"),
    row(APP, C::Settled, True, R::Settled, "all that was asked for is done"),
    row(MOCK, C::Settled, True, R::MockController, "the mock controller was asked to run"),
    row(MOCK, C::Settled, False, R::MockController, "the mock controller was asked to stop"),
    row(CONTAINER, C::Running, True, R::Running, "its process runs"),
    row(CONTAINER, C::Running, False, R::NotRunning, "its process does not run, or is paused"),
    row(CONTAINER, C::Paused, True, R::Paused, "it is paused"),
    row(CONTAINER, C::Paused, False, R::NotPaused, "it is not paused"),
    row(CONTAINER, C::Restarting, True, R::Restarting, "it is being restarted"),
    row(CONTAINER, C::Restarting, False, R::NotRestarting, "it is not being restarted"),
    row(CONTAINER, C::Dead, True, R::Dead, "it could not be removed"),
    row(CONTAINER, C::Dead, False, R::NotDead, "it is alive, or properly gone"),
    row(CONTAINER, C::OOMKilled, Unknown, R::OOMKilled, "the engine does not say whether it ran out of memory"),
    row(DEMO, C::Ready, True, R::Processing, "the controller is at work"),
    row(DEMO, C::Ready, True, R::Ready, "the controller has nothing left to do"),
    row(DEMO, C::Processing, True, R::InProgress, "the message is being processed"),
    row(DEMO, C::Processing, False, R::Completed, "the message was processed as often as asked"),
    row(DEMO, C::Completed, False, R::InProgress, "the message is being processed"),
    row(DEMO, C::Completed, True, R::Completed, "the message was processed as often as asked"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_word_is_in_the_table_and_no_line_is_there_twice() {
        let key = |row: &Row| (row.kind, row.writer, row.condition, row.status, row.reason);
        let lines: BTreeSet<_> = TABLE.iter().map(key).collect();
        assert_eq!(lines.len(), TABLE.len());
        for reason in Reason::ALL {
            assert!(TABLE.iter().any(|row| row.reason == *reason), "{reason} is explained nowhere");
        }
        // Of requests nothing is written yet.
        let idle = [C::Complete, C::Failed];
        for condition in C::ALL.iter().filter(|condition| !idle.contains(condition)) {
            assert!(TABLE.iter().any(|row| row.condition == *condition), "{condition} is explained nowhere");
        }
    }

    // Finding 361-S1
    #[test]
    fn settled_forwards_every_reason_for_which_it_may_have_to_wait() {
        let bad = |row: &&Row| row.status != True && !(row.reason == R::NotApplicable && row.writer == "engine");
        let forwarded = [C::Running, C::ContainerEngineReady, C::KubernetesReady];
        let sources = TABLE.iter().filter(|row| matches!(row.writer, "limavm" | "engine" | "kubernetes"));
        for row in sources.filter(|row| forwarded.contains(&row.condition)).filter(bad) {
            let has =
                TABLE.iter().any(|one| one.writer == "app" && one.condition == C::Settled && one.reason == row.reason);
            assert!(has, "Settled does not explain {}", row.reason);
        }
    }

    #[test]
    fn a_word_is_written_as_it_is_spelt() {
        assert_eq!(
            (C::OOMKilled.to_string().as_str(), R::WaitingForLimaVM.as_str()),
            ("OOMKilled", "WaitingForLimaVM")
        );
        let read = String::from(R::Settled);
        assert!(*"True" == Status::True && read == R::Settled);
    }
}
