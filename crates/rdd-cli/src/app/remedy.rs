//! Classifies conditions for commands that wait for the App, and suggests commands. The table of conditions is `rdd_types::conditions`.

use rdd_types::conditions::{ConditionSpec, Outlook, Remedy, app, engine, kubernetes, limavm};

use super::{
    condition::Condition,
    names::{self, conditions},
};

/// Paths and names that suggested commands contain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Whether the App runs on the host; then K3s is a process of this machine, otherwise one of the VM.
    pub is_host: bool,
    /// The path of K3s' log on this machine.
    pub cluster_log: String,
    /// The user's kubeconfig that is written first.
    pub kubeconfig: String,
}

/// The table entry of a condition of the App. A reason that `Settled` forwards has the entry of the forwarded condition.
fn find_spec(condition: &Condition) -> Option<&'static ConditionSpec> {
    let of_app = || [limavm::ALL, engine::ALL, kubernetes::ALL, app::ALL].into_iter().flatten().copied();
    let with_reason =
        || of_app().filter(|spec| spec.has_reason(&condition.reason) && spec.outlook != Outlook::Forwarded);
    let of_type = with_reason().find(|spec| condition.kind == spec.condition);
    of_type.or_else(|| with_reason().next().filter(|_| condition.kind == conditions::SETTLED))
}

/// Classifies a condition that is not True. A reason that is not in the table is classified by its name.
pub fn outlook(condition: &Condition) -> Outlook {
    let is_bad = condition.reason.ends_with("Failed") || condition.reason.ends_with("Refused");
    match find_spec(condition).map(|spec| spec.outlook) {
        // `Settled` forwards the reason of a VM that has not stopped yet, which is good everywhere else.
        Some(Outlook::Good) => Outlook::Passing,
        Some(outlook) => outlook,
        None if is_bad => Outlook::Failed,
        None => Outlook::Passing,
    }
}

/// The first command to try for a condition that is not True.
pub fn help(condition: &Condition, places: &Places) -> String {
    match find_spec(condition).map_or(Remedy::ServiceLog, |spec| spec.remedy) {
        Remedy::Watch => "rdd status --watch".to_owned(),
        Remedy::MachineLog => format!("rdd limavm log {}", names::APP_VM),
        Remedy::ServiceLog | Remedy::Nothing => "rdd service log".to_owned(),
        Remedy::ClusterLog | Remedy::CrashLog if places.is_host => {
            format!("tail -n 50 {}", quoted(&places.cluster_log))
        }
        Remedy::ClusterLog | Remedy::CrashLog => "rdd shell sudo journalctl --unit=rdd-k3s --lines=50".to_owned(),
        Remedy::Nodes => "rdd run kubectl describe nodes".to_owned(),
        Remedy::Kubeconfig => format!("kubectl config view --kubeconfig={}", quoted(&places.kubeconfig)),
        Remedy::Release => format!("rdd set kubernetes.version={}", release_in(&condition.message).unwrap_or("latest")),
        Remedy::Clock => "date".to_owned(),
        Remedy::Disable => "rdd set kubernetes.enabled=false".to_owned(),
    }
}

/// A further suggestion if the first command does not help; for waits that fail.
pub fn last_resort(condition: &Condition) -> Option<&'static str> {
    match find_spec(condition)?.remedy {
        Remedy::Release => Some("or forget the cluster with everything in it: rdd reset --kubernetes"),
        Remedy::CrashLog => Some(
            "once the cause is mended it is tried again by itself within two minutes; at once: rdd set kubernetes.enabled=false, then true",
        ),
        Remedy::Clock => Some(
            "if the clock of this machine is right, forget the cluster with everything in it: rdd reset --kubernetes",
        ),
        _ => None,
    }
}

/// The first release that a message names, which is the one that wrote the data.
fn release_in(message: &str) -> Option<&str> {
    let is_release = |word: &&str| word.starts_with('v') && word.contains("+k3s");
    message.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';')).find(is_release)
}

/// Quotes a path for a shell, if needed.
fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | '@' | '%');
    if !path.is_empty() && path.chars().all(is_plain) {
        return path.to_owned();
    }
    format!("'{}'", path.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use rdd_types::conditions::ConditionStatus;

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
    fn every_reason_of_the_app_has_an_outlook_and_a_remedy() {
        for spec in app::ALL.iter().filter(|spec| spec.status != ConditionStatus::True) {
            for reason in spec.reasons {
                let condition = mk_condition("Settled", reason.as_str(), "");
                assert!(find_spec(&condition).is_some(), "{reason}");
                assert_ne!(super::outlook(&condition), Outlook::Forwarded, "{reason}");
            }
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
        for (kind, reason, message, outlook, help) in [
            ("Created", "CreateFailed", "", Outlook::Failed, "rdd service log"),
            ("Running", "StartFailed", "", Outlook::Failed, "rdd limavm log rd"),
            ("ContainerEngineReady", "ConnectFailed", "", Outlook::Failed, "rdd service log"),
            ("KubernetesReady", "DownloadFailed", "", Outlook::Failed, "rdd service log"),
            ("KubernetesReady", "StartFailed", "", Outlook::Failed, "tail -n 50 /home/ann/.rd2/lima/rd/k3s.log"),
            ("KubernetesReady", "CrashLoopBackOff", "", Outlook::Final, "tail -n 50 /home/ann/.rd2/lima/rd/k3s.log"),
            ("KubernetesReady", "Probing", "", Outlook::Passing, "tail -n 50 /home/ann/.rd2/lima/rd/k3s.log"),
            ("KubernetesReady", "WaitingForNode", "", Outlook::Passing, "rdd run kubectl describe nodes"),
            (
                "KubernetesReady",
                "MergeFailed",
                "",
                Outlook::Failed,
                "kubectl config view --kubeconfig='/home/ann bell/.kube/config'",
            ),
            ("KubernetesReady", "DowngradeRefused", used, Outlook::Final, "rdd set kubernetes.version=v1.35.3+k3s1"),
            ("KubernetesReady", "DowngradeRefused", "", Outlook::Final, "rdd set kubernetes.version=latest"),
            ("KubernetesReady", "CertificatesInvalid", "", Outlook::Final, "date"),
            ("KubernetesReady", "Unsupported", "", Outlook::Final, "rdd set kubernetes.enabled=false"),
            (
                "Settled",
                "MergeFailed",
                "",
                Outlook::Failed,
                "kubectl config view --kubeconfig='/home/ann bell/.kube/config'",
            ),
            ("Settled", "Starting", "", Outlook::Passing, "rdd limavm log rd"),
            ("Settled", "ApplyingTemplate", "", Outlook::Passing, "rdd status --watch"),
            ("KubernetesReady", "TomorrowFailed", "", Outlook::Failed, "rdd service log"),
            ("KubernetesReady", "Tomorrow", "", Outlook::Passing, "rdd service log"),
        ] {
            let condition = mk_condition(kind, reason, message);
            assert_eq!(
                (super::outlook(&condition), super::help(&condition, &home).as_str()),
                (outlook, help),
                "{kind} {reason}"
            );
        }
        let in_a_guest = super::help(&mk_condition("KubernetesReady", "StartFailed", ""), &Places::default());
        assert_eq!(in_a_guest, "rdd shell sudo journalctl --unit=rdd-k3s --lines=50");
    }

    #[test]
    fn what_costs_the_cluster_is_never_the_first_thing_to_do() {
        for spec in rdd_types::conditions::all() {
            let condition = mk_condition(spec.condition.as_str(), spec.reason().as_str(), "");
            assert!(!help(&condition, &Places::default()).contains("reset"), "{spec:?}");
        }
        assert!(
            last_resort(&mk_condition("Settled", "DowngradeRefused", "")).is_some_and(|text| text.contains("reset"))
        );
        assert_eq!(last_resort(&mk_condition("KubernetesReady", "MergeFailed", "")), None);
    }
}
