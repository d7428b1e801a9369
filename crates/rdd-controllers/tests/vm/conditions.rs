//! Every row of the App's table of conditions occurs on an App, and nothing occurs without a row: a row that never occurs is an empty
//! promise.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{Patch, PatchParams, WatchEvent, WatchParams},
};
use rdd_controllers::kubernetes::{prober::Answer, releases::Release};
use rdd_docker::fake::{Effect, Fault as EngineFault, Route};
use rdd_driver::{
    Upstream,
    fake::{Boot, Fault, Op},
};
use rdd_runtime::probe::Unhurt;
use rdd_types::{
    app::App,
    conditions::{ConditionSpec, all},
    names::{DISCOVERY_CONFIG_MAP, SYSTEM_NAMESPACE},
};
use serde_json::{Value, json};

use crate::{
    stage::{Cast, Stage, app_says, condition},
    town::kubeconfig,
};

/// Type, status and reason.
type Triple = (String, String, String);

/// Records every condition that an App ever has.
struct Witness {
    seen: Arc<Mutex<BTreeSet<Triple>>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Witness {
    fn of(stage: &Stage) -> Self {
        let (seen, ends) = (Arc::<Mutex<BTreeSet<Triple>>>::default(), Arc::new(AtomicBool::new(false)));
        let (apps, into, until) = (stage.apps(), Arc::clone(&seen), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(watch(&apps, &into, &until));
        });
        Self { seen, ends, thread: Some(thread) }
    }

    fn end(mut self) -> BTreeSet<Triple> {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

async fn watch(apps: &Api<App>, seen: &Mutex<BTreeSet<Triple>>, ends: &AtomicBool) {
    let mut events = apps.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    loop {
        // Written events arrive at once; silence after the end means that there are no more.
        let next = tokio::time::timeout(Duration::from_millis(200), events.next()).await;
        match next {
            Err(_) if ends.load(Ordering::Relaxed) => return,
            Err(_) => {}
            Ok(Some(Ok(WatchEvent::Added(app) | WatchEvent::Modified(app)))) => {
                let said = app.status.unwrap_or_default().conditions;
                seen.lock().unwrap().extend(said.into_iter().map(|one| (one.type_, one.status, one.reason)));
            }
            Ok(Some(Ok(_))) => {}
            Ok(other) => panic!("the watch ended: {other:?}"),
        }
    }
}

fn triples(spec: &'static ConditionSpec) -> impl Iterator<Item = Triple> {
    spec.reasons.iter().map(|reason| (spec.condition.to_string(), spec.status.to_string(), reason.to_string()))
}

fn patch(stage: &Stage, spec: &Value) {
    stage.try_patch_app(&json!({ "spec": spec })).unwrap();
}

#[track_caller]
fn until(stage: &Stage, kind: &str, what: &str) {
    stage.app_until(&format!("{kind}={what}"), |app| app_says(app, kind, what));
}

#[track_caller]
fn until_settled(stage: &Stage, what: &str) {
    until(stage, "Settled", what);
}

/// Enqueues the App.
fn look(stage: &Stage, word: &str) {
    stage.try_patch_app(&json!({"metadata": {"labels": {"look": word}}})).unwrap();
}

/// A machine that cannot be created, cannot start, starts, loses its controller, and stops in the end.
fn life_of_a_machine(stage: &Stage) {
    let gate = stage.world.hold(Op::Create);
    stage.create_app(true);
    until(stage, "Created", "Unknown/Pending");
    stage.world.fail(Op::Create, Fault::halfway("no space left on device"));
    drop(gate);
    until_settled(stage, "False/CreateFailed");
    stage.world.boot(Boot::Dies("no such device".to_owned()));
    stage.world.works(Op::Create);
    until_settled(stage, "False/StartFailed");
    stage.world.boot(Boot::ByHand);
    until_settled(stage, "False/Starting");
    stage.docker.lock().unwrap().fault(EngineFault::always(Route::ContainerList, Effect::Hang));
    stage.until("the machine", || stage.world.comes_up("rd", rdd_driver::Health::GOOD).then_some(()));
    stage.world.boot(Boot::AtOnce);
    until_settled(stage, "False/Connecting");
    stage.docker.lock().unwrap().crash();
    until_settled(stage, "False/ConnectFailed");
    stage.docker.lock().unwrap().heal();
    stage.docker.lock().unwrap().revive().unwrap();
    until_settled(stage, "True/Settled");
    // The next controller finds the machine as it is.
    stage.kill();
    let gate = stage.world.hold(Op::Adopt);
    stage.start();
    until_settled(stage, "False/Reconciling");
    drop(gate);
    until_settled(stage, "True/Settled");
}

fn life_of_a_cluster(stage: &Stage) {
    until(stage, "KubernetesReady", "False/NotApplicable");
    stage.town.has(Release::Fetching { done: 1, total: Some(2) });
    stage.town.answers(Answer::Failed("refused".into()));
    patch(stage, &json!({"kubernetes": {"enabled": true, "version": "1.34.6"}}));
    until_settled(stage, "False/Downloading");
    stage.town.has(Release::Failed { why: "no route".into(), again: Duration::from_secs(3600) });
    look(stage, "again");
    until_settled(stage, "False/DownloadFailed");
    stage.world.fail(Op::ClusterStart, Fault::before("no space left"));
    stage.town.has(Release::Ready { program: "/k3s".into(), images: Vec::new() });
    look(stage, "once-more");
    until_settled(stage, "False/StartFailed");
    // Finding E-22
    stage.world.clusters_die(Some("no space left"));
    stage.world.works(Op::ClusterStart);
    until_settled(stage, "False/CrashLoopBackOff");
    stage.world.clusters_die(None);
    until_settled(stage, "False/Probing");
    stage.town.answers(Answer::NoNode("No node has registered yet".into()));
    until_settled(stage, "False/WaitingForNode");
    stage.town.refuses(Some("read-only file system"));
    stage.town.forget();
    look(stage, "a-third-time");
    until_settled(stage, "False/MergeFailed");
    stage.town.refuses(None);
    stage.town.answers(Answer::Ready);
    until_settled(stage, "True/Settled");
    stage.clock.set_ahead(-400 * 24 * 3600);
    stage.town.answers(Answer::Failed("certificate is not valid yet".into()));
    until_settled(stage, "False/CertificatesInvalid");
    stage.clock.set_ahead(0);
    stage.town.answers(Answer::Ready);
    look(stage, "a-fourth-time");
    until_settled(stage, "True/Settled");
    stage.world.clusters_need(Some("only root can"));
    stage.world.cluster_dies("rd", "killed");
    until_settled(stage, "False/Unsupported");
    stage.world.clusters_need(None);
    patch(stage, &json!({"kubernetes": {"enabled": false}}));
    until_settled(stage, "True/Settled");
    patch(stage, &json!({"kubernetes": {"enabled": true, "version": "1.33.10"}}));
    until_settled(stage, "False/DowngradeRefused");
}

fn end_of_a_machine(stage: &Stage) {
    let gate = stage.world.hold(Op::Stop);
    patch(stage, &json!({"running": false}));
    until_settled(stage, "False/Started");
    stage.world.fail(Op::Stop, Fault::before("it does not listen"));
    drop(gate);
    until_settled(stage, "False/StopFailed");
    stage.world.works(Op::Stop);
    until_settled(stage, "True/Settled");
    until(stage, "KubernetesReady", "False/NotRunning");
    until(stage, "ContainerEngineReady", "False/Stopped");
    patch(stage, &json!({"running": true, "kubernetes": {"enabled": false}}));
    until_settled(stage, "True/Settled");
    let gate = stage.world.hold(Op::Stop);
    patch(stage, &json!({"containerEngine": {"name": "containerd"}}));
    until_settled(stage, "False/ApplyingTemplate");
    drop(gate);
    until(stage, "ContainerEngineReady", "Unknown/NotApplicable");
    until_settled(stage, "True/Settled");
    let gate = stage.world.hold(Op::Delete);
    stage.delete_app();
    until_settled(stage, "False/WaitingForLimaVM");
    drop(gate);
    stage.until_nothing_is_left();
}

/// Registers these controllers, because Settled looks for its peers in the registry and managers of tests do not register.
pub(crate) fn announce(stage: &Stage, controllers: &[&str]) {
    let value = json!({ "enabledControllers": controllers }).to_string();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": DISCOVERY_CONFIG_MAP}, "data": {"test": value}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}});
    let (namespaces, maps): (Api<Namespace>, _) = (Api::all(stage.client.clone()), stage.maps(SYSTEM_NAMESPACE));
    let parameters = PatchParams::apply("test").force();
    stage.block(namespaces.patch(SYSTEM_NAMESPACE, &parameters, &Patch::Apply(&namespace))).unwrap();
    stage.block(maps.patch(DISCOVERY_CONFIG_MAP, &parameters, &Patch::Apply(&map))).unwrap();
}

/// Sets a condition of the App, as the controller of this condition would.
fn say(stage: &Stage, condition: &str, status: &str, reason: &str, generation: i64) {
    let said = json!({"type": condition, "status": status, "reason": reason, "message": "said by a test",
                      "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation});
    let whole =
        json!({"apiVersion": "app.rancherdesktop.io/v1alpha1", "kind": "App", "status": {"conditions": [said]}});
    let parameters = PatchParams::apply(&format!("test-{condition}")).force();
    stage.block(stage.apps().patch_status("app", &parameters, &Patch::Apply(&whole))).unwrap();
}

/// Settled for every condition of the other controllers. Some states are too short to observe, so the other controllers are slow here.
fn slow_neighbours(stage: &Stage) {
    announce(stage, &["engine", "kubernetes"]);
    stage.create_app(true);
    until_settled(stage, "False/WaitingForEngine");
    let generation = || stage.app().unwrap().metadata.generation.unwrap();
    for row in all().filter(|row| row.controller == "engine") {
        say(stage, "ContainerEngineReady", row.status.as_str(), row.reason().as_str(), generation());
        let is_final = row.status.as_str() != "False";
        let expected = if is_final { "True/Settled".to_owned() } else { format!("False/{}", row.reason()) };
        until_settled(stage, &expected);
    }
    patch(stage, &json!({"kubernetes": {"enabled": true, "version": "1.34.6"}}));
    until_settled(stage, "False/EngineStale");
    say(stage, "ContainerEngineReady", "True", "Connected", generation());
    until_settled(stage, "False/WaitingForKubernetes");
    for row in all().filter(|row| row.controller == "kubernetes") {
        say(stage, "KubernetesReady", row.status.as_str(), row.reason().as_str(), generation());
        let is_ready = row.status.as_str() == "True";
        let expected = if is_ready { "True/Settled".to_owned() } else { format!("False/{}", row.reason()) };
        until_settled(stage, &expected);
    }
    say(stage, "KubernetesReady", "True", "Ready", generation() - 1);
    until_settled(stage, "False/KubernetesStale");
}

// Finding 361-S1
#[test]
fn every_row_of_the_apps_conditions_is_seen_and_nothing_else_is() {
    let mut seen = BTreeSet::new();
    {
        let stage = Stage::dark(Cast::Whole, Arc::new(Unhurt));
        stage.world.cluster_serves(Some(&kubeconfig(365)), Some(Upstream::unix("/nonexistent/k3s.sock")));
        stage.start();
        announce(&stage, &["engine", "kubernetes"]);
        let witness = Witness::of(&stage);
        life_of_a_machine(&stage);
        life_of_a_cluster(&stage);
        end_of_a_machine(&stage);
        seen.extend(witness.end());
    }
    let real = seen.clone();
    {
        let stage = Stage::new();
        let witness = Witness::of(&stage);
        slow_neighbours(&stage);
        // The test itself wrote these two conditions.
        let is_computed = |one: &Triple| one.0 == "Settled";
        seen.extend(witness.end().into_iter().filter(is_computed));
    }
    let of_an_app = all().filter(|row| matches!(row.controller, "limavm" | "engine" | "kubernetes" | "app"));
    let told: BTreeSet<Triple> = of_an_app.flat_map(triples).collect();
    let missing: Vec<_> = told.difference(&seen).collect();
    let unknown: Vec<_> = seen.difference(&told).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "never seen: {missing:?}; in no row: {unknown:?}");
    println!("{} rows, {} of them with every controller at work", told.len(), real.len());
}

/// A message is that of its row: either equal, or with the fixed words of the row.
#[test]
fn what_is_said_of_an_app_that_runs_is_what_the_reference_says() {
    let stage = Stage::dark(Cast::Whole, Arc::new(Unhurt));
    stage.start();
    let written = stage.create_app(true);
    let app = stage.app_until_settled(&written);
    let reference = rdd_types::conditions::reference::conditions();
    for kind in ["Created", "Running", "ContainerEngineReady", "KubernetesReady", "Settled"] {
        let one = condition(&app.status.as_ref().unwrap().conditions, kind).unwrap().clone();
        let row = format!("| {} | `{}` | `{}` |", one.status, one.reason, one.message);
        assert!(reference.contains(&row), "{kind}: {row}");
    }
}
