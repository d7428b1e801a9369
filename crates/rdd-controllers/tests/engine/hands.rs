//! Fixtures: a server, the engine's controllers, and a fake engine.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, OnceLock},
    time::{Duration, Instant},
};

use http::Request;
use kube::{Client, Config};
use rdd_controllers::{
    containers::{Containers, Defined},
    engine::{Controller, Setup, Unpublished},
};
use rdd_docker::fake::{FakeEngine, NewContainer};
use rdd_runtime::{Context, Declaration, Error, Plan, Registered, Step};
use rdd_testkit::{
    api::{PATIENCE, TestApi},
    controllers::Stage,
};
use rdd_types::app::App;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

pub(crate) const APPS: &str = "/apis/app.rancherdesktop.io/v1alpha1/apps";
const GROUP: &str = "/apis/containers.rancherdesktop.io/v1alpha1/namespaces/default";
pub(crate) const ACTION: &str = "containers.rancherdesktop.io/action";

/// The path of the objects of a kind.
pub(crate) fn at(plural: &str) -> String {
    format!("{GROUP}/{plural}")
}

pub(crate) fn one(plural: &str, name: &str) -> String {
    format!("{GROUP}/{plural}/{name}")
}

/// A fake engine in its own directory.
#[derive(Debug)]
pub(crate) struct Room {
    engine: Mutex<FakeEngine>,
    folder: TempDir,
}

impl Room {
    pub(crate) fn new() -> Arc<Self> {
        let folder = tempfile::tempdir().expect("there is room for a socket");
        let engine = FakeEngine::start(&folder.path().join("docker.sock")).expect("a socket can be made");
        engine.change(|world| world.import_image(Some("box:1"), [].into())).expect("an image is made");
        Arc::new(Self { engine: Mutex::new(engine), folder })
    }

    pub(crate) fn engine(&self) -> MutexGuard<'_, FakeEngine> {
        self.engine.lock().expect("no test panics with the engine in its hands")
    }

    /// Creates a container that sleeps when it is started.
    pub(crate) fn container(&self, name: &str) -> String {
        let made = self.engine().change(|world| world.create_container(NewContainer::sleeper(name, "box:1")));
        made.expect("a container is made")
    }

    pub(crate) fn running(&self, name: &str) -> String {
        let id = self.container(name);
        self.engine().change(|world| world.start_container(&id)).expect("it starts");
        id
    }

    /// How often this event happened to a container.
    pub(crate) fn happened(&self, id: &str, action: &str) -> usize {
        let events = self.engine().change(|world| world.events());
        events.iter().filter(|event| event.id == id && event.action == action).count()
    }

    /// The engine's controller, and controllers without steps that install the kinds.
    pub(crate) fn only_engine(&self) -> Vec<Registered> {
        let mut all = self.controllers();
        all.retain(|one| one.declaration().name() != "container");
        all.push(Registered::new(Kinds("container")));
        all
    }

    pub(crate) fn controllers(&self) -> Vec<Registered> {
        let setup = Setup { socket: self.folder.path().join("docker.sock"), publisher: Arc::new(Unpublished) };
        vec![
            Registered::new(Kinds("app")),
            Registered::new(Containers),
            Registered::new(Defined::container_namespaces()),
            Registered::new(Defined::images()),
            Registered::new(Defined::volumes()),
            Registered::new(Controller::new(nowhere(), setup)),
        ]
    }
}

/// A client without a server: the logs endpoint is tested elsewhere.
fn nowhere() -> Client {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| Runtime::new().expect("a runtime can be started"));
    let _inside = runtime.enter();
    Client::try_from(Config::new("http://127.0.0.1:1".parse().expect("it is an address"))).expect("it is a client")
}

/// Installs the kinds of a controller and does nothing else: the tests act as the App's controller.
struct Kinds(&'static str);

#[derive(Debug)]
struct Nothing(Infallible);

impl Step for Nothing {
    const ALL: &'static [&'static str] = &[];

    fn name(&self) -> &'static str {
        match self.0 {}
    }
}

impl rdd_runtime::Controller for Kinds {
    type Object = App;
    type Observed = ();
    type Step = Nothing;

    fn declaration(&self) -> Declaration {
        Declaration::new(self.0, "").crds(rdd_types::crds_of(self.0))
    }

    async fn observe(&self, _: Arc<App>, _: &Context) -> Result<(), Error> {
        Ok(())
    }

    fn plan(&self, (): &()) -> Plan<Nothing> {
        Plan::nothing()
    }

    async fn act(&self, step: &Nothing, (): &(), _: &Context) -> Result<(), Error> {
        match step.0 {}
    }
}

/// A server, controllers, an engine, and an App with a running VM.
pub(crate) struct Scene {
    // Dropped first: it runs on the fields below.
    pub(crate) stage: Stage,
    pub(crate) room: Arc<Room>,
    _api: TestApi,
}

impl Scene {
    /// A scene without a connection.
    pub(crate) fn dark() -> Self {
        let (api, room) = (TestApi::start(), Room::new());
        let own = Arc::clone(&room);
        let mut stage = Stage::over(&api, move || own.controllers());
        stage.start();
        make_app(&stage);
        Self { stage, room, _api: api }
    }

    /// A connected scene: everything in the engine is mirrored.
    pub(crate) fn connected() -> Self {
        Self::with(|_| ())
    }

    /// A connected scene with an engine that `prepare` has filled.
    pub(crate) fn with(prepare: impl FnOnce(&Room)) -> Self {
        let mut scene = Self::dark();
        prepare(&scene.room);
        says_running(&scene.stage, "True");
        scene.until_says("True", "Connected");
        scene
    }

    #[track_caller]
    pub(crate) fn until<T>(&mut self, what: &str, look: impl FnMut(&Stage) -> Option<T>) -> T {
        until(&mut self.stage, what, look)
    }

    /// Waits for this condition of the engine at the App's generation.
    #[track_caller]
    pub(crate) fn until_says(&mut self, status: &str, reason: &str) -> String {
        until_says(&mut self.stage, status, reason)
    }

    /// Waits until an object satisfies the check, and returns it.
    #[track_caller]
    pub(crate) fn object(&mut self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        until(&mut self.stage, path, |stage| get(stage, path).filter(|object| is_so(object)))
    }

    #[track_caller]
    pub(crate) fn gone(&mut self, path: &str) {
        until(&mut self.stage, &format!("the end of {path}"), |stage| get(stage, path).is_none().then_some(()));
    }

    pub(crate) fn names(&self, plural: &str) -> Vec<String> {
        names(&self.stage, plural)
    }

    /// Requests a state in the spec.
    pub(crate) fn ask_spec(&self, id: &str, state: &str) {
        merge(&self.stage, &one("containers", id), &json!({"spec": {"state": state}})).expect("a state is taken");
    }

    pub(crate) fn ask(&self, id: &str, action: &str) {
        ask_action(&self.stage, id, action);
    }
}

/// Requests an action by annotation.
pub(crate) fn ask_action(stage: &Stage, id: &str, action: &str) {
    let asking = json!({"metadata": {"annotations": {ACTION: action}}});
    merge(stage, &one("containers", id), &asking).expect("an action is taken");
}

/// Creates the App.
pub(crate) fn make_app(stage: &Stage) {
    let app = json!({
        "apiVersion": "app.rancherdesktop.io/v1alpha1", "kind": "App", "metadata": {"name": "app"},
        "spec": {"running": true, "namespace": "default"},
    });
    ask(stage, "POST", APPS, &app).expect("an App is made");
}

/// Sets the App's Running condition, as the App's controller would.
pub(crate) fn says_running(stage: &Stage, status: &str) {
    let condition = json!({
        "type": "Running", "status": status, "reason": "Told", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let app = json!({
        "apiVersion": "app.rancherdesktop.io/v1alpha1", "kind": "App", "metadata": {"name": "app"},
        "status": {"conditions": [condition]},
    });
    let path = format!("{APPS}/app/status?fieldManager=app-controller&force=true");
    request(stage, "PATCH", &path, "application/apply-patch+yaml", &app).expect("a status is taken");
}

#[track_caller]
pub(crate) fn until_says(stage: &mut Stage, status: &str, reason: &str) -> String {
    until(stage, &format!("ContainerEngineReady={status} ({reason})"), |stage| {
        let app = get(stage, &format!("{APPS}/app"))?;
        let said = condition(&app)?;
        let is_current = said["observedGeneration"] == app["metadata"]["generation"];
        (said["status"] == status && said["reason"] == reason && is_current)
            .then(|| said["message"].as_str().unwrap_or_default().to_owned())
    })
}

/// The condition of the engine.
pub(crate) fn condition(app: &Value) -> Option<Value> {
    let all = app["status"]["conditions"].as_array()?;
    all.iter().find(|condition| condition["type"] == "ContainerEngineReady").cloned()
}

pub(crate) fn names(stage: &Stage, plural: &str) -> Vec<String> {
    let list = get(stage, &at(plural)).expect("the kind is served");
    let names = list["items"].as_array().into_iter().flatten();
    names.map(|object| object["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The code and the message of a refusal.
type Refusal = (u16, String);

pub(crate) fn request(stage: &Stage, method: &str, path: &str, kind: &str, body: &Value) -> Result<Value, Refusal> {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", kind).body(body);
    match stage.block_on(stage.client().request::<Value>(request.expect("it is a request"))) {
        Ok(answer) => Ok(answer),
        Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
        Err(error) => panic!("{method} {path}: {error}"),
    }
}

pub(crate) fn ask(stage: &Stage, method: &str, path: &str, body: &Value) -> Result<Value, Refusal> {
    request(stage, method, path, "application/json", body)
}

pub(crate) fn get(stage: &Stage, path: &str) -> Option<Value> {
    match ask(stage, "GET", path, &Value::Null) {
        Ok(found) => Some(found),
        Err((404, _)) => None,
        Err(refusal) => panic!("{path}: {refusal:?}"),
    }
}

pub(crate) fn merge(stage: &Stage, path: &str, patch: &Value) -> Result<Value, Refusal> {
    request(stage, "PATCH", path, "application/merge-patch+json", patch)
}

pub(crate) fn delete(stage: &Stage, path: &str) {
    ask(stage, "DELETE", path, &Value::Null).expect("it can be deleted");
}

/// Waits until a check holds; restarts the controllers if they are killed meanwhile.
#[track_caller]
pub(crate) fn until<T>(stage: &mut Stage, what: &str, mut look: impl FnMut(&Stage) -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look(stage) {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} for {what}; {}", evidence(stage));
        let dead = async { tokio::time::timeout(Duration::ZERO, stage.manager().killed()).await.is_ok() };
        if stage.block_on(dead) {
            stage.start();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The state of the scene, for the message of a failed wait.
fn evidence(stage: &Stage) -> String {
    let mut text = format!("{:?}", stage.manager());
    let paths = [format!("{APPS}/app"), at("containers"), at("images"), at("volumes")];
    for path in paths {
        text.push('\n');
        text.push_str(&get(stage, &path).unwrap_or_default().to_string());
    }
    text
}
