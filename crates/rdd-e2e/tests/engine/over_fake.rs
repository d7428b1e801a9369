//! Tests the real binary with a fake engine: clocks that differ by hours, old and new engines, thousands of objects, the cost of an event.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use jiff::SignedDuration;
use rdd_docker::fake::{Effect, FakeEngine, Fault, NewContainer, Route};
use rdd_testkit::{Daemon, Sandbox, eventually};
use rdd_types::{CustomResourceExt, app::App};
use serde_json::{Value, json};

use crate::{
    agree::{image_name, until_they_agree},
    docker::Docker,
    product::{APP, Api, Product, SOON},
};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAMESPACE: &str = "mirrored";

/// A daemon that runs only the controllers of containers. The test reports that the VM runs, and a fake is its engine.
pub(crate) struct Scene {
    // Dropped first, so that the daemon disconnects before the engine ends.
    pub(crate) product: Product,
    pub(crate) engine: FakeEngine,
}

impl Scene {
    /// Creates a fake engine that `prepare` fills; the daemon does not know of it yet.
    pub(crate) fn new(prepare: impl FnOnce(&FakeEngine)) -> Self {
        Self::in_sandbox(Sandbox::builder().env("RDD_LOG_LEVEL", "debug").build(), prepare)
    }

    pub(crate) fn in_sandbox(sandbox: Sandbox, prepare: impl FnOnce(&FakeEngine)) -> Self {
        // The CRDs and the App exist before any controller that watches them runs.
        let bare = Daemon::start_bare_in(sandbox);
        let api = Api::of(&bare);
        api.create(DEFINITIONS, &serde_json::to_value(App::crd()).unwrap());
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        api.create("/api/v1/namespaces", &space);
        let app = json!({"apiVersion": "app.rancherdesktop.io/v1alpha1", "kind": "App", "metadata": {"name": "app"},
                         "spec": {"namespace": NAMESPACE, "running": true}});
        api.create("/apis/app.rancherdesktop.io/v1alpha1/apps", &app);
        let sandbox = bare.stop();
        sandbox.rdd(&["svc", "start", "--controllers=containers"]).expect_success();
        let daemon = Daemon::start_in(sandbox);
        let socket = daemon.path("docker_socket");
        fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let engine = FakeEngine::start(&socket).unwrap();
        prepare(&engine);
        Self { product: Product::around(daemon), engine }
    }

    /// Reports in the App's status that the VM runs.
    pub(crate) fn say_it_runs(&self) {
        let running = json!({"type": "Running", "status": "True", "reason": "Started", "message": "It runs",
                             "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1});
        self.product.api.merge(&format!("{APP}/status"), &json!({"status": {"conditions": [running]}}));
    }

    /// Reports that the VM runs, and waits until everything is mirrored.
    pub(crate) fn run(&self) {
        self.say_it_runs();
        eventually("everything to be mirrored", SOON * 3, || match self.product.condition("ContainerEngineReady") {
            Some((status, _)) if status == "True" => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }

    pub(crate) fn until_they_agree(&self) {
        let docker = Docker::at(self.engine.socket());
        until_they_agree(&docker, &self.product.api, NAMESPACE, SOON);
    }

    /// The number of writes that the API has committed.
    fn writes(&self) -> i64 {
        let list = self.product.api.get(&format!("{}?limit=1", self.product.mirrors("volumes")));
        list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    }

    fn log(&self) -> String {
        let folder: PathBuf = self.product.path("log_dir");
        let files = fs::read_dir(folder).unwrap().flatten();
        files.filter_map(|file| fs::read_to_string(file.path()).ok()).collect()
    }
}

fn small(engine: &FakeEngine) {
    engine.fill(3, 2).unwrap();
}

// Finding 295-S1
#[test]
fn with_the_engines_clock_hours_away_no_event_is_lost() {
    for hours in [-5, 5] {
        let scene = Scene::new(|engine| {
            small(engine);
            engine.set_clock_ahead(SignedDuration::from_hours(hours));
            // The event stream starts late. Between the lists and its start something happens, which only past events report.
            engine.fault(Fault::always(Route::Events, Effect::Delay(Duration::from_millis(500))));
            let once = std::sync::Once::new();
            engine.before(Route::ContainerInspect, move |world, _| {
                once.call_once(|| {
                    world.create_container(NewContainer::sleeper("late", "filled/image-0:1")).unwrap();
                });
            });
        });
        scene.run();
        scene.until_they_agree();
        assert!(scene.engine.change(|world| world.find_container("late")).is_ok());
    }
}

// Finding 295-D2
#[test]
fn clocks_that_are_apart_are_warned_about_and_others_are_not() {
    let says_so = |hours: i64| {
        let scene = Scene::new(|engine| {
            small(engine);
            engine.set_clock_ahead(SignedDuration::from_hours(hours));
        });
        scene.run();
        scene.log().contains("the engine's clock and this machine's are apart")
    };
    assert!(says_so(3));
    assert!(says_so(-3));
    assert!(!says_so(0));
}

// Finding 295-S8
#[test]
fn engines_old_and_new_are_mirrored_and_older_ones_are_refused() {
    for (oldest, newest) in [(12, 41), (24, 47), (44, 54), (44, 99)] {
        let scene = Scene::new(|engine| {
            small(engine);
            engine.set_versions(oldest, newest);
            engine.change(|world| world.import_image(None, BTreeMap::new())).unwrap();
        });
        scene.run();
        scene.until_they_agree();
        scene.engine.change(|world| world.start_container("filled-0")).unwrap();
        scene.until_they_agree();
    }
    let scene = Scene::new(|engine| engine.set_versions(12, 40));
    scene.say_it_runs();
    eventually("the engine to be refused", SOON, || {
        let app = scene.product.api.get(APP);
        let all = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let said = all.into_iter().find(|one| one["type"] == "ContainerEngineReady").unwrap_or(Value::Null);
        let refused =
            said["reason"] == "ConnectFailed" && said["message"].as_str().is_some_and(|text| text.contains("1.40"));
        if refused { Ok(()) } else { Err(said.to_string()) }
    });
}

// Finding 295-D1, 295-D3
#[test]
fn a_first_sync_looks_at_many_things_at_once_and_an_event_costs_one() {
    const CONTAINERS: usize = 300;
    const IMAGES: usize = 100;
    let scene = Scene::new(|engine| {
        engine.fill(CONTAINERS, IMAGES).unwrap();
        engine.fault(Fault::always(Route::ContainerInspect, Effect::Delay(Duration::from_millis(5))));
    });
    scene.run();
    scene.until_they_agree();
    let engine = &scene.engine;
    // The comparison inspects each object as well, so the peak is read before it.
    engine.heal();
    let peak = engine.peak(Route::ContainerInspect);
    assert!((4..=64).contains(&peak), "{peak} at once");

    // Nothing happens, so nothing is requested.
    settle(&scene);
    engine.forget_requests();
    let before = scene.writes();
    engine.change(|world| world.start_container("filled-7")).unwrap();
    let id = engine.change(|world| world.find_container("filled-7")).unwrap();
    scene.product.until_status(&id, "running");
    settle(&scene);
    let asked = engine.all_requests();
    let about = asked.iter().filter(|(route, _)| **route != Route::Ping && **route != Route::Info);
    assert_eq!(about.collect::<Vec<_>>(), [(&Route::ContainerInspect, &1)], "{asked:?}");
    // The engine's state, and the conditions that follow from it; each change of a condition also leads to an Event.
    let writes = scene.writes() - before;
    assert!((2..=6).contains(&writes), "{writes} writes");
}

/// Waits until there are no more writes.
fn settle(scene: &Scene) {
    let mut last = (0, std::time::Instant::now());
    eventually("no more writes", SOON, || {
        let now = scene.writes();
        if now != last.0 {
            last = (now, std::time::Instant::now());
        }
        (last.1.elapsed() > Duration::from_secs(1)).then_some(())
    });
}

/// The engine remembers 256 events. A client that relies only on them for a long first sync loses the others.
#[test]
fn more_may_happen_during_the_first_sync_than_an_engine_remembers() {
    let scene = Scene::new(|engine| {
        engine.fill(40, 5).unwrap();
        engine.fault(Fault::always(Route::ContainerInspect, Effect::Delay(Duration::from_millis(30))));
        let once = std::sync::Once::new();
        engine.before(Route::ContainerInspect, move |world, _| {
            once.call_once(|| {
                for number in 0..400 {
                    world.create_volume(&format!("volume-{number}"), BTreeMap::new(), BTreeMap::new()).unwrap();
                }
            });
        });
    });
    scene.run();
    scene.until_they_agree();
}

/// A tag that moves leaves a dangling image behind, and no event names that image.
#[test]
fn an_image_that_loses_its_tag_to_another_is_mirrored_as_dangling() {
    let scene = Scene::new(small);
    scene.run();
    let import = || scene.engine.change(|world| world.import_image(Some("moves:1"), BTreeMap::new())).unwrap();
    let first = import();
    scene.until_they_agree();
    for _ in 0..20 {
        let asked = scene.engine.requests(Route::ImageInspect);
        import();
        // The next image takes the tag while the mirror of this one is being written.
        eventually("the image to be asked about", SOON, || {
            (scene.engine.requests(Route::ImageInspect) > asked).then_some(())
        });
    }
    scene.until_they_agree();
    assert!(scene.product.mirror("images", &image_name(&first, None)).is_some());
    scene.engine.change(|world| world.tag_image(&first, "moves:1")).unwrap();
    scene.until_they_agree();
}

// Finding 295-I4: whatever happens to the connection, a requested action is run once.
#[test]
fn a_connection_that_breaks_again_and_again_does_nothing_twice() {
    let mut scene = Scene::new(small);
    scene.run();
    let id = scene.engine.change(|world| world.find_container("filled-0")).unwrap();
    let asked = 10;
    for round in 1..=asked {
        match round % 5 {
            // The action is run, but the reply is lost.
            0 => scene.engine.fault(Fault::once(Route::ContainerRestart, Effect::DoAndHangUp)),
            1 => scene.engine.break_events(),
            // The action is run, but the connection ends before the reply.
            2 | 3 => scene.engine.fault(Fault::once(Route::ContainerRestart, Effect::Stall(SOON))),
            _ => {
                scene.engine.crash();
                scene.engine.revive().unwrap();
            }
        }
        scene.product.ask_for(&id, "restart");
        let sent = || scene.engine.requests(Route::ContainerRestart);
        eventually("the request to be sent", SOON, || (sent() >= round).then_some(()));
        match round % 5 {
            2 => scene.engine.break_events(),
            3 => {
                scene.engine.crash();
                scene.engine.revive().unwrap();
            }
            _ => {}
        }
        eventually("the request to be answered", SOON, || {
            let mirror = scene.product.mirror("containers", &id).ok_or_else(|| "no mirror".to_owned())?;
            let waits = mirror["metadata"]["annotations"].as_object().is_some_and(|all| !all.is_empty());
            if waits { Err(mirror["metadata"].to_string()) } else { Ok(()) }
        });
    }
    let restarts = scene.engine.requests(Route::ContainerRestart);
    assert_eq!(restarts, asked, "each was sent once");
    scene.until_they_agree();
}
