//! What each reason of a condition means to somebody who waits for the App, and what helps: one table.

use rdd_types::reasons::{ConditionType, Reason};

use super::{
    condition::Condition,
    names::{self, conditions},
};

/// What a reason says of a condition that is not True.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// It is on its way.
    Passing,
    /// Nobody wants it to be True.
    Unwanted,
    /// It went wrong, and is tried again.
    Failed,
    /// It stays so until somebody changes something: no wait ends well.
    Final,
}

/// What a person does first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Help {
    /// Waits, and sees how it goes on.
    Watch,
    /// Reads what supervises the machine says.
    MachineLog,
    /// Reads what the daemon says.
    ServiceLog,
    /// Reads what K3s says.
    ClusterLog,
    /// The same, of one that ends again and again.
    CrashLog,
    /// Asks Kubernetes about its nodes.
    Nodes,
    /// Looks at the user's kubeconfig as kubectl sees it.
    Kubeconfig,
    /// Takes the release that has used the data.
    Release,
    /// Looks at the clock.
    Clock,
    /// Does without Kubernetes.
    Disable,
}

/// Where things are that commands name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Whether K3s is a process of this machine; otherwise it is one of a guest's.
    pub is_host: bool,
    /// The log of K3s on this machine.
    pub cluster_log: String,
    /// The user's kubeconfig that is written first.
    pub kubeconfig: String,
}

type Row = (ConditionType, Reason, Meaning, Help);

/// Everything that is said of an App's parts while they are not True, and what `Settled` says of itself.
#[rustfmt::skip]
const TABLE: &[Row] = {
    use ConditionType as C;
    use Help as H;
    use Meaning as M;
    use Reason as R;
    &[
        (C::Created, R::Pending, M::Passing, H::Watch),
        // A machine that was never made has no log.
        (C::Created, R::CreateFailed, M::Failed, H::ServiceLog),
        (C::Running, R::Reconciling, M::Passing, H::MachineLog),
        (C::Running, R::Starting, M::Passing, H::MachineLog),
        (C::Running, R::Stopped, M::Unwanted, H::MachineLog),
        (C::Running, R::StartFailed, M::Failed, H::MachineLog),
        (C::Running, R::StopFailed, M::Failed, H::MachineLog),
        (C::ContainerEngineReady, R::NotApplicable, M::Unwanted, H::Watch),
        (C::ContainerEngineReady, R::Stopped, M::Unwanted, H::Watch),
        (C::ContainerEngineReady, R::Connecting, M::Passing, H::Watch),
        (C::ContainerEngineReady, R::ConnectFailed, M::Failed, H::ServiceLog),
        (C::KubernetesReady, R::NotApplicable, M::Unwanted, H::Watch),
        (C::KubernetesReady, R::NotRunning, M::Passing, H::Watch),
        (C::KubernetesReady, R::Downloading, M::Passing, H::Watch),
        (C::KubernetesReady, R::DownloadFailed, M::Failed, H::ServiceLog),
        (C::KubernetesReady, R::DowngradeRefused, M::Final, H::Release),
        (C::KubernetesReady, R::Unsupported, M::Final, H::Disable),
        (C::KubernetesReady, R::CertificatesInvalid, M::Final, H::Clock),
        (C::KubernetesReady, R::StartFailed, M::Failed, H::ClusterLog),
        (C::KubernetesReady, R::CrashLoopBackOff, M::Final, H::CrashLog),
        (C::KubernetesReady, R::Probing, M::Passing, H::ClusterLog),
        (C::KubernetesReady, R::WaitingForNode, M::Passing, H::Nodes),
        (C::KubernetesReady, R::MergeFailed, M::Failed, H::Kubeconfig),
        (C::Settled, R::ApplyingTemplate, M::Passing, H::Watch),
        (C::Settled, R::WaitingForLimaVM, M::Passing, H::Watch),
        (C::Settled, R::WaitingForEngine, M::Passing, H::Watch),
        (C::Settled, R::EngineStale, M::Passing, H::Watch),
        (C::Settled, R::WaitingForKubernetes, M::Passing, H::Watch),
        (C::Settled, R::KubernetesStale, M::Passing, H::Watch),
    ]
};

/// The first that is about this condition, or for what `Settled` forwards, about any.
fn row(condition: &Condition) -> Option<&'static Row> {
    let of_reason = || TABLE.iter().filter(|row| condition.reason == row.1);
    let of_kind = of_reason().find(|row| condition.kind == row.0);
    of_kind.or_else(|| of_reason().next().filter(|_| condition.kind == conditions::SETTLED))
}

/// What a condition means that is not True. What nobody here knows is judged by how it is called.
pub fn meaning(condition: &Condition) -> Meaning {
    let is_bad = condition.reason.ends_with("Failed") || condition.reason.ends_with("Refused");
    row(condition).map_or(if is_bad { Meaning::Failed } else { Meaning::Passing }, |row| row.2)
}

/// The command that helps first with a condition that is not True.
pub fn help(condition: &Condition, places: &Places) -> String {
    match row(condition).map_or(Help::ServiceLog, |row| row.3) {
        Help::Watch => "rdd status --watch".to_owned(),
        Help::MachineLog => format!("rdd limavm log {}", names::APP_VM),
        Help::ServiceLog => "rdd service log".to_owned(),
        Help::ClusterLog | Help::CrashLog if places.is_host => format!("tail -n 50 {}", quoted(&places.cluster_log)),
        Help::ClusterLog | Help::CrashLog => "rdd shell sudo journalctl --unit=rdd-k3s --lines=50".to_owned(),
        Help::Nodes => "rdd run kubectl describe nodes".to_owned(),
        Help::Kubeconfig => format!("kubectl config view --kubeconfig={}", quoted(&places.kubeconfig)),
        Help::Release => format!("rdd set kubernetes.version={}", release_in(&condition.message).unwrap_or("latest")),
        Help::Clock => "date".to_owned(),
        Help::Disable => "rdd set kubernetes.enabled=false".to_owned(),
    }
}

/// What else can be done where the first command is not enough; for waits that do not end well.
pub fn last_resort(condition: &Condition) -> Option<&'static str> {
    match row(condition)?.3 {
        Help::Release => Some("or forget the cluster with everything in it: rdd reset --kubernetes"),
        Help::CrashLog => Some(
            "once the cause is mended it is tried again by itself within two minutes; at once: rdd set kubernetes.enabled=false, then true",
        ),
        Help::Clock => Some(
            "if the clock of this machine is right, forget the cluster with everything in it: rdd reset --kubernetes",
        ),
        _ => None,
    }
}

/// The first release that a message names: the one that the data is of.
fn release_in(message: &str) -> Option<&str> {
    let is_release = |word: &&str| word.starts_with('v') && word.contains("+k3s");
    message.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';')).find(is_release)
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | '@' | '%');
    if !path.is_empty() && path.chars().all(is_plain) {
        return path.to_owned();
    }
    format!("'{}'", path.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rdd_types::reasons::{self, Status};

    use super::*;

    fn mk_condition(kind: &str, reason: &str, message: &str) -> Condition {
        Condition {
            kind: kind.to_owned(),
            status: "False".to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: Some(1),
            last_transition_time: None,
        }
    }

    #[test]
    fn every_reason_of_a_part_that_is_not_well_has_its_row_and_no_other_has() {
        let parts = |row: &&reasons::Row| matches!(row.writer, "limavm" | "engine" | "kubernetes");
        let bad = reasons::TABLE.iter().filter(parts).filter(|row| row.status != Status::True);
        let written: BTreeSet<_> = bad.map(|row| (row.condition, row.reason)).collect();
        let known: BTreeSet<_> =
            TABLE.iter().filter(|row| row.0 != ConditionType::Settled).map(|row| (row.0, row.1)).collect();
        assert_eq!(known, written);
        let settled = reasons::TABLE.iter().filter(|row| row.writer == "app" && row.status != Status::True);
        for row in settled {
            let condition = mk_condition("Settled", row.reason.as_str(), "");
            // That a machine has not stopped yet is said in the words of one that runs.
            assert!(super::row(&condition).is_some() || row.reason == Reason::Started, "{}", row.reason);
        }
    }

    #[test]
    fn what_helps_fits_the_reason() {
        let home = Places {
            is_host: true,
            cluster_log: "/home/ann/.rd2/lima/rd/k3s.log".to_owned(),
            kubeconfig: "/home/ann bell/.kube/config".to_owned(),
        };
        let used = "the data of the cluster was used by Kubernetes v1.35.3+k3s1, and v1.34.6+k3s1 is older; choose v1.35.3+k3s1";
        for (kind, reason, message, meaning, help) in [
            ("Created", "CreateFailed", "", Meaning::Failed, "rdd service log"),
            ("Running", "StartFailed", "", Meaning::Failed, "rdd limavm log rd"),
            ("ContainerEngineReady", "ConnectFailed", "", Meaning::Failed, "rdd service log"),
            ("KubernetesReady", "DownloadFailed", "", Meaning::Failed, "rdd service log"),
            ("KubernetesReady", "StartFailed", "", Meaning::Failed, "tail -n 50 /home/ann/.rd2/lima/rd/k3s.log"),
            ("KubernetesReady", "CrashLoopBackOff", "", Meaning::Final, "tail -n 50 /home/ann/.rd2/lima/rd/k3s.log"),
            ("KubernetesReady", "Probing", "", Meaning::Passing, "tail -n 50 /home/ann/.rd2/lima/rd/k3s.log"),
            ("KubernetesReady", "WaitingForNode", "", Meaning::Passing, "rdd run kubectl describe nodes"),
            (
                "KubernetesReady",
                "MergeFailed",
                "",
                Meaning::Failed,
                "kubectl config view --kubeconfig='/home/ann bell/.kube/config'",
            ),
            ("KubernetesReady", "DowngradeRefused", used, Meaning::Final, "rdd set kubernetes.version=v1.35.3+k3s1"),
            ("KubernetesReady", "DowngradeRefused", "", Meaning::Final, "rdd set kubernetes.version=latest"),
            ("KubernetesReady", "CertificatesInvalid", "", Meaning::Final, "date"),
            ("KubernetesReady", "Unsupported", "", Meaning::Final, "rdd set kubernetes.enabled=false"),
            (
                "Settled",
                "MergeFailed",
                "",
                Meaning::Failed,
                "kubectl config view --kubeconfig='/home/ann bell/.kube/config'",
            ),
            ("Settled", "Starting", "", Meaning::Passing, "rdd limavm log rd"),
            ("Settled", "ApplyingTemplate", "", Meaning::Passing, "rdd status --watch"),
            ("KubernetesReady", "TomorrowFailed", "", Meaning::Failed, "rdd service log"),
            ("KubernetesReady", "Tomorrow", "", Meaning::Passing, "rdd service log"),
        ] {
            let condition = mk_condition(kind, reason, message);
            assert_eq!(
                (super::meaning(&condition), super::help(&condition, &home).as_str()),
                (meaning, help),
                "{kind} {reason}"
            );
        }
        let in_a_guest = super::help(&mk_condition("KubernetesReady", "StartFailed", ""), &Places::default());
        assert_eq!(in_a_guest, "rdd shell sudo journalctl --unit=rdd-k3s --lines=50");
    }

    #[test]
    fn what_costs_the_cluster_is_never_the_first_thing_to_do() {
        for row in TABLE {
            let condition = mk_condition(row.0.as_str(), row.1.as_str(), "");
            assert!(!help(&condition, &Places::default()).contains("reset"), "{row:?}");
        }
        assert!(
            last_resort(&mk_condition("Settled", "DowngradeRefused", "")).is_some_and(|text| text.contains("reset"))
        );
        assert_eq!(last_resort(&mk_condition("KubernetesReady", "MergeFailed", "")), None);
    }
}
