//! Tables of every branch of the status tree.

use super::*;
use serde_json::json;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn mk_condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": 1,
           "lastTransitionTime": at(-50).to_string()})
}

fn object(spec: Value, list: Vec<Value>) -> Known {
    Known::Present(Box::new(json!({"metadata": {"generation": 1}, "spec": spec, "status": {"conditions": list}})))
}

fn settled() -> Value {
    mk_condition("Settled", "True", "Settled", "App has reached the desired state")
}

/// The observed state of an instance in which every wanted part is ready.
pub(crate) fn running() -> Facts {
    let mut started = mk_condition("Running", "True", "Started", "Lima instance is running");
    started["lastTransitionTime"] = at(-55).to_string().into();
    Facts {
        instance: "rancher-desktop-2".to_owned(),
        now: at(0),
        created: true,
        daemon: Daemon::Running {
            pid: Some(7),
            since: Some(at(-60)),
            answer: Answer::Ready { server: "https://127.0.0.1:6445".to_owned(), version: "v1".to_owned() },
        },
        discovery: Some(Discovery { ready: true, controllers: ["app", "limavm"].map(str::to_owned).into() }),
        app: object(json!({"running": true, "backend": "host"}), vec![settled()]),
        vm: object(json!({"running": true}), vec![mk_condition("Created", "True", "Created", ""), started]),
        places: Places { kubeconfig: "/home/ann/.kube/config".to_owned(), ..Places::default() },
        engine_socket: "/run/docker.sock".to_owned(),
        engine: Some(Ok(())),
        mirrors: None,
    }
}

fn answering(answer: Answer, since: i64) -> Facts {
    let silent = Known::Unknown("the control plane cannot be asked".to_owned());
    let daemon = Daemon::Running { pid: Some(7), since: Some(at(since)), answer };
    Facts { daemon, discovery: None, app: silent.clone(), vm: silent, engine: None, ..running() }
}

/// `id=state` of every part, parents first.
fn states(facts: &Facts) -> String {
    let report = judge(facts);
    let parts = nodes(&report.tree).into_iter().map(|node| format!("{}={}", node.id, node.state.word()));
    parts.collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(facts: &Facts, parts: &str, whole: State, next: Option<&str>) {
    let report = judge(facts);
    assert_eq!(states(facts), parts);
    assert_eq!((report.state, report.next.as_deref()), (whole, next), "{report:?}");
    assert_eq!(report.ready, whole == State::Ready);
}

#[test]
fn everything_that_is_wanted_is_there() {
    let parts = "daemon=ready app=ready machine=ready engine=ready mirrors=off kubernetes=off";
    check(&running(), parts, State::Ready, None);
    assert_eq!(judge(&running()).node("machine").unwrap().title, "host");
}

#[test]
fn a_daemon_that_is_down_takes_everything_with_it() {
    let parts = "daemon=off app=off machine=off engine=off mirrors=off kubernetes=off";
    let down = Facts { daemon: Daemon::Stopped, discovery: None, ..answering(Answer::NotReady(Vec::new()), 0) };
    check(&down, parts, State::Off, Some("rdd start"));
    assert_eq!(judge(&down).tree.message, "stopped");
    assert_eq!(judge(&Facts { created: false, ..down }).tree.message, "not created");
}

#[test]
fn a_daemon_that_does_not_answer_is_starting_and_after_a_while_broken() {
    let below = "app=unknown machine=unknown engine=unknown mirrors=unknown kubernetes=unknown";
    let silent = || Answer::Silent("refused".to_owned());
    let log = Some("rdd service log --follow");
    check(&answering(silent(), -10), &format!("daemon=starting {below}"), State::Unknown, log);
    check(&answering(silent(), -100), &format!("daemon=failed {below}"), State::Failed, log);
    let checks = answering(Answer::NotReady(vec!["controllers".to_owned()]), -10);
    assert_eq!(judge(&checks).tree.message, "not up yet: controllers");
    let failing = answering(Answer::Failing("start the controllers: no disk".to_owned()), -1);
    check(&failing, &format!("daemon=failed {below}"), State::Failed, log);
    assert_eq!(judge(&failing).tree.message, "start the controllers: no disk");
    let other = answering(Answer::Incompatible("v0".to_owned()), -10);
    check(&other, &format!("daemon=failed {below}"), State::Failed, Some("rdd service stop && rdd service start"));
}

#[test]
fn controllers_that_have_not_registered_are_waited_for() {
    let facts = Facts { discovery: Some(Discovery::default()), ..running() };
    assert!(states(&facts).starts_with("daemon=starting "));
    let alone = Facts { discovery: None, ..running() };
    assert!(judge(&alone).tree.message.ends_with("without controllers"), "{:?}", judge(&alone).tree);
}

#[test]
fn without_an_app_nothing_is_wanted() {
    let facts = Facts { app: Known::Absent, vm: Known::Absent, engine: None, ..running() };
    let parts = "daemon=ready app=off machine=off engine=off mirrors=off kubernetes=off";
    check(&facts, parts, State::Off, Some("rdd start"));
    let unreadable =
        Facts { app: Known::Unknown("no".to_owned()), vm: Known::Unknown("no".to_owned()), engine: None, ..running() };
    check(
        &unreadable,
        "daemon=ready app=unknown machine=unknown engine=unknown mirrors=unknown kubernetes=unknown",
        State::Unknown,
        Some("rdd service log"),
    );
}

#[test]
fn an_app_that_is_switched_off_is_settled_but_not_ready() {
    let stopped = mk_condition("Running", "False", "Stopped", "Lima instance is stopped");
    let facts = Facts {
        app: object(json!({"running": false}), vec![settled()]),
        vm: object(json!({"running": false}), vec![stopped]),
        engine: None,
        ..running()
    };
    let parts = "daemon=ready app=off machine=off engine=off mirrors=off kubernetes=off";
    check(&facts, parts, State::Off, Some("rdd start"));
    assert!(judge(&facts).settled);
}

#[test]
fn the_machine_goes_through_its_states() {
    for (wanted, kind, status, reason, machine, engine) in [
        (true, "Running", "False", "Starting", "starting", "waiting"),
        (true, "Running", "Unknown", "Reconciling", "starting", "waiting"),
        (true, "Running", "False", "StartFailed", "failed", "waiting"),
        (true, "Running", "False", "Stopped", "starting", "waiting"),
        (true, "Created", "False", "CreateFailed", "failed", "waiting"),
        (true, "Created", "Unknown", "Pending", "starting", "waiting"),
        (false, "Running", "True", "Started", "stopping", "stopping"),
        (false, "Running", "False", "StopFailed", "failed", "waiting"),
        (false, "Running", "False", "Stopped", "off", "off"),
    ] {
        let unsettled = mk_condition("Settled", "False", reason, "not yet");
        let facts = Facts {
            app: object(json!({"running": wanted}), vec![unsettled]),
            vm: object(json!({"running": wanted}), vec![mk_condition(kind, status, reason, "m")]),
            ..running()
        };
        let report = judge(&facts);
        let state = |id: &str| report.node(id).unwrap().state.word();
        assert_eq!((state("machine"), state("engine")), (machine, engine), "{wanted} {kind} {reason}");
        assert!(!report.ready);
    }
    let absent = Facts { vm: Known::Absent, ..running() };
    assert_eq!(judge(&absent).node("machine").unwrap().state, State::Starting);
}

#[test]
fn what_is_broken_is_helped_before_what_is_on_its_way() {
    let facts = Facts {
        app: object(json!({"running": true}), vec![mk_condition("Settled", "False", "Starting", "not yet")]),
        vm: object(json!({"running": true}), vec![mk_condition("Running", "False", "StartFailed", "m")]),
        ..running()
    };
    assert_eq!(judge(&facts).next.as_deref(), Some("rdd limavm log rd"));
}

#[test]
fn what_speaks_of_older_settings_counts_for_nothing() {
    let Known::Present(mut app) = running().app else { panic!() };
    app["metadata"]["generation"] = 2.into();
    let facts = Facts { app: Known::Present(app), ..running() };
    let report = judge(&facts);
    assert_eq!((report.settled, report.node("app").unwrap().state), (false, State::Starting));
    let Known::Present(mut vm) = running().vm else { panic!() };
    vm["metadata"]["generation"] = 2.into();
    assert_eq!(judge(&Facts { vm: Known::Present(vm), ..running() }).node("machine").unwrap().state, State::Starting);
}

#[test]
fn the_engine_is_ready_when_it_answers_or_its_controller_says_so() {
    let state = |facts: &Facts| {
        let report = judge(facts);
        let word = |id: &str| report.node(id).unwrap().state.word();
        format!("{} {}", word("engine"), word("mirrors"))
    };
    let refused = Facts { engine: Some(Err("refused".to_owned())), ..running() };
    assert_eq!(state(&refused), "starting off");
    assert_eq!(state(&Facts { now: at(100), ..refused }), "failed off");
    let with_mirrors = |list: Vec<Value>| Facts {
        discovery: Some(Discovery { ready: true, controllers: ["engine".to_owned()].into() }),
        app: object(json!({"running": true}), list),
        ..running()
    };
    let engine = |status: &str, reason: &str| mk_condition("ContainerEngineReady", status, reason, "m");
    assert_eq!(state(&with_mirrors(vec![settled()])), "starting waiting");
    assert_eq!(state(&with_mirrors(vec![settled(), engine("True", "Connected")])), "ready ready");
    assert_eq!(state(&with_mirrors(vec![settled(), engine("False", "ConnectFailed")])), "failed waiting");
    let mirrors = Some(Mirrors { containers: 1, images: 12, volumes: 0 });
    let counted = Facts { mirrors, ..with_mirrors(vec![settled(), engine("True", "Connected")]) };
    let report = judge(&counted);
    let node = report.node("mirrors").unwrap();
    assert_eq!((node.message.as_str(), node.since), ("1 container, 12 images, 0 volumes", Some(at(-50))));
    assert_eq!(report.node("engine").unwrap().message, "moby at unix:///run/docker.sock");
    let containerd = json!({"running": true, "containerEngine": {"name": "containerd"}});
    // Finding 295-S5: a part that is not mirrored does not block readiness.
    let facts = Facts {
        app: object(containerd, vec![settled(), engine("Unknown", "NotApplicable")]),
        engine: None,
        ..running()
    };
    assert_eq!(state(&facts), "ready off");
    assert!(judge(&facts).ready);
}

#[test]
fn kubernetes_counts_only_where_it_is_enabled() {
    let enabled = json!({"running": true, "kubernetes": {"enabled": true}});
    let with = |controllers: &[&str], list: Vec<Value>| {
        let facts = Facts {
            discovery: Some(Discovery {
                ready: true,
                controllers: controllers.iter().map(ToString::to_string).collect(),
            }),
            app: object(enabled.clone(), list),
            ..running()
        };
        let report = judge(&facts);
        (report.node("kubernetes").unwrap().state, report.ready)
    };
    let kubernetes = |status: &str, reason: &str| mk_condition("KubernetesReady", status, reason, "m");
    assert_eq!(with(&["app"], vec![settled()]), (State::Failed, false));
    assert_eq!(with(&["kubernetes"], vec![settled()]), (State::Starting, false));
    assert_eq!(with(&["kubernetes"], vec![settled(), kubernetes("False", "Probing")]), (State::Starting, false));
    assert_eq!(with(&["kubernetes"], vec![settled(), kubernetes("False", "MergeFailed")]), (State::Failed, false));
    assert_eq!(with(&["kubernetes"], vec![settled(), kubernetes("True", "Ready")]), (State::Ready, true));
}

// Issue 7: a hint fits the reason, whatever the part.
#[test]
fn what_helps_is_about_the_part_that_failed_and_its_reason() {
    let enabled = json!({"running": true, "backend": "host", "kubernetes": {"enabled": true}});
    let next = |kind: &str, reason: &str| {
        let list = vec![mk_condition(kind, "False", reason, "why"), mk_condition("Settled", "False", reason, "why")];
        let facts = Facts {
            discovery: Some(Discovery { ready: true, controllers: ["engine", "kubernetes"].map(str::to_owned).into() }),
            app: object(enabled.clone(), list),
            places: Places { cluster_log: "/k3s.log".to_owned(), ..running().places },
            ..running()
        };
        let report = judge(&facts);
        assert_eq!(report.state, State::Failed);
        report.next.unwrap()
    };
    for (kind, reason, help) in [
        ("KubernetesReady", "MergeFailed", "kubectl config view --kubeconfig=/home/ann/.kube/config"),
        ("KubernetesReady", "StartFailed", "tail -n 50 /k3s.log"),
        ("KubernetesReady", "DowngradeRefused", "rdd set kubernetes.version=latest"),
        ("KubernetesReady", "CertificatesInvalid", "date"),
        ("ContainerEngineReady", "ConnectFailed", "rdd service log"),
        ("Running", "StartFailed", "rdd limavm log rd"),
    ] {
        assert_eq!(next(kind, reason), help, "{kind} {reason}");
    }
}

#[test]
fn what_is_being_deleted_is_on_its_way_out() {
    let Known::Present(mut app) = running().app else { panic!() };
    app["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let report = judge(&Facts { app: Known::Present(app), ..running() });
    assert_eq!(report.node("app").unwrap().state, State::Stopping);
    assert!(!report.ready);
}
