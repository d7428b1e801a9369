//! Tests of every row in the table of the Settled condition.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::settled::{Inputs, settled};
use crate::condition::set;

fn condition(kind: &str, status: &str, reason: &str, message: &str, generation: i64) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: Some(generation),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

/// Parses conditions, one per line, as `Type=Status/Reason@generation message`.
fn conditions(text: &str) -> Vec<Condition> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let (head, message) = line.split_once(' ').unwrap_or((line, ""));
            let (kind, rest) = head.split_once('=').unwrap();
            let (status, rest) = rest.split_once('/').unwrap();
            let (reason, generation) = rest.split_once('@').unwrap();
            condition(kind, status, reason, message, generation.parse().unwrap())
        })
        .collect()
}

/// The inputs of a row besides its conditions.
#[derive(Clone, Copy)]
struct Row {
    wanted: bool,
    current: bool,
    engine: bool,
    kubernetes: bool,
    kubernetes_wanted: bool,
}

const UP: Row = Row { wanted: true, current: true, engine: true, kubernetes: true, kubernetes_wanted: false };
const DOWN: Row = Row { wanted: false, ..UP };

const STARTED: &str = "Created=True/Created@4\nRunning=True/Started@4";
const STOPPED: &str = "Created=True/Created@4\nRunning=False/Stopped@4";

/// Checks a row for an App of generation 9 and a LimaVM of generation 4.
fn check(number: &str, row: Row, vm: &str, app: &str, expected: &str) {
    let (vm, app) = (conditions(vm), conditions(app));
    let said = settled(&Inputs {
        generation: 9,
        wanted: row.wanted,
        kubernetes_wanted: row.kubernetes_wanted,
        template_is_current: row.current,
        vm_generation: 4,
        vm: &vm,
        app: &app,
        has_engine: row.engine,
        has_kubernetes: row.kubernetes,
    });
    let mut into = Vec::new();
    set(&said, &mut into, 9, Timestamp::UNIX_EPOCH);
    let made = &into[0];
    assert_eq!(format!("{}/{} {}", made.status, made.reason, made.message), expected, "row {number}");
    assert_eq!((made.type_.as_str(), made.observed_generation), ("Settled", Some(9)), "row {number}");
}

#[test]
fn every_row_of_the_table() {
    let stale = Row { current: false, ..UP };
    let applying = "False/ApplyingTemplate Applying the configuration change to the VM";
    let waiting = "False/WaitingForLimaVM Waiting for LimaVM to report its state";
    let settled = "True/Settled App has reached the desired state";
    check("1", stale, STARTED, "", applying);
    check("1, while it is created", stale, "Created=Unknown/Pending@4", "", applying);
    check("1, while it restarts", stale, "Created=True/Created@4\nRunning=False/Stopped@4", "", applying);
    check("2", UP, "Created=True/Created@4", "", waiting);
    check("2, before anything is said", UP, "", "", waiting);
    check("3", UP, STOPPED, "", "False/Stopped LimaVM has not yet reached Started");
    check(
        "3, verifying",
        UP,
        "Running=Unknown/Reconciling@4 x",
        "",
        "False/Reconciling LimaVM has not yet reached Started",
    );
    check("3, failed", UP, "Running=False/StartFailed@4 no KVM", "", "False/StartFailed no KVM");
    check(
        "3, failed without a word",
        UP,
        "Running=False/StartFailed@4",
        "",
        "False/StartFailed LimaVM has not yet reached Started",
    );
    check("4", DOWN, STARTED, "", "False/Started LimaVM has not yet reached Stopped");
    check("4, failed", DOWN, "Running=False/StopFailed@4 stuck", "", "False/StopFailed stuck");
    let alone = Row { engine: false, kubernetes: false, ..UP };
    check("5, up", alone, STARTED, "", settled);
    check("5, down", Row { wanted: false, ..alone }, STOPPED, "", settled);
    let engine_stale = "False/EngineStale Container engine needs to be synchronized";
    check("6", DOWN, STOPPED, "ContainerEngineReady=False/Stopped@9", settled);
    check("6, not mirrored", DOWN, STOPPED, "ContainerEngineReady=Unknown/NotApplicable@9", settled);
    check("6, missing", DOWN, STOPPED, "", engine_stale);
    check("6, older", DOWN, STOPPED, "ContainerEngineReady=False/Stopped@8", engine_stale);
    check("6, connected", DOWN, STOPPED, "ContainerEngineReady=True/Connected@9", engine_stale);
    check("7", Row { engine: false, kubernetes_wanted: true, ..DOWN }, STOPPED, "", settled);
    check("8", UP, STARTED, "", "False/WaitingForEngine Waiting for container engine condition");
    check("9", UP, STARTED, "ContainerEngineReady=True/Connected@8", engine_stale);
    check("10", UP, STARTED, "ContainerEngineReady=False/ConnectFailed@9 refused", "False/ConnectFailed refused");
    let kubernetes = Row { kubernetes_wanted: true, ..UP };
    let engine = "ContainerEngineReady=True/Connected@9";
    check("11", kubernetes, STARTED, engine, "False/WaitingForKubernetes Waiting for Kubernetes condition");
    check(
        "12",
        kubernetes,
        STARTED,
        &format!("{engine}\nKubernetesReady=True/Ready@8"),
        "False/KubernetesStale Kubernetes context needs to be synchronized",
    );
    check(
        "13",
        kubernetes,
        STARTED,
        &format!("{engine}\nKubernetesReady=False/MergeFailed@9 read-only"),
        "False/MergeFailed read-only",
    );
    check("14", kubernetes, STARTED, &format!("{engine}\nKubernetesReady=True/Ready@9"), settled);
    check("14, Kubernetes is off", UP, STARTED, engine, settled);
    let off = |said: &str| format!("{engine}\nKubernetesReady={said}");
    check("14, Kubernetes was off", UP, STARTED, &off("False/NotApplicable@9"), settled);
    // A command that disables Kubernetes returns after the context is removed.
    let stale = "False/KubernetesStale Kubernetes context needs to be synchronized";
    check("14, it is not off yet", UP, STARTED, &off("True/Ready@9"), stale);
    check("14, it has not looked yet", UP, STARTED, &off("False/NotApplicable@8"), stale);
    check(
        "14, Kubernetes alone",
        Row { engine: false, ..kubernetes },
        STARTED,
        "KubernetesReady=True/Ready@9",
        settled,
    );
}

// Finding O-3
#[test]
fn a_failed_creation_and_a_failed_start_are_not_hidden_by_the_template_that_waits_for_them() {
    let stale = Row { current: false, ..UP };
    check("O-3", stale, "Created=False/CreateFailed@4 no space left", "", "False/CreateFailed no space left");
    check(
        "O-3, start",
        stale,
        "Created=True/Created@4\nRunning=False/StartFailed@4 no KVM",
        "",
        "False/StartFailed no KVM",
    );
}

// Finding 295-S5
#[test]
fn an_engine_that_is_not_mirrored_claims_nothing_and_is_final() {
    check(
        "295-S5",
        UP,
        STARTED,
        "ContainerEngineReady=Unknown/NotApplicable@9",
        "True/Settled App has reached the desired state",
    );
}

#[test]
fn what_a_vm_says_about_an_older_wish_does_not_count() {
    let waiting = "False/WaitingForLimaVM Waiting for LimaVM to report its state";
    check("quick off and on", UP, "Running=True/Started@3", "", waiting);
    check("quick on and off", DOWN, "Running=False/Stopped@3", "", waiting);
}
