//! Tests of Kubernetes with App, LimaVM and a fake machine room, over a real API.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use kube::api::{DeleteParams, PostParams};
use rdd_controllers::kubernetes::{self, contexts::Files, plan::Step, prober::Answer, releases::Release};
use rdd_driver::{ClusterFound, Upstream};
use rdd_instance::{Environment, Instance, Platform};
use rdd_runtime::{
    Step as _,
    probe::{Point, Probe, Unhurt, Verdict, When},
};
use rdd_stdx::clock::Clock as _;
use rdd_types::{app::App, names::annotation};
use serde_json::{Value, json};

use crate::{
    conditions::announce,
    stage::{Cast, NAMESPACE, PATIENCE, Stage, app_says, condition},
    town::{founded, kubeconfig},
};

const VERSION: &str = "v1.34.6+k3s1";

fn stage(probe: Arc<dyn Probe>) -> Stage {
    let stage = Stage::dark(Cast::All, probe);
    stage.world.cluster_serves(Some(&kubeconfig(365)), Some(Upstream::unix("/nonexistent/k3s.sock")));
    stage.start();
    stage
}

fn enabled(stage: &Stage) -> App {
    stage.create_app(true);
    stage.try_patch_app(&json!({"spec": {"kubernetes": {"enabled": true}}})).unwrap();
    until(stage, "True/Ready")
}

#[track_caller]
fn until(stage: &Stage, what: &str) -> App {
    stage.app_until(what, |app| app_says(app, "KubernetesReady", what))
}

fn message(app: &App) -> String {
    condition(&app.status.as_ref().unwrap().conditions, "KubernetesReady").unwrap().message.clone()
}

fn port(app: &App) -> u16 {
    u16::try_from(app.status.as_ref().unwrap().kubernetes_port).unwrap()
}

fn running() -> ClusterFound {
    ClusterFound::Running { version: VERSION.to_owned() }
}

// Finding 355-I2, 355-S2, 361-T1, O-7
#[test]
fn it_comes_up_is_published_and_goes_without_a_restart_of_the_machine() {
    let stage = stage(Arc::new(Unhurt));
    stage.create_app(true);
    until(&stage, "False/NotApplicable");
    assert_eq!(stage.town.counts(), (0, 0), "what is disabled touches nothing");
    let starts = stage.world.starts("rd");
    let app = enabled_now(&stage);
    let port = port(&app);
    assert_eq!((stage.town.published(), stage.world.cluster("rd")), (Some(port), running()));
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok(), "somebody listens");
    stage.until("the choice", || (stage.town.counts().1 > 0).then_some(()));
    stage.try_patch_app(&json!({"spec": {"kubernetes": {"enabled": false}}})).unwrap();
    let app = until(&stage, "False/NotApplicable");
    assert_eq!((self::port(&app), stage.town.published()), (0, None));
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    assert_eq!(stage.world.cluster("rd"), ClusterFound::Stopped { version: VERSION.to_owned() });
    assert_eq!(stage.world.starts("rd"), starts.max(1), "the machine was not restarted");
}

// Issue 7: enabling Kubernetes restarts no VM, although the changed template takes effect at the guest's next boot.
#[test]
fn a_virtual_machine_gets_and_loses_it_without_a_restart_and_is_told_at_its_next_boot() {
    let stage = stage(Arc::new(Unhurt));
    create_lima_app(&stage);
    let app = enabled_now(&stage);
    let app = stage.app_until_settled(&app);
    let line = format!("KUBERNETES_PORT: {}", port(&app));
    let template = || {
        let map = stage.block(stage.maps(NAMESPACE).get("rd-template")).unwrap();
        map.data.unwrap().remove("template").unwrap()
    };
    stage.until("the template", || template().contains(&line).then_some(()));
    let app = stage.try_patch_app(&json!({"spec": {"kubernetes": {"enabled": false}}})).unwrap();
    stage.app_until_settled(&app);
    stage.until("the template", || template().contains("KUBERNETES_ENABLED: false").then_some(()));
    assert_eq!(stage.world.starts("rd"), 1, "the machine was started once");
    let app = stage.try_patch_app(&json!({"spec": {"virtualMachine": {"cpus": 3}}})).unwrap();
    stage.app_until_settled(&app);
    assert_eq!(stage.world.starts("rd"), 2, "what only a restart can change makes one");
}

fn enabled_now(stage: &Stage) -> App {
    stage.try_patch_app(&json!({"spec": {"kubernetes": {"enabled": true}}})).unwrap();
    until(stage, "True/Ready")
}

// Finding 355-I1
#[test]
fn the_port_and_the_cluster_survive_a_controller_that_is_killed() {
    let stage = stage(Arc::new(Unhurt));
    let before = port(&enabled(&stage));
    let starts = stage.world.cluster_starts("rd");
    stage.restart();
    stage.until("the port", || std::net::TcpStream::connect(("127.0.0.1", before)).ok());
    let app = until(&stage, "True/Ready");
    assert_eq!((port(&app), stage.world.cluster_starts("rd")), (before, starts));
}

#[test]
fn what_the_cluster_answers_is_what_is_said() {
    let stage = stage(Arc::new(Unhurt));
    stage.town.answers(Answer::Failed("refused".into()));
    stage.create_app(true);
    stage.try_patch_app(&json!({"spec": {"kubernetes": {"enabled": true}}})).unwrap();
    let app = until(&stage, "False/Probing");
    assert_eq!(message(&app), "Waiting for k3s API server");
    stage.town.answers(Answer::NoNode("No node has registered yet".into()));
    assert_eq!(message(&until(&stage, "False/WaitingForNode")), "No node has registered yet");
    assert!(stage.town.published().is_some(), "who wants to look why can");
    stage.town.answers(Answer::Ready);
    until(&stage, "True/Ready");
    stage.try_patch_app(&json!({"spec": {"running": false}})).unwrap();
    let app = until(&stage, "False/NotRunning");
    assert_ne!(port(&app), 0, "it is held as long as Kubernetes is enabled");
    stage.until("nothing to be published", || stage.town.published().is_none().then_some(()));
}

/// Creates an App with a Lima machine: only its template names the port.
fn create_lima_app(stage: &Stage) {
    let spec = json!({"running": true, "namespace": NAMESPACE, "backend": "lima"});
    let app = serde_json::from_value(json!({"metadata": {"name": "app"}, "spec": spec})).unwrap();
    let app = stage.block(stage.apps().create(&PostParams::default(), &app)).unwrap();
    stage.app_until_settled(&app);
}

/// The port in the App's template; `None` while Kubernetes is disabled.
fn template_port(stage: &Stage) -> Option<u16> {
    let map = stage.block(stage.maps(NAMESPACE).get("rd-template")).unwrap();
    let text = map.data.unwrap().remove("template").unwrap();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("KUBERNETES_PORT: "));
    line.map(|port| port.parse().unwrap())
}

/// Waits until status, kubeconfig, template and listener have the same port, and returns it.
#[track_caller]
fn until_ports_agree(stage: &Stage) -> u16 {
    let port = port(&until(stage, "True/Ready"));
    stage.until("the ports to agree", || {
        let found = (stage.town.published(), template_port(stage));
        (found == (Some(port), Some(port))).then_some(())
    });
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok(), "{port} is bound");
    assert_eq!(self::port(&stage.app().unwrap()), port);
    port
}

/// Reads the status, changes its own part and replaces all of it, like a client that knows only GET and PUT.
fn write_status(stage: &Stage, round: u32) {
    let label = format!("{round}");
    stage.until("a write of the status", || {
        let mut app = stage.app().unwrap();
        let status = app.status.as_mut().unwrap();
        status.conditions.retain(|one| one.type_ != "Other");
        let mut own = status.conditions[0].clone();
        (own.type_, own.reason, own.message) = ("Other".to_owned(), "Round".to_owned(), label.clone());
        status.conditions.push(own);
        match stage.block(stage.apps().replace_status("app", &PostParams::default(), &app)) {
            Ok(_) => Some(()),
            Err(kube::Error::Api(status)) if status.code == 409 => None,
            Err(error) => panic!("{error}"),
        }
    });
}

// Finding 355-I1, 355-T1
#[test]
fn template_kubeconfig_and_status_agree_when_the_first_port_is_taken_over_toggles_restarts_and_other_writers() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let first = taken.local_addr().unwrap().port();
    let stage = Stage::dark(Cast::All, Arc::new(Unhurt));
    stage.world.cluster_serves(Some(&kubeconfig(365)), Some(Upstream::unix("/nonexistent/k3s.sock")));
    stage.town.prefers(first);
    stage.start();
    create_lima_app(&stage);
    for cycle in 0..3 {
        enabled_now(&stage);
        let port = until_ports_agree(&stage);
        assert_ne!(port, first, "somebody else has it");
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (0..20).for_each(|round| write_status(&stage, round)));
            stage.restart();
            writer.join().unwrap();
        });
        assert_eq!(until_ports_agree(&stage), port, "the port that is there is kept, in cycle {cycle}");
        stage.try_patch_app(&json!({"spec": {"kubernetes": {"enabled": false}}})).unwrap();
        let app = until(&stage, "False/NotApplicable");
        assert_eq!((self::port(&app), stage.town.published()), (0, None));
        stage.until("a template without a port", || template_port(&stage).is_none().then_some(()));
    }
    drop(taken);
    enabled_now(&stage);
    assert_eq!(until_ports_agree(&stage), first, "chosen afresh");
}

/// The files of an instance in this home directory.
fn files(home: &std::path::Path) -> Arc<Files> {
    let environment = Environment { home: Some(home.as_os_str().to_owned()), ..Environment::default() };
    let instance = Instance::resolve(&environment, Platform::Linux).unwrap();
    Arc::new(Files::of(&instance, &environment))
}

// Finding 361-S2
#[test]
fn a_kubeconfig_that_cannot_be_written_gives_merge_failed_reaches_settled_and_heals() {
    let home = tempfile::tempdir().unwrap();
    // Not by permissions, so that it also fails for root.
    std::fs::write(home.path().join(".kube"), "in the way").unwrap();
    let stage = Stage::dark(Cast::All, Arc::new(Unhurt));
    stage.world.cluster_serves(Some(&kubeconfig(365)), Some(Upstream::unix("/nonexistent/k3s.sock")));
    stage.town.publishes_to(files(home.path()));
    stage.start();
    announce(&stage, &["kubernetes"]);
    stage.create_app(true);
    stage.try_patch_app(&json!({"spec": {"kubernetes": {"enabled": true}}})).unwrap();
    let message = message(&until(&stage, "False/MergeFailed"));
    assert!(message.starts_with("Failed to publish Kubernetes context: ") && message.contains(".kube"), "{message}");
    let app = stage.app_until("Settled", |app| app_says(app, "Settled", "False/MergeFailed"));
    assert_eq!(condition(&app.status.as_ref().unwrap().conditions, "Settled").unwrap().message, message);
    std::fs::remove_file(home.path().join(".kube")).unwrap();
    let app = until(&stage, "True/Ready");
    stage.app_until_settled(&app);
    let published = std::fs::read_to_string(home.path().join(".kube/config")).unwrap();
    assert!(published.contains(&format!("https://127.0.0.1:{}", port(&app))), "{published}");
}

// Finding 361-S2: without a kubeconfig of the cluster nothing can be published, so the cluster is not ready.
#[test]
fn a_cluster_without_a_kubeconfig_is_not_ready_not_settled_and_not_published_until_it_has_one() {
    let stage = Stage::dark(Cast::All, Arc::new(Unhurt));
    stage.world.cluster_serves(None, Some(Upstream::unix("/nonexistent/k3s.sock")));
    stage.start();
    announce(&stage, &["kubernetes"]);
    stage.create_app(true);
    stage.try_patch_app(&json!({"spec": {"kubernetes": {"enabled": true}}})).unwrap();
    until(&stage, "False/Probing");
    stage.app_until("Settled", |app| app_says(app, "Settled", "False/Probing"));
    assert_eq!((stage.town.published(), stage.town.counts().0), (None, 0));
    stage.world.cluster_serves(Some(&kubeconfig(365)), Some(Upstream::unix("/nonexistent/k3s.sock")));
    stage.try_patch_app(&json!({"metadata": {"labels": {"look": "again"}}})).unwrap();
    let app = until(&stage, "True/Ready");
    stage.app_until_settled(&app);
    assert_eq!(stage.town.published(), Some(port(&app)));
}

// Finding 361-S2, 361-S3
#[test]
fn a_context_that_cannot_be_published_is_told_and_tried_again() {
    let stage = stage(Arc::new(Unhurt));
    stage.town.refuses(Some("read-only file system"));
    stage.create_app(true);
    stage.try_patch_app(&json!({"spec": {"kubernetes": {"enabled": true}}})).unwrap();
    let app = until(&stage, "False/MergeFailed");
    assert_eq!(message(&app), "Failed to publish Kubernetes context: read-only file system");
    stage.town.refuses(None);
    until(&stage, "True/Ready");
}

#[test]
fn one_that_dies_is_told_with_its_last_words_and_started_again() {
    let stage = stage(Arc::new(Unhurt));
    enabled(&stage);
    stage.world.clusters_die(Some("no space left"));
    stage.world.cluster_dies("rd", "killed");
    let app = stage.app_until("its last words", |app| {
        // Finding E-22
        app_says(app, "KubernetesReady", "False/CrashLoopBackOff")
            && message(app).ends_with("in the same way: no space left")
    });
    assert!(app.status.is_some());
    stage.world.clusters_die(None);
    until(&stage, "True/Ready");
}

#[test]
fn releases_are_got_and_newer_ones_replace_older_ones() {
    let stage = stage(Arc::new(Unhurt));
    stage.town.has(Release::Fetching { done: 1 << 20, total: Some(4 << 20) });
    stage.create_app(true);
    stage.try_patch_app(&json!({"spec": {"kubernetes": {"enabled": true, "version": "1.33.10"}}})).unwrap();
    assert_eq!(message(&until(&stage, "False/Downloading")), "Downloading Kubernetes v1.33.10+k3s1: 25% of 4 MiB");
    stage.town.has(Release::Failed { why: "no route".into(), again: Duration::from_secs(3600) });
    stage.try_patch_app(&json!({"metadata": {"labels": {"look": "again"}}})).unwrap();
    assert_eq!(
        message(&until(&stage, "False/DownloadFailed")),
        "Failed to download Kubernetes v1.33.10+k3s1: no route"
    );
    stage.town.has(Release::Absent);
    stage.try_patch_app(&json!({"metadata": {"labels": {"look": "once-more"}}})).unwrap();
    until(&stage, "True/Ready");
    stage.try_patch_app(&json!({"spec": {"kubernetes": {"version": "stable"}}})).unwrap();
    stage.until("the newer one", || (stage.world.cluster("rd") == running()).then_some(()));
    until(&stage, "True/Ready");
    stage.try_patch_app(&json!({"spec": {"kubernetes": {"enabled": false}}})).unwrap();
    until(&stage, "False/NotApplicable");
    stage.try_patch_app(&json!({"spec": {"kubernetes": {"enabled": true, "version": "1.33.10"}}})).unwrap();
    assert!(message(&until(&stage, "False/DowngradeRefused")).contains(VERSION));
}

const DAY: i64 = 24 * 3600;

/// Enqueues the App, and returns when the controller has reported this.
#[track_caller]
fn look(stage: &Stage, word: &str, says: &str) {
    let app = stage.try_patch_app(&json!({"spec": {"application": {"updates": {"enabled": word == "odd"}}}})).unwrap();
    let generation = app.metadata.generation;
    stage.app_until(says, |app| {
        let status = app.status.clone().unwrap_or_default();
        let one = condition(&status.conditions, "KubernetesReady").filter(|one| one.observed_generation >= generation);
        one.is_some_and(|one| format!("{}/{}", one.status, one.reason) == says)
    });
}

#[test]
fn certificates_that_are_about_to_end_are_renewed_once_and_a_clock_that_is_off_changes_nothing() {
    let stage = stage(Arc::new(Unhurt));
    enabled(&stage);
    let starts = || stage.world.cluster_starts("rd");
    let first = starts();
    // A machine with a clock in another century, and one that slept for a night.
    for (word, ahead) in [("odd", -20_000 * DAY), ("even", 0), ("odd", DAY / 3), ("even", 300 * DAY)] {
        stage.clock.set_ahead(ahead);
        look(&stage, word, "True/Ready");
        assert_eq!(starts(), first, "{ahead} s ahead");
    }
    stage.clock.set_ahead(340 * DAY);
    stage.try_patch_app(&json!({"metadata": {"labels": {"look": "near-the-end"}}})).unwrap();
    stage.until("the restart", || (starts() == first + 1).then_some(()));
    until(&stage, "True/Ready");
    // The new certificates end like the old ones: a restart does not help and is not repeated, also not after they end or the clock is
    // set back.
    for (word, ahead) in [("odd", 341 * DAY), ("even", 400 * DAY), ("odd", 0)] {
        stage.clock.set_ahead(ahead);
        look(&stage, word, "True/Ready");
        assert_eq!(starts(), first + 1, "{ahead} s ahead");
    }
    // Certificates with a later end are renewed when their time comes.
    stage.world.cluster_serves(Some(&kubeconfig(700)), Some(Upstream::unix("/nonexistent/k3s.sock")));
    stage.clock.set_ahead(500 * DAY);
    look(&stage, "even", "True/Ready");
    assert_eq!(starts(), first + 1);
    stage.clock.set_ahead(690 * DAY);
    stage.try_patch_app(&json!({"metadata": {"labels": {"look": "near-the-next-end"}}})).unwrap();
    stage.until("the next restart", || (starts() == first + 2).then_some(()));
    until(&stage, "True/Ready");
}

/// Serves a cluster whose certificates become valid in this many days, and which does not answer before.
fn of_the_future(stage: &Stage, days: u64) {
    let (config, authority) = founded(days, 365);
    stage.world.cluster_serves(Some(&config), Some(Upstream::unix("/nonexistent/k3s.sock")));
    stage.world.clusters_stand_on(Some(&authority));
    stage.town.answers(Answer::Failed("certificate is not valid yet".into()));
}

/// Gives new clusters valid certificates. An existing cluster keeps its own, so the valid ones are served only after it was recreated, which
/// `wait` waits for.
fn of_today(stage: &Stage, wait: impl FnOnce(&dyn Fn(&Stage) -> Option<()>)) {
    let (config, authority) = founded(0, 365);
    stage.world.clusters_stand_on(Some(&authority));
    wait(&|stage| (stage.world.cluster_stands_on("rd").as_deref() == Some(&*authority)).then_some(()));
    stage.world.cluster_serves(Some(&config), Some(Upstream::unix("/nonexistent/k3s.sock")));
    stage.town.answers(Answer::Ready);
}

// Issue 7: a guest clock that is off.
#[test]
fn a_cluster_that_was_made_in_the_future_is_made_anew_as_long_as_nobody_can_have_used_it() {
    let stage = stage(Arc::new(Unhurt));
    of_the_future(&stage, 400);
    stage.create_app(true);
    stage.try_patch_app(&json!({"spec": {"kubernetes": {"enabled": true}}})).unwrap();
    let resets = || stage.world.calls_of("rd").iter().filter(|call| **call == "cluster_reset").count();
    stage.until("it to be made anew", || (resets() >= 2).then_some(()));
    let app = stage.app_until("a word", |app| app_says(app, "KubernetesReady", "False/StartFailed"));
    assert!(message(&app).ends_with("nobody has used the cluster yet, so it is made anew"), "{}", message(&app));
    assert_eq!(stage.town.counts().0, 0, "nobody was told of it");
    of_today(&stage, |is_so| stage.until("one of today", || is_so(&stage)));
    until(&stage, "True/Ready");
    let (starts, before) = (stage.world.cluster_starts("rd"), resets());
    // From now on a user may have used the cluster: it is not recreated, whatever the clock shows, and recovers with the clock.
    stage.clock.set_ahead(-400 * DAY);
    stage.town.answers(Answer::Failed("certificate is not valid yet".into()));
    let app = until(&stage, "False/CertificatesInvalid");
    assert!(message(&app).contains("rdd reset --kubernetes"), "{}", message(&app));
    look(&stage, "odd", "False/CertificatesInvalid");
    // It is not started either, if it does not run.
    stage.world.cluster_dies("rd", "certificate is not valid yet");
    look(&stage, "even", "False/CertificatesInvalid");
    look(&stage, "odd", "False/CertificatesInvalid");
    assert_eq!((stage.world.cluster_starts("rd"), resets()), (starts, before));
    stage.clock.set_ahead(0);
    stage.town.answers(Answer::Ready);
    stage.try_patch_app(&json!({"metadata": {"labels": {"look": "again"}}})).unwrap();
    until(&stage, "True/Ready");
    assert_eq!(resets(), before);
}

#[test]
fn what_a_machine_cannot_have_is_told_with_the_remedy_and_comes_when_it_can() {
    let stage = stage(Arc::new(Unhurt));
    stage.world.clusters_need(Some("only root can"));
    stage.create_app(true);
    stage.try_patch_app(&json!({"spec": {"kubernetes": {"enabled": true}}})).unwrap();
    assert_eq!(message(&until(&stage, "False/Unsupported")), "only root can; do without");
    stage.world.clusters_need(None);
    stage.try_patch_app(&json!({"metadata": {"labels": {"look": "again"}}})).unwrap();
    until(&stage, "True/Ready");
}

#[test]
fn after_a_sleep_it_may_miss_two_answers_and_goes_on_with_the_same_port_and_cluster() {
    let stage = stage(Arc::new(Unhurt));
    let before = port(&enabled(&stage));
    let starts = stage.world.cluster_starts("rd");
    stage.clock.set_ahead(DAY / 3);
    stage.town.misses(2);
    stage.until("both to be missed", || (stage.town.missed() == 0).then_some(()));
    look(&stage, "odd", "True/Ready");
    let app = until(&stage, "True/Ready");
    assert_eq!((port(&app), stage.world.cluster_starts("rd")), (before, starts));
    let status = app.status.unwrap();
    let since = &condition(&status.conditions, "KubernetesReady").unwrap().last_transition_time;
    assert!(since.0.as_second() < stage.clock.wall().as_secs().cast_signed() - DAY / 4, "it was ready all the time");
}

/// Dies once, at this kill point.
#[derive(Debug)]
struct Deadly {
    step: &'static str,
    when: When,
    has_struck: AtomicBool,
}

impl Probe for Deadly {
    fn at(&self, point: Point<'_>) -> Verdict {
        let is_here = (point.controller, point.step, point.when) == (kubernetes::NAME, self.step, self.when);
        let dies = is_here && !self.has_struck.swap(true, Ordering::SeqCst);
        if dies { Verdict::Die } else { Verdict::Go }
    }
}

/// A life cycle with every step; killed controllers are restarted.
struct Life(Stage);

impl Life {
    #[track_caller]
    fn until<T>(&self, what: &str, mut probe: impl FnMut(&Stage) -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if self.0.is_dead() {
                self.0.restart();
            }
            if let Some(found) = probe(&self.0) {
                return found;
            }
            assert!(begin.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}: {:#?}", self.0.app());
            std::thread::yield_now();
        }
    }

    fn write(&self, what: &str, patch: &Value) {
        self.until(what, |stage| stage.try_patch_app(patch).ok());
    }

    fn says(&self, what: &str) {
        self.until(what, |stage| app_says(&stage.app()?, "KubernetesReady", what).then_some(()));
    }

    fn live(&self) {
        self.0.create_app(true);
        // A clock that was ahead when the cluster was created.
        of_the_future(&self.0, 400);
        self.write("enabling", &json!({"spec": {"kubernetes": {"enabled": true}}}));
        self.until("it to be made anew", |stage| stage.world.calls_of("rd").contains(&"cluster_reset").then_some(()));
        of_today(&self.0, |is_so| self.until("one of today", is_so));
        self.says("True/Ready");
        self.until("the choice", |stage| (stage.town.counts().1 > 0).then_some(()));
        // Certificates that end soon cause one restart.
        let starts = self.0.world.cluster_starts("rd");
        self.0.world.cluster_serves(Some(&kubeconfig(20)), Some(Upstream::unix("/nonexistent/k3s.sock")));
        self.write("a look", &json!({"metadata": {"labels": {"look": "again"}}}));
        self.until("the restart", |stage| (stage.world.cluster_starts("rd") > starts).then_some(()));
        self.says("True/Ready");
        let reset = json!({"metadata": {"annotations": {annotation::RESET_KUBERNETES: "now"}}});
        self.write("a reset", &reset);
        self.until("the request to be taken", |stage| {
            let annotations = stage.app()?.metadata.annotations.unwrap_or_default();
            (!annotations.contains_key(annotation::RESET_KUBERNETES)).then_some(())
        });
        self.says("True/Ready");
        assert!(self.0.world.calls_of("rd").contains(&"cluster_reset"));
        self.write("disabling", &json!({"spec": {"kubernetes": {"enabled": false}}}));
        self.says("False/NotApplicable");
        self.until("everything to be gone", |stage| {
            let is_off = !stage.world.cluster("rd").is_running() && stage.town.published().is_none();
            (is_off && stage.app()?.status?.kubernetes_port == 0).then_some(())
        });
        self.write("enabling again", &json!({"spec": {"kubernetes": {"enabled": true}}}));
        self.says("True/Ready");
        self.until("the delete", |stage| stage.block(stage.apps().delete("app", &DeleteParams::default())).ok());
        self.until("nothing to be left", |stage| {
            (stage.remains().is_empty() && stage.town.published().is_none()).then_some(())
        });
    }
}

#[test]
fn killed_before_and_after_each_step_it_converges_and_leaves_nothing_behind() {
    let mut points = 0;
    for step in Step::ALL {
        for when in [When::Before, When::After] {
            let probe = Arc::new(Deadly { step, when, has_struck: AtomicBool::new(false) });
            Life(stage(Arc::clone(&probe) as Arc<dyn Probe>)).live();
            assert!(probe.has_struck.load(Ordering::SeqCst), "{step} never happened");
            points += 1;
        }
    }
    println!("{points} kill points of Kubernetes");
    assert_eq!(points, 2 * Step::ALL.len());
}
