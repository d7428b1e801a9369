//! Every condition that our controllers set: one table for controllers, command line, documentation and tests.
//!
//! Each controller has a module here with a [`ConditionSpec`] per condition that it can set. A controller sets a condition through
//! [`ConditionSpec::pending`] and its siblings, so it cannot set one that the table lacks. The command line takes [`Outlook`] and
//! [`Remedy`] from the same rows, and `docs/reference/conditions.md` is generated from them.

pub mod app;
pub mod container;
pub mod demo;
pub mod engine;
pub mod kubernetes;
pub mod limavm;
pub mod mock;
pub mod reference;

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The type `Created`.
pub const CREATED: &str = ConditionType::Created.as_str();
/// The type `Running`.
pub const RUNNING: &str = ConditionType::Running.as_str();
/// The type `ContainerEngineReady`.
pub const CONTAINER_ENGINE_READY: &str = ConditionType::ContainerEngineReady.as_str();
/// The type `KubernetesReady`.
pub const KUBERNETES_READY: &str = ConditionType::KubernetesReady.as_str();
/// The type `Settled`.
pub const SETTLED: &str = ConditionType::Settled.as_str();

/// Declares an enum whose variants are spelled as in the API.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $word:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$doc])* $word),+ }

        impl $name {
            /// Every variant.
            pub const ALL: &'static [Self] = &[$(Self::$word),+];

            /// The spelling in the API.
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
    /// The status of a condition.
    ConditionStatus {
        /// The condition holds.
        True,
        /// The condition does not hold.
        False,
        /// The controller does not know whether the condition holds.
        Unknown,
    }
}

words! {
    /// The type of a condition.
    ConditionType {
        /// The VM exists.
        Created,
        /// The VM, or the container, runs.
        Running,
        /// The container engine answers, and its mirror is up to date.
        ContainerEngineReady,
        /// Kubernetes answers, a node is ready, and its context is published.
        KubernetesReady,
        /// The App has reached its desired state.
        Settled,
        /// The container is paused.
        Paused,
        /// The container is being restarted.
        Restarting,
        /// The container could not be removed.
        Dead,
        /// The container ran out of memory.
        OOMKilled,
        /// The controller handles the Demo.
        Ready,
        /// The Demo is being processed.
        Processing,
        /// The Demo was processed.
        Completed,
        /// The request succeeded.
        Complete,
        /// The request failed.
        Failed,
    }
}

words! {
    /// The reason of a condition. The specs that use a reason explain it.
    Reason {
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

/// What a condition means to someone who waits for it to become True.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// The condition is as it should be.
    Good,
    /// Progress continues by itself.
    Passing,
    /// The condition is not True because the spec does not ask for it.
    Unwanted,
    /// The operation failed, and the controller retries it.
    Failed,
    /// The condition stays until a person changes something; waiting does not help.
    Final,
    /// The reason is that of another condition, and so is the outlook.
    Forwarded,
}

/// What a person does first about a condition that is not True.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing has to be done.
    Nothing,
    /// Watch the status.
    Watch,
    /// Read the log of the VM.
    MachineLog,
    /// Read the log of the daemon.
    ServiceLog,
    /// Read the log of K3s.
    ClusterLog,
    /// Read the log of a K3s that ends repeatedly.
    CrashLog,
    /// Describe the nodes of the cluster.
    Nodes,
    /// Check the kubeconfig.
    Kubeconfig,
    /// Select the release that last used the data.
    Release,
    /// Check the clock.
    Clock,
    /// Disable Kubernetes.
    Disable,
}

/// A condition that a controller can set: one row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConditionSpec {
    /// The kind that has the condition.
    pub kind: &'static str,
    /// The controller that sets it.
    pub controller: &'static str,
    /// The condition's type.
    pub condition: ConditionType,
    /// The status.
    pub status: ConditionStatus,
    /// The reason; several where the controller forwards the reason of another condition.
    pub reasons: &'static [Reason],
    /// The message; for a message made at run time, a description of it in angle brackets.
    pub message: &'static str,
    /// When the controller sets it.
    pub meaning: &'static str,
    /// What it means to someone who waits.
    pub outlook: Outlook,
    /// What a person does about it.
    pub remedy: Remedy,
}

/// A condition to set, without the generation it was observed at and its transition time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCondition {
    /// The row of the table that it was made from.
    pub spec: &'static ConditionSpec,
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
}

impl ConditionSpec {
    /// The only reason, or the first of several.
    pub const fn reason(&self) -> Reason {
        self.reasons[0]
    }

    /// The condition with the message of the table.
    pub fn pending(&'static self) -> PendingCondition {
        self.with_message(self.message)
    }

    /// The condition with a message made at run time.
    pub fn with_message(&'static self, message: &str) -> PendingCondition {
        self.forward(self.reason().as_str(), message)
    }

    /// The condition with reason and message of another condition.
    pub fn forward(&'static self, reason: &str, message: &str) -> PendingCondition {
        PendingCondition { spec: self, reason: reason.to_owned(), message: message.to_owned() }
    }

    /// Whether a condition has the type, the status and a reason of this row, with any message.
    pub fn matches(&self, condition: &Condition) -> bool {
        condition.type_ == self.condition && condition.status == self.status && self.has_reason(&condition.reason)
    }

    /// Whether this is one of the row's reasons.
    pub fn has_reason(&self, reason: &str) -> bool {
        self.reasons.iter().any(|known| *reason == *known)
    }
}

/// Declares the conditions of one controller, and `ALL` of them in the order of the reference.
///
/// A row reads: `NAME = Type Status [Reason], Outlook Remedy, message, meaning;`
macro_rules! condition_specs {
    (kind $kind:literal, controller $controller:literal;
        $($name:ident = $condition:ident $status:ident [$($reason:ident),+], $outlook:ident $remedy:ident,
            $message:literal,
            $meaning:literal;)+) => {
        $(
            #[doc = $meaning]
            pub static $name: $crate::conditions::ConditionSpec = $crate::conditions::ConditionSpec {
                kind: $kind,
                controller: $controller,
                condition: $crate::conditions::ConditionType::$condition,
                status: $crate::conditions::ConditionStatus::$status,
                reasons: &[$($crate::conditions::Reason::$reason),+],
                message: $message,
                meaning: $meaning,
                outlook: $crate::conditions::Outlook::$outlook,
                remedy: $crate::conditions::Remedy::$remedy,
            };
        )+

        /// Every condition that the controller can set, in the order of the reference.
        pub static ALL: &[&$crate::conditions::ConditionSpec] = &[$(&$name),+];
    };
}
use condition_specs;

/// Every condition that our controllers can set.
pub fn all() -> impl Iterator<Item = &'static ConditionSpec> {
    let tables = [limavm::ALL, engine::ALL, kubernetes::ALL, app::ALL, mock::ALL, container::ALL, demo::ALL];
    tables.into_iter().flatten().copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{ConditionType as C, *};

    #[test]
    fn every_reason_and_condition_type_is_in_the_table() {
        for reason in Reason::ALL {
            assert!(all().any(|spec| spec.reasons.contains(reason)), "no condition has the reason {reason}");
        }
        // No controller acts on requests yet.
        let unused = [C::Complete, C::Failed];
        for condition in C::ALL.iter().filter(|condition| !unused.contains(condition)) {
            assert!(all().any(|spec| spec.condition == *condition), "no controller sets {condition}");
        }
    }

    #[test]
    fn no_row_is_there_twice() {
        let key = |spec: &ConditionSpec| {
            (spec.kind, spec.controller, spec.condition, spec.status, spec.reason(), spec.message)
        };
        let rows: BTreeSet<_> = all().map(key).collect();
        assert_eq!(rows.len(), all().count());
    }

    // Finding 361-S1
    #[test]
    fn settled_forwards_every_reason_for_which_it_may_have_to_wait() {
        let bad = |spec: &&ConditionSpec| {
            spec.status != ConditionStatus::True
                && !(spec.reason() == Reason::NotApplicable && spec.controller == "engine")
        };
        let forwarded = [C::Running, C::ContainerEngineReady, C::KubernetesReady];
        let sources = all().filter(|spec| matches!(spec.controller, "limavm" | "engine" | "kubernetes"));
        for source in sources.filter(|spec| forwarded.contains(&spec.condition)).filter(bad) {
            let has =
                app::ALL.iter().any(|spec| spec.condition == C::Settled && spec.reasons.contains(&source.reason()));
            assert!(has, "Settled does not explain {}", source.reason());
        }
    }

    #[test]
    fn only_forwarded_reasons_are_several_and_have_no_outlook_of_their_own() {
        for spec in all() {
            assert_eq!(
                spec.outlook == Outlook::Forwarded,
                spec.message.contains("the message of") && spec.reasons.len() > 1,
                "{spec:?}"
            );
            assert_eq!(spec.outlook == Outlook::Good, spec.remedy == Remedy::Nothing, "{spec:?}");
        }
    }

    #[test]
    fn words_are_spelled_as_in_the_api() {
        assert_eq!(
            (C::OOMKilled.to_string().as_str(), Reason::WaitingForLimaVM.as_str()),
            ("OOMKilled", "WaitingForLimaVM")
        );
        let read = String::from(Reason::Settled);
        assert!(*"True" == ConditionStatus::True && read == Reason::Settled);
    }
}
