//! Tests of the plan for Kubernetes.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rdd_driver::{ClusterFound, Foundation, Upstream, Wanted};
use rdd_runtime::Step as _;
use rdd_types::{
    app::{App, AppSpec, AppStatus, Kubernetes},
    conditions::kubernetes as specs,
    names::annotation,
};

use super::{
    access::Access,
    contexts::Published,
    plan::{Failure, Observed, Step, Trouble, after_failure, plan},
    prober::{Answer, Probe},
    releases::Release,
};

const VERSION: &str = "v1.34.6+k3s1";
const PORT: u16 = 7443;

fn condition(kind: &str, status: &str, reason: &str) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        observed_generation: Some(1),
        last_transition_time: rdd_types::Time(Timestamp::default()),
    }
}

fn mk_app(enabled: bool, running: bool, is_up: bool) -> App {
    let kubernetes = Some(Kubernetes { enabled, version: Some("1.34.6".to_owned()) });
    let mut app = App::new("app", AppSpec { running, kubernetes, ..AppSpec::default() });
    app.metadata.generation = Some(3);
    app.metadata.uid = Some("u".to_owned());
    let up = if is_up { condition("Running", "True", "Started") } else { condition("Running", "False", "Stopped") };
    app.status = Some(AppStatus { conditions: vec![up], kubernetes_port: 0 });
    app
}

fn mk_access() -> Access {
    Access { authority: b"ca".to_vec(), certificate: None, key: None, token: Some("t".to_owned()), port: PORT }
}

fn upstream() -> Upstream {
    Upstream::unix("/run/k3s.sock")
}

fn runs(version: &str) -> Result<ClusterFound, Trouble> {
    Ok(ClusterFound::Running { version: version.to_owned() })
}

/// An App that wants Kubernetes, before anything exists.
fn nothing() -> Observed {
    Observed {
        app: Arc::new(mk_app(true, true, true)),
        is_gone: false,
        port: Some(PORT),
        route: None,
        is_probing: false,
        cluster: Ok(ClusterFound::Absent),
        is_watched: false,
        failure: None,
        release: Release::Ready { program: "/k3s".into(), images: Vec::new() },
        upstream: None,
        access: None,
        renewed_for: None,
        foundation: None,
        probe: None,
        warning: None,
        published: Published::Nothing,
        is_chosen: false,
        wall: Duration::from_secs(1_800_000_000),
        now: Timestamp::default(),
    }
}

/// Everything exists, with this outcome of the last probe.
fn everything(answer: Answer, in_a_row: u32) -> Observed {
    let mut seen = Observed {
        route: Some(upstream()),
        is_probing: true,
        cluster: runs(VERSION),
        is_watched: true,
        upstream: Some(upstream()),
        access: Some(mk_access()),
        probe: Some(Probe { answer, in_a_row, silent: Duration::ZERO }),
        published: Published::AsWanted,
        is_chosen: true,
        ..nothing()
    };
    was(&mut seen, "True", "Ready");
    seen
}

/// Sets the condition that was reported before.
fn was(seen: &mut Observed, status: &str, reason: &str) {
    let mut app = (*seen.app).clone();
    let mut conditions = app.status.take().unwrap_or_default().conditions;
    conditions.push(condition("KubernetesReady", status, reason));
    app.status = Some(AppStatus { conditions, kubernetes_port: i64::from(PORT) });
    seen.app = Arc::new(app);
}

fn of_app(change: impl FnOnce(&mut App), mut seen: Observed) -> Observed {
    let mut app = (*seen.app).clone();
    change(&mut app);
    seen.app = Arc::new(app);
    seen
}

/// The names of the steps, and the reported condition.
fn outline(seen: &Observed) -> String {
    let told = |step: &Step| match step {
        Step::WriteStatus(status) => {
            let said = &status.conditions[0];
            assert_eq!((said.type_.as_str(), said.observed_generation), ("KubernetesReady", Some(3)));
            format!("{}/{} at {}", said.status, said.reason, status.kubernetes_port)
        }
        step => step.name().to_owned(),
    };
    let plan = plan(seen);
    let again = plan.again.map(|after| format!(" again {}s", after.as_secs())).unwrap_or_default();
    plan.steps.iter().map(told).collect::<Vec<_>>().join(", ") + &again
}

#[track_caller]
fn check(seen: &Observed, expected: &str) {
    assert_eq!(outline(seen), expected);
}

fn message(seen: &Observed) -> String {
    let plan = plan(seen);
    let written = plan.steps.iter().find_map(|step| match step {
        Step::WriteStatus(status) => Some(status.conditions[0].message.clone()),
        _ => None,
    });
    written.expect("a status")
}

// Finding O-7, 355-S2
#[test]
fn where_nothing_is_wanted_nothing_is_touched_but_the_word_is_given() {
    let off = Observed { app: Arc::new(mk_app(false, true, true)), port: None, ..nothing() };
    check(&off, "False/NotApplicable at 0");
    let mut told = off.clone();
    let mut app = (*told.app).clone();
    let mut said = condition("KubernetesReady", "False", "NotApplicable");
    (said.message, said.observed_generation) = ("Kubernetes is not enabled".to_owned(), Some(3));
    app.status.as_mut().unwrap().conditions.push(said);
    told.app = Arc::new(app);
    check(&told, "");
}

// Finding 355-S2
#[test]
fn disabling_takes_everything_away_and_clears_the_port() {
    let seen = of_app(|app| app.spec.kubernetes = None, everything(Answer::Ready, 9));
    check(&seen, "withdraw, connect, stop-cluster, close-port, False/NotApplicable at 0");
}

#[test]
fn an_app_that_is_deleted_is_disabled_without_a_word() {
    let deleting = |app: &mut App| app.metadata.deletion_timestamp = Some(rdd_types::Time(Timestamp::default()));
    check(&of_app(deleting, everything(Answer::Ready, 9)), "withdraw, connect, stop-cluster, close-port");
    check(&Observed { is_gone: true, port: None, ..nothing() }, "");
}

// Finding 355-I2
#[test]
fn the_port_is_bound_before_anything_else_and_then_told() {
    check(&Observed { port: None, ..nothing() }, "bind-port again 0s");
    let idle = Observed { app: Arc::new(mk_app(true, false, false)), ..nothing() };
    check(&Observed { port: None, ..idle.clone() }, "bind-port again 0s");
    check(&idle, "False/NotRunning at 7443");
}

#[test]
fn without_a_machine_the_port_stays_and_all_else_goes() {
    let stopped = |app: &mut App| app.spec.running = false;
    check(&of_app(stopped, everything(Answer::Ready, 9)), "withdraw, connect, stop-cluster, False/NotRunning at 7443");
    let died = |app: &mut App| app.status.as_mut().unwrap().conditions[0].status = "False".to_owned();
    check(&of_app(died, everything(Answer::Ready, 9)), "withdraw, connect, stop-cluster, False/NotRunning at 7443");
}

#[test]
fn while_nobody_knows_whether_the_machine_runs_nothing_is_stopped() {
    let unsure = |app: &mut App| app.status.as_mut().unwrap().conditions[0].status = "Unknown".to_owned();
    check(&of_app(unsure, everything(Answer::Ready, 9)), "False/NotRunning at 7443");
}

#[test]
fn a_release_that_is_not_here_is_got_first() {
    let with = |release| Observed { release, ..nothing() };
    check(&with(Release::Absent), "False/Downloading at 7443, fetch");
    let half = with(Release::Fetching { done: 35 << 20, total: Some(70 << 20) });
    check(&half, "False/Downloading at 7443 again 15s");
    assert_eq!(message(&half), "Downloading Kubernetes v1.34.6+k3s1: 50% of 70 MiB");
    let failed = |again| with(Release::Failed { why: "no route to host".into(), again });
    check(&failed(Duration::from_secs(4)), "False/DownloadFailed at 7443 again 4s");
    check(&failed(Duration::ZERO), "False/DownloadFailed at 7443, fetch again 0s");
    assert_eq!(message(&failed(Duration::ZERO)), "Failed to download Kubernetes v1.34.6+k3s1: no route to host");
}

#[test]
fn what_runs_goes_on_without_its_file() {
    let mut seen = everything(Answer::Ready, 2);
    seen.release = Release::Absent;
    check(&seen, "True/Ready at 7443 again 15s");
    seen.is_watched = false;
    check(&seen, "False/Downloading at 7443, fetch");
}

#[test]
fn the_exact_release_that_was_asked_for_is_started() {
    let seen = of_app(|app| app.spec.kubernetes.as_mut().unwrap().version = Some("1.32.11".into()), nothing());
    let Some(Step::StartCluster(wanted)) = plan(&seen).steps.pop() else { panic!("a start") };
    let expected = Wanted { version: "v1.32.11+k3s3".into(), program: "/k3s".into(), images: Vec::new(), port: PORT };
    assert_eq!(wanted, expected);
    let unknown = of_app(|app| app.spec.kubernetes.as_mut().unwrap().version = Some("1.32.99".into()), nothing());
    check(&unknown, "False/Unsupported at 7443");
}

#[test]
fn a_cluster_is_started_or_taken_over_and_a_newer_release_replaces_it() {
    check(&nothing(), "False/Probing at 7443, start-cluster");
    check(&Observed { cluster: runs(VERSION), ..nothing() }, "False/Probing at 7443, start-cluster");
    let older = Observed { cluster: runs("v1.33.1+k3s1"), ..everything(Answer::Ready, 1) };
    check(&older, "False/Probing at 7443, start-cluster");
    let stopped = Ok(ClusterFound::Stopped { version: "v1.33.1+k3s1".into() });
    check(&Observed { cluster: stopped, ..nothing() }, "False/Probing at 7443, start-cluster");
}

#[test]
fn data_of_a_newer_release_is_not_given_to_an_older_one() {
    let newer = |cluster| Observed { cluster: Ok(cluster), ..nothing() };
    let stopped = newer(ClusterFound::Stopped { version: "v1.35.3+k3s1".into() });
    check(&stopped, "False/DowngradeRefused at 7443");
    assert!(message(&stopped).contains("v1.35.3+k3s1") && message(&stopped).contains("rdd reset --kubernetes"));
    check(&newer(ClusterFound::Running { version: "v1.35.3+k3s1".into() }), "False/DowngradeRefused at 7443");
    check(&newer(ClusterFound::Stopped { version: "nonsense".into() }), "False/Probing at 7443, start-cluster");
}

#[test]
fn a_failure_is_told_waited_out_and_tried_again() {
    let failure = |wait| Some(Failure { message: "k3s ended: no space".into(), wait, alike: 1 });
    let waiting = Observed { failure: failure(Duration::from_secs(8)), ..nothing() };
    check(&waiting, "False/StartFailed at 7443 again 8s");
    assert_eq!(message(&waiting), "k3s ended: no space");
    check(&Observed { failure: failure(Duration::ZERO), ..nothing() }, "False/StartFailed at 7443, start-cluster");
    let cannot = |trouble| Observed { cluster: Err(trouble), ..nothing() };
    check(&cannot(Trouble::Passing("no answer".into())), "False/StartFailed at 7443 again 15s");
    check(&cannot(Trouble::Lasting("only root can".into())), "False/Unsupported at 7443 again 15s");
}

// Finding E-22
#[test]
fn the_same_end_three_times_in_a_row_is_hopeless_and_tried_again_all_the_same() {
    let failed = |alike, wait| Observed {
        failure: Some(Failure { message: "k3s ended (exit status: 1): kubelet exited".into(), wait, alike }),
        ..nothing()
    };
    let wait = Duration::from_secs(8);
    check(&failed(2, wait), "False/StartFailed at 7443 again 8s");
    check(&failed(3, wait), "False/CrashLoopBackOff at 7443 again 8s");
    check(&failed(3, Duration::ZERO), "False/CrashLoopBackOff at 7443, start-cluster");
    let said = |alike| message(&failed(alike, wait));
    assert_eq!(
        said(3),
        "Kubernetes ended 3 times in a row in the same way: k3s ended (exit status: 1): kubelet exited"
    );
    assert_eq!(said(4), said(40), "it is not news each time");
}

// Finding E-19
#[test]
fn what_a_person_should_know_is_said_where_it_is_ready() {
    let warned = Observed { warning: Some("old groups".into()), ..everything(Answer::Ready, 1) };
    check(&warned, "True/Ready at 7443 again 15s");
    assert_eq!(message(&warned), "Kubernetes cluster is ready; warning: old groups");
    let late = Observed { warning: Some("old groups".into()), ..everything(Answer::Timeout, 2) };
    assert_eq!(message(&late), message(&warned), "a miss that is tolerated is no news");
}

#[test]
fn on_its_way_up_it_is_connected_asked_published_and_only_then_ready() {
    let mut seen = Observed { cluster: runs(VERSION), is_watched: true, upstream: Some(upstream()), ..nothing() };
    check(&seen, "connect, False/Probing at 7443 again 15s");
    (seen.route, seen.access) = (Some(upstream()), Some(mk_access()));
    check(&seen, "False/Probing at 7443, probe");
    let answered = |answer| Some(Probe { answer, in_a_row: 1, silent: Duration::ZERO });
    seen.is_probing = true;
    seen.probe = answered(Answer::Failed("refused".into()));
    check(&seen, "False/Probing at 7443 again 15s");
    seen.probe = answered(Answer::NoNode("No node has registered yet".into()));
    check(&seen, "publish, False/WaitingForNode at 7443, choose-current again 15s");
    assert_eq!(message(&seen), "No node has registered yet");
    seen.probe = answered(Answer::Ready);
    check(&seen, "publish, True/Ready at 7443, choose-current again 15s");
    (seen.published, seen.is_chosen) = (Published::AsWanted, true);
    check(&seen, "True/Ready at 7443 again 15s");
}

#[test]
fn one_that_is_ready_may_miss_two_answers_but_not_three_and_a_refusal_counts_at_once() {
    let ready = "True/Ready at 7443 again 15s";
    for (answer, in_a_row, expected) in [
        (Answer::Timeout, 1, ready),
        (Answer::Timeout, 2, ready),
        (Answer::Timeout, 3, "False/Probing at 7443 again 15s"),
        (Answer::NoNode("No node is Ready yet".into()), 2, ready),
        (Answer::NoNode("No node is Ready yet".into()), 3, "False/WaitingForNode at 7443 again 15s"),
        (Answer::Failed("connection refused".into()), 1, "False/Probing at 7443 again 15s"),
    ] {
        check(&everything(answer, in_a_row), expected);
    }
    let mut starting = everything(Answer::Timeout, 1);
    starting.app = Arc::new(mk_app(true, true, true));
    check(&starting, "False/Probing at 7443 again 15s");
}

#[test]
fn one_that_is_silent_for_too_long_is_started_anew() {
    let mut seen = everything(Answer::Timeout, 50);
    seen.probe.as_mut().unwrap().silent = Duration::from_secs(299);
    check(&seen, "False/Probing at 7443 again 15s");
    seen.probe.as_mut().unwrap().silent = Duration::from_secs(300);
    check(&seen, "restart-cluster again 0s");
    seen.release = Release::Absent;
    check(&seen, "False/Probing at 7443 again 15s");
}

/// An access with a certificate that is valid from an hour before `wall` for this many days.
fn certified(wall: Duration, days: u64) -> Access {
    let mut params = rcgen::CertificateParams::new(vec!["admin".to_owned()]).unwrap();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + (wall - Duration::from_hours(24));
    params.not_after = epoch + (wall + Duration::from_hours(24 * days));
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    Access { certificate: Some(certificate.pem().into_bytes()), ..mk_access() }
}

#[test]
fn certificates_that_end_soon_are_renewed_by_one_restart_whatever_the_clock_says() {
    let wall = Duration::from_secs(1_800_000_000);
    let with = |days, wall| Observed {
        access: Some(certified(Duration::from_secs(1_800_000_000), days)),
        wall,
        ..everything(Answer::Ready, 1)
    };
    check(&with(200, wall), "True/Ready at 7443 again 15s");
    check(&with(20, wall), "restart-cluster again 0s");
    let expired = Observed { probe: None, ..with(1, wall + Duration::from_hours(24 * 30)) };
    check(&expired, "restart-cluster again 0s");
    let mut renewed = with(20, wall);
    renewed.renewed_for = renewed.access.as_ref().unwrap().validity().map(|validity| validity.until);
    check(&renewed, "True/Ready at 7443 again 15s");
    check(&with(20, Duration::from_secs(1000)), "True/Ready at 7443 again 15s");
}

fn pem((from, until): (Duration, Duration)) -> String {
    let mut params = rcgen::CertificateParams::new(vec!["ca".to_owned()]).unwrap();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    (params.not_before, params.not_after) = (epoch + from, epoch + until);
    params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
}

const DAY: Duration = Duration::from_hours(24);

/// A cluster that runs and does not answer, with certificates that become valid after this time.
fn silent_until(begin: Duration, is_new: bool) -> Observed {
    let seen = everything(Answer::Failed("not valid yet".into()), 1);
    let certificate = pem((seen.wall + begin, seen.wall + begin + 365 * DAY));
    let foundation = Some(Foundation { authority: certificate.clone(), is_new });
    let access = Access { certificate: Some(certificate.into_bytes()), ..mk_access() };
    Observed { access: Some(access), foundation, ..seen }
}

// Issue 7: a guest clock that is off.
#[test]
fn certificates_of_the_future_are_waited_for_made_anew_or_told_but_never_just_awaited() {
    check(&silent_until(Duration::from_secs(6), false), "False/Probing at 7443 again 6s");
    check(&silent_until(Duration::from_secs(300), true), "False/Probing at 7443 again 15s");
    let soon = message(&silent_until(Duration::from_secs(6), true));
    assert_eq!(soon, "Waiting until the certificates of Kubernetes are valid, at 2027-01-15T08:00:06Z");
    check(&silent_until(400 * DAY, true), "remake-cluster again 0s");
    let used = silent_until(400 * DAY, false);
    check(&used, "False/CertificatesInvalid at 7443 again 15s");
    let said = message(&used);
    assert!(said.contains("valid from 2028-02-19T08:00:00Z, 400 days after what this machine's clock shows"), "{said}");
    assert!(said.contains("rdd reset --kubernetes"), "{said}");
    check(&Observed { foundation: None, ..used.clone() }, "False/CertificatesInvalid at 7443 again 15s");
    // A restart would not help, however long the cluster is silent.
    let mut silent = used.clone();
    silent.probe.as_mut().unwrap().silent = Duration::from_hours(9);
    check(&silent, "False/CertificatesInvalid at 7443 again 15s");
    // A cluster that answers is fine, and one that was not probed yet is probed.
    let mut answers = used.clone();
    answers.probe.as_mut().unwrap().answer = Answer::Ready;
    check(&answers, "True/Ready at 7443 again 15s");
    check(&Observed { probe: None, ..used }, "False/Probing at 7443, probe");
}

#[test]
fn certificates_that_have_ended_are_renewed_by_a_restart_and_told_if_that_does_not_help() {
    let silent = everything(Answer::Failed("expired".into()), 1);
    let ended = |authority: Duration, client: Duration, is_new| {
        let authority = pem((silent.wall - 800 * DAY, authority));
        let access = Access {
            authority: authority.clone().into_bytes(),
            certificate: Some(pem((silent.wall - 800 * DAY, client)).into_bytes()),
            ..mk_access()
        };
        Observed { access: Some(access), foundation: Some(Foundation { authority, is_new }), ..silent.clone() }
    };
    let (past, future) = (silent.wall - DAY, silent.wall + 300 * DAY);
    let mut client = ended(future, past, false);
    check(&client, "restart-cluster again 0s");
    client.renewed_for = Some(past);
    check(&client, "False/CertificatesInvalid at 7443 again 15s");
    assert!(
        message(&client).contains("valid until 2027-01-14T08:00:00Z, 24 hours before what this machine's clock shows")
    );
    let later = Observed { wall: client.wall + Duration::from_mins(30), ..client.clone() };
    assert_eq!(message(&later), message(&client), "what would be news each second would be written each second");
    client.release = Release::Absent;
    check(&client, "False/Probing at 7443 again 15s");
    check(&ended(past, future, false), "False/CertificatesInvalid at 7443 again 15s");
    check(&ended(past, future, true), "remake-cluster again 0s");
}

#[test]
fn data_whose_authority_is_of_the_future_is_not_started_and_one_that_runs_is_taken_over() {
    let stopped = Ok(ClusterFound::Stopped { version: VERSION.into() });
    let data = |begin: Duration, is_new| {
        let wall = nothing().wall;
        let authority = pem((wall + begin, wall + begin + 3650 * DAY));
        Observed { cluster: stopped.clone(), foundation: Some(Foundation { authority, is_new }), ..nothing() }
    };
    check(&data(400 * DAY, false), "False/CertificatesInvalid at 7443 again 15s");
    check(&data(400 * DAY, true), "remake-cluster again 0s");
    check(&data(Duration::from_secs(9), false), "False/Probing at 7443 again 9s");
    check(&data(Duration::ZERO, false), "False/Probing at 7443, start-cluster");
    check(&Observed { cluster: runs(VERSION), ..data(400 * DAY, true) }, "False/Probing at 7443, start-cluster");
    let unreadable = Some(Foundation { authority: "nonsense".into(), is_new: true });
    check(&Observed { foundation: unreadable, ..data(DAY, true) }, "False/Probing at 7443, start-cluster");
}

#[test]
fn a_reset_forgets_the_cluster_and_then_the_request() {
    let asked = |app: &mut App| {
        app.metadata.annotations = Some([(annotation::RESET_KUBERNETES.to_owned(), "now".to_owned())].into());
    };
    check(&of_app(asked, everything(Answer::Ready, 1)), "False/Probing at 7443, reset-cluster, clear-request again 0s");
    let unknown = of_app(|app| app.spec.kubernetes.as_mut().unwrap().version = Some("1.32.99".into()), nothing());
    check(&of_app(asked, unknown), "False/Probing at 7443, reset-cluster, clear-request again 0s");
    let off = of_app(asked, Observed { app: Arc::new(mk_app(false, true, true)), port: None, ..nothing() });
    check(&off, "reset-cluster, clear-request, False/NotApplicable at 0");
    let idle = of_app(asked, Observed { app: Arc::new(mk_app(true, false, false)), ..nothing() });
    check(&idle, "reset-cluster, clear-request, False/NotRunning at 7443");
}

// Finding 361-S2, 361-S3
#[test]
fn what_failed_is_said_with_what_was_attempted() {
    let said = |failed: &Step| match after_failure(failed, &everything(Answer::Ready, 1), "permission denied") {
        Some(Step::WriteStatus(status)) => {
            let condition = &status.conditions[0];
            format!("{}/{}: {}", condition.status, condition.reason, condition.message)
        }
        other => format!("{other:?}"),
    };
    assert_eq!(
        said(&Step::Publish(mk_access())),
        "False/MergeFailed: Failed to publish Kubernetes context: permission denied"
    );
    assert_eq!(said(&Step::BindPort), "False/StartFailed: Failed to bind a port for Kubernetes: permission denied");
    assert_eq!(said(&Step::ResetCluster), "False/StartFailed: Failed to reset Kubernetes: permission denied");
    assert_eq!(said(&Step::Withdraw), "None", "what is retried in the background is in the log");
}

// Finding 361-S1
#[test]
fn every_condition_is_reached_by_some_plan() {
    let mut said = BTreeSet::new();
    let mut hear = |seen: &Observed| {
        for step in plan(seen).steps {
            if let Step::WriteStatus(status) = step {
                said.insert(status.conditions[0].reason.clone());
            }
        }
    };
    hear(&Observed { app: Arc::new(mk_app(false, true, true)), port: None, ..nothing() });
    hear(&Observed { app: Arc::new(mk_app(true, false, false)), ..nothing() });
    hear(&nothing());
    hear(&Observed { release: Release::Absent, ..nothing() });
    hear(&Observed { release: Release::Failed { why: String::new(), again: Duration::ZERO }, ..nothing() });
    hear(&Observed { cluster: Err(Trouble::Passing("no".into())), ..nothing() });
    hear(&Observed { cluster: Err(Trouble::Lasting("no".into())), ..nothing() });
    hear(&silent_until(Duration::from_hours(24 * 400), false));
    hear(&Observed { cluster: Ok(ClusterFound::Stopped { version: "v1.35.3+k3s1".into() }), ..nothing() });
    hear(&everything(Answer::NoNode(String::new()), 3));
    hear(&everything(Answer::Ready, 1));
    let failure = Failure { message: String::new(), wait: Duration::from_secs(1), alike: 3 };
    hear(&Observed { failure: Some(failure), ..nothing() });
    if let Some(Step::WriteStatus(status)) =
        after_failure(&Step::Publish(mk_access()), &everything(Answer::Ready, 1), "")
    {
        said.insert(status.conditions[0].reason.clone());
    }
    let known: BTreeSet<String> = specs::ALL.iter().map(|spec| spec.reason().to_string()).collect();
    assert_eq!(said, known);
}
