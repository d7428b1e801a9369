//! Regression tests of findings about the engine's watcher.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use rdd_docker::{
    fake::{Effect, Fault, NewContainer, Refusal, Route},
    map::{image_name, volume_name},
};
use rdd_runtime::probe::{Point, Probe, Verdict, When};
use rdd_testkit::api::PATIENCE;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::hands::{APPS, Scene, ask, at, condition, delete, get, merge, one, says_running, until};

/// Panics once in the watcher when the test asks for it.
#[derive(Debug, Default)]
struct Fright(AtomicBool);

impl Probe for Fright {
    fn at(&self, point: Point<'_>) -> Verdict {
        let is_watcher = (point.controller, point.step, point.when) == ("engine", "listen", When::After);
        assert!(!(is_watcher && self.0.swap(false, Ordering::SeqCst)), "a fright for the watcher");
        Verdict::Go
    }
}

// Finding 295-I1, 295-T1
#[test]
fn a_watcher_that_breaks_ends_or_panics_is_told_of_and_replaced() {
    let mut scene = Scene::with(|room| {
        room.running("one");
    });
    let fright = Arc::new(Fright::default());
    scene.stage.probe(Arc::clone(&fright) as _);
    scene.stage.start();
    scene.until_says("True", "Connected");
    type Break<'a> = (&'static str, &'a dyn Fn(&Scene));
    let breaks: [Break<'_>; 3] = [
        ("broken", &|scene| scene.room.engine().break_events()),
        ("ended", &|scene| scene.room.engine().end_events()),
        ("panicked", &|scene| {
            fright.0.store(true, Ordering::SeqCst);
            scene.room.engine().end_events();
        }),
    ];
    for (name, hurt) in breaks {
        hurt(&scene);
        let id = scene.room.container(name);
        scene.object(&one("containers", &id), |object| object["status"]["name"] == name);
        scene.until_says("True", "Connected");
    }
    // Without an engine, the condition must never be True.
    scene.room.engine().crash();
    let message = scene.until_says("False", "ConnectFailed");
    assert!(message.starts_with("failed to ping Docker: ") || message.contains("events"), "{message}");
    assert_eq!(scene.names("containers").len(), 4, "mirrors stay");
    scene.room.engine().revive().unwrap();
    scene.until_says("True", "Connected");
}

// Finding 295-I1
#[test]
fn a_panic_of_the_watcher_is_in_the_condition_until_it_is_replaced() {
    let mut scene = Scene::connected();
    let fright = Arc::new(Fright::default());
    scene.stage.probe(Arc::clone(&fright) as _);
    scene.stage.start();
    scene.until_says("True", "Connected");
    fright.0.store(true, Ordering::SeqCst);
    scene.room.engine().fault(Fault::always(Route::Info, Effect::Delay(std::time::Duration::from_secs(1))));
    scene.room.engine().end_events();
    let message = until(&mut scene.stage, "a panic in the condition", |stage| {
        let said = condition(&get(stage, &format!("{APPS}/app"))?)?;
        let message = said["message"].as_str().unwrap_or_default().to_owned();
        (said["status"] == "False" && message.contains("panicked")).then_some(message)
    });
    assert!(message.contains("a fright for the watcher"), "{message}");
    scene.until_says("True", "Connected");
}

// Finding 295-I2
#[test]
fn one_stuck_object_starves_no_other() {
    let mut scene = Scene::with(|room| {
        room.running("one");
        room.engine().change(|world| world.create_volume("data", [].into(), [].into())).unwrap();
    });
    let image = scene.names("images").remove(0);
    let refused = Effect::Refuse(Refusal::new(http::StatusCode::CONFLICT, "it is stuck"));
    scene.room.engine().fault(Fault::always(Route::ImageRemove, refused));
    let connections = scene.room.engine().requests(Route::Events);
    delete(&scene.stage, &one("images", &image));
    delete(&scene.stage, &one("volumes", &volume_name("data")));
    scene.gone(&one("volumes", &volume_name("data")));
    let id = scene.room.container("two");
    scene.object(&one("containers", &id), |object| !object["status"].is_null());
    let stuck = get(&scene.stage, &one("images", &image)).expect("it stays");
    assert!(!stuck["metadata"]["deletionTimestamp"].is_null());
    let room = Arc::clone(&scene.room);
    scene.until("several refusals", |_| (room.engine().requests(Route::ImageRemove) > 2).then_some(()));
    assert_eq!(scene.room.engine().requests(Route::Events), connections, "nor does it cost the connection");
    scene.room.engine().heal();
    let ids: Vec<String> = scene.names("containers");
    for id in ids {
        scene.room.engine().change(|world| world.remove_container(&id, true, false)).unwrap();
    }
    scene.gone(&one("images", &image));
}

// Finding 295-I3, 295-T2
#[test]
fn the_container_namespace_comes_back_by_itself() {
    let mut scene = Scene::connected();
    let path = one("containernamespaces", "moby");
    let uid = scene.object(&path, |_| true)["metadata"]["uid"].clone();
    delete(&scene.stage, &path);
    scene.object(&path, |object| object["metadata"]["uid"] != uid);
}

// Finding 295-I4, 295-T3
#[test]
fn what_is_asked_while_there_is_no_watcher_is_done_by_the_next_one_without_another_word() {
    let mut scene = Scene::connected();
    let [first, second, third] = ["one", "two", "three"].map(|name| scene.room.container(name));
    for id in [&first, &second, &third] {
        scene.object(&one("containers", id), |object| !object["status"].is_null());
    }
    scene.room.engine().crash();
    scene.until_says("False", "ConnectFailed");
    scene.ask_spec(&first, "running");
    scene.ask(&second, "start");
    delete(&scene.stage, &one("containers", &third));
    assert!(get(&scene.stage, &one("containers", &third)).is_some(), "it waits for the engine");
    scene.room.engine().revive().unwrap();
    for id in [&first, &second] {
        scene.object(&one("containers", id), |object| object["status"]["status"] == "running");
        assert_eq!(scene.room.happened(id, "start"), 1);
    }
    scene.gone(&one("containers", &third));
    assert!(!scene.room.engine().change(|world| world.containers().contains_key(&third)));
}

// Finding 295-S2
#[test]
fn the_finalizer_is_put_on_again_for_every_kind_and_the_spec_is_the_users() {
    let mut scene = Scene::with(|room| {
        room.running("one");
        room.engine().change(|world| world.create_volume("data", [].into(), [].into())).unwrap();
    });
    let (container, image) = (scene.names("containers").remove(0), scene.names("images").remove(0));
    let paths = [one("containers", &container), one("images", &image), one("volumes", &volume_name("data"))];
    scene.ask_spec(&container, "running");
    scene.object(&paths[0], |object| object["status"]["observedGeneration"] == 2);
    // While the engine is down, nothing can add the finalizer again.
    scene.room.engine().crash();
    scene.until_says("False", "ConnectFailed");
    for path in &paths {
        merge(&scene.stage, path, &json!({"metadata": {"finalizers": null}})).unwrap();
    }
    scene.room.engine().revive().unwrap();
    for path in &paths {
        let held = |object: &Value| object["metadata"]["finalizers"] == json!(["engine.rancherdesktop.io/mirror"]);
        let object = scene.object(path, held);
        assert!(object["metadata"]["deletionTimestamp"].is_null());
    }
    let spec = get(&scene.stage, &paths[0]).map(|object| object["spec"].clone());
    assert_eq!(spec, Some(json!({"state": "running"})));
}

/// Creates an object of the same name just before the controller creates the mirror.
struct Faster {
    client: kube::Client,
    object: Mutex<Option<Value>>,
}

impl fmt::Debug for Faster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faster").field("object", &self.object).finish_non_exhaustive()
    }
}

impl Probe for Faster {
    fn at(&self, point: Point<'_>) -> Verdict {
        if (point.step, point.when) == ("create-mirror", When::Before)
            && let Some(object) = self.object.lock().expect("nobody panics with it").take()
        {
            let request = http::Request::post(at("containers")).header("content-type", "application/json");
            let request = request.body(object.to_string().into_bytes()).expect("it is a request");
            let made = || Handle::current().block_on(self.client.request::<Value>(request));
            tokio::task::block_in_place(made).expect("an object is made");
        }
        Verdict::Go
    }
}

// Finding 295-S2
#[test]
fn a_user_who_was_faster_than_the_mirror_keeps_what_they_asked_for() {
    let mine = |id: &str| {
        json!({
            "apiVersion": "containers.rancherdesktop.io/v1alpha1", "kind": "Container", "metadata": {"name": id},
            "spec": {"state": "running"},
        })
    };
    let mut scene = Scene::dark();
    let early = scene.room.container("early");
    ask(&scene.stage, "POST", &at("containers"), &mine(&early)).unwrap();
    let faster = Arc::new(Faster { client: scene.stage.client(), object: Mutex::default() });
    scene.stage.probe(Arc::clone(&faster) as _);
    scene.stage.start();
    says_running(&scene.stage, "True");
    scene.until_says("True", "Connected");
    // So late that the controller takes the mirror for new.
    let late = scene.room.engine().change(|world| {
        let id = world.create_container(NewContainer::sleeper("late", "box:1")).unwrap();
        *faster.object.lock().unwrap() = Some(mine(&id));
        id
    });
    for id in [&early, &late] {
        let object = scene.object(&one("containers", id), |object| object["status"]["status"] == "running");
        assert_eq!(object["spec"]["state"], "running");
    }
    assert!(faster.object.lock().unwrap().is_none(), "it was made in between");
}

// Finding 295-S3, 295-T4
#[test]
fn several_writers_of_the_apps_status_never_conflict() {
    let mut scene = Scene::connected();
    let path = format!("{APPS}/app");
    for round in 0..20 {
        let running = round % 2 == 1;
        merge(&scene.stage, &path, &json!({"spec": {"running": running}})).expect("no conflict");
        says_running(&scene.stage, if running { "True" } else { "False" });
    }
    scene.until_says("True", "Connected");
    let app = get(&scene.stage, &path).expect("it is there");
    let all = app["status"]["conditions"].as_array().unwrap();
    let mut kinds: Vec<_> = all.iter().filter_map(|one| one["type"].as_str()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["ContainerEngineReady", "Running"], "nobody took the other's");
    let owners = app["metadata"]["managedFields"].as_array().unwrap();
    let owned = |condition: &str| {
        let owns = |owner: &&Value| owner["fieldsV1"].to_string().contains(condition);
        owners.iter().filter(owns).filter_map(|owner| owner["manager"].as_str()).collect::<Vec<_>>()
    };
    assert_eq!(owned("Running"), ["app-controller"], "each has its own");
    assert_eq!(owned("ContainerEngineReady").len(), 1);
}

// Finding 295-S5
#[test]
fn an_engine_that_is_not_mirrored_is_unknown_and_leaves_no_mirrors() {
    let mut scene = Scene::with(|room| {
        room.running("one");
    });
    merge(&scene.stage, &format!("{APPS}/app"), &json!({"spec": {"containerEngine": {"name": "containerd"}}})).unwrap();
    scene.until_says("Unknown", "NotApplicable");
    for plural in ["containers", "images", "volumes", "containernamespaces"] {
        assert_eq!(scene.names(plural), [""; 0], "{plural}");
    }
}

// Finding 295-S6
#[test]
fn a_failure_that_could_not_be_written_is_written_as_soon_as_it_can_be() {
    let mut scene = Scene::connected();
    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "shut"},
        "webhooks": [{
            "name": "shut.example.com", "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 1, "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{"apiGroups": ["app.rancherdesktop.io"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["apps/status"]}],
        }],
    });
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    ask(&scene.stage, "POST", hooks, &hook).unwrap();
    // The next connection hangs and reports nothing for a long time, so no other event triggers a reconcile.
    scene.room.engine().fault(Fault::always(Route::ContainerList, Effect::Hang));
    scene.room.engine().end_events();
    scene.until("failing reconciles", |stage| (!stage.block_on(stage.manager().is_quiet())).then_some(()));
    let said = condition(&get(&scene.stage, &format!("{APPS}/app")).unwrap()).unwrap();
    assert_eq!(said["reason"], "Connected", "nothing could be written");
    let began = Instant::now();
    delete(&scene.stage, &format!("{hooks}/shut"));
    let message = scene.until_says("False", "ConnectFailed");
    assert!(message.contains("ended the stream") && began.elapsed() < PATIENCE / 2, "{message} {:?}", began.elapsed());
}

// Finding 295-S7, 295-T5
#[test]
fn a_mirror_without_a_name_is_let_go_when_it_is_deleted() {
    let mut scene = Scene::with(|room| {
        room.engine().change(|world| world.create_volume("data", [].into(), [].into())).unwrap();
    });
    for (name, status) in [("by-hand", json!(null)), ("by-hand-too", json!({"name": ""}))] {
        let mut volume = json!({
            "apiVersion": "containers.rancherdesktop.io/v1alpha1", "kind": "Volume",
            "metadata": {"name": name, "finalizers": ["engine.rancherdesktop.io/mirror"]},
        });
        ask(&scene.stage, "POST", &at("volumes"), &volume).unwrap();
        if !status.is_null() {
            let all = json!({
                "name": "", "namespace": "", "driver": "", "mountpoint": "", "scope": "", "createdAt": "2026-01-01T00:00:00Z",
            });
            volume["status"] = all;
            let path = format!("{}/status", one("volumes", name));
            merge(&scene.stage, &path, &json!({"status": volume["status"]})).unwrap();
        }
        delete(&scene.stage, &one("volumes", name));
        scene.gone(&one("volumes", name));
    }
    assert_eq!(scene.room.engine().requests(Route::VolumeRemove), 0);
    assert_eq!(scene.names("volumes"), [volume_name("data")]);
}

// Finding 295-S10
#[test]
fn errors_name_kind_and_name() {
    let scene = Scene::connected();
    let id = scene.room.container("one");
    let socket = scene.room.engine().socket().to_owned();
    scene
        .room
        .engine()
        .fault(Fault::always(Route::ContainerInspect, Effect::Refuse(Refusal::new(http::StatusCode::CONFLICT, "no"))));
    scene
        .room
        .engine()
        .fault(Fault::always(Route::VolumeRemove, Effect::Refuse(Refusal::new(http::StatusCode::CONFLICT, "no"))));
    let told = scene.stage.block_on(async {
        let clock = rdd_stdx::clock::SystemClock::shared();
        let engine = rdd_docker::Engine::connect(&socket, clock).await.unwrap();
        [
            engine.container(&id).await.unwrap_err().to_string(),
            engine.remove_volume("data").await.unwrap_err().to_string(),
        ]
    });
    assert_eq!(
        told,
        [
            format!("inspect container {id}: Error response from daemon: no"),
            "remove volume data: Error response from daemon: no".to_owned(),
        ]
    );
}

// Finding 295-T6
#[test]
fn a_container_that_goes_between_list_and_inspect_leaves_no_mirror() {
    let mut scene = Scene::dark();
    let (short, long) = (scene.room.container("short"), scene.room.container("long"));
    // A mirror from an earlier daemon.
    says_running(&scene.stage, "True");
    scene.until_says("True", "Connected");
    scene.stage.stop();
    let gone = short.clone();
    scene.room.engine().silence_events(true);
    scene.room.engine().before(Route::ContainerInspect, move |world, _| {
        let _ = world.remove_container(&gone, true, false);
    });
    scene.stage.start();
    scene.gone(&one("containers", &short));
    scene.object(&one("containers", &long), |_| true);
}

// Finding 295-T7 (here without a real engine)
#[test]
fn an_image_in_use_stays_terminating_and_finishes_when_the_container_is_gone() {
    let mut scene = Scene::connected();
    let id = scene.room.container("one");
    let image = scene.room.engine().change(|world| world.find_image("box:1")).unwrap();
    let path = one("images", &image_name(&image, Some("box:1")));
    delete(&scene.stage, &path);
    let room = Arc::clone(&scene.room);
    scene.until("a refusal", |_| (room.engine().requests(Route::ImageRemove) > 0).then_some(()));
    let object = get(&scene.stage, &path).expect("it stays");
    assert_eq!(object["metadata"]["finalizers"], json!(["engine.rancherdesktop.io/mirror"]));
    scene.room.engine().change(|world| world.remove_container(&id, true, false)).unwrap();
    scene.gone(&path);
    assert!(scene.room.engine().change(|world| world.find_image("box:1")).is_err());
}
