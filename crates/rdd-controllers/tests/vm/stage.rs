//! Fixtures: an API server, controllers under a manager that can be killed and restarted, and a fake machine room.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicI64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::ConfigMap,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    client::Body,
};
use rdd_apiserver::serve::InProcess;
use rdd_controllers::{
    app,
    containers::{Containers, Defined},
    engine::{self, Unpublished},
    hostinfo::Host,
    kubernetes, limavm,
};
use rdd_docker::fake::FakeEngine;
use rdd_driver::{
    Drivers, LogOptions,
    fake::{Fake, World},
};
use rdd_instance::{Environment, Instance, Platform};
use rdd_runtime::{
    Registered,
    hooks::Local,
    manager::{Manager, Options, Role, Started},
    metrics::Metrics,
    probe::{Probe, Unhurt},
};
use rdd_stdx::clock::{Clock, SharedClock, SystemClock};
use rdd_testkit::{api::TestApi, eventually};
use rdd_types::{
    app::{App, Backend},
    lima::LimaVM,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tower_service::Service;

use crate::town::Town;

/// The timeout of every wait; the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The namespace of the Apps in these tests; the App controller creates it.
pub(crate) const NAMESPACE: &str = "rancher-desktop";
/// A template that the fake driver accepts.
pub(crate) const TEMPLATE: &str = "vmType: fake\n";

/// The machine's clock, with a wall time that a test sets.
#[derive(Debug)]
pub(crate) struct Adrift {
    machine: SharedClock,
    ahead_seconds: AtomicI64,
}

impl Adrift {
    /// Sets the wall time this many seconds ahead, or back if negative.
    pub(crate) fn set_ahead(&self, seconds: i64) {
        self.ahead_seconds.store(seconds, Ordering::SeqCst);
    }
}

impl Clock for Adrift {
    fn wall(&self) -> Duration {
        let ahead = self.ahead_seconds.load(Ordering::SeqCst);
        let by = Duration::from_secs(ahead.unsigned_abs());
        if ahead < 0 { self.machine.wall().saturating_sub(by) } else { self.machine.wall() + by }
    }

    fn steady(&self) -> Duration {
        self.machine.steady()
    }
}

/// Which controllers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cast {
    Both,
    /// App, LimaVM and Kubernetes.
    All,
    /// All of these, and those of an engine.
    Whole,
    LimaVMOnly,
    AppOnly,
}

pub(crate) struct Stage {
    pub(crate) world: World,
    /// The fake environment of Kubernetes.
    pub(crate) town: Town,
    /// The engine in the machine.
    pub(crate) docker: Mutex<FakeEngine>,
    /// The client of the test itself.
    pub(crate) client: Client,
    pub(crate) faults: Faults,
    pub(crate) clock: Arc<Adrift>,
    cast: Cast,
    probe: Arc<dyn Probe>,
    running: Mutex<Option<Running>>,
    // Dropped last: the fields above use them.
    folder: TempDir,
    runtime: Runtime,
    api: TestApi,
}

struct Running {
    manager: Box<Manager>,
    driver: Weak<Fake>,
}

impl Stage {
    /// A stage with both controllers running.
    pub(crate) fn new() -> Self {
        let stage = Self::dark(Cast::Both, Arc::new(Unhurt));
        stage.start();
        stage
    }

    /// A stage before the first start of the manager.
    pub(crate) fn dark(cast: Cast, probe: Arc<dyn Probe>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let api = TestApi::start();
        let client = runtime.block_on(async { Client::new(api.door(), "default") });
        let faults = Faults::default();
        let folder = tempfile::tempdir().unwrap();
        Self {
            world: World::new(),
            town: Town::default(),
            docker: Mutex::new(FakeEngine::start(&folder.path().join("docker.sock")).unwrap()),
            folder,
            client,
            faults,
            clock: Arc::new(Adrift { machine: SystemClock::shared(), ahead_seconds: AtomicI64::new(0) }),
            cast,
            probe,
            running: Mutex::default(),
            runtime,
            api,
        }
    }

    /// Starts the manager.
    pub(crate) fn start(&self) {
        let driver = self.world.driver();
        let weak = Arc::downgrade(&driver);
        let drivers = Drivers::new(vec![driver]);
        let started = self.runtime.block_on(async {
            let door = Faulty { door: self.api.door(), faults: self.faults.clone() };
            let client = Client::new(door, "default");
            let controllers = self.controllers(&client, drivers);
            Manager::start(self.options(client), controllers).await
        });
        let Started::Running(manager) = started.expect("the manager starts") else { panic!("it runs alone") };
        *self.running.lock().unwrap() = Some(Running { manager, driver: weak });
    }

    fn controllers(&self, client: &Client, drivers: Drivers) -> Vec<Registered> {
        let clock = Arc::clone(&self.clock) as SharedClock;
        let (instance, environment) = mk_instance("2");
        let host = Host { cpus: 8, memory_bytes: 16 << 30 };
        let mut setup = app::Setup::of(&instance, &environment, &drivers, host);
        setup.facts.backend = Backend::Host;
        // The same backends for every user who runs the tests, also root.
        setup.facts.backends = vec![Backend::Lima, Backend::Host];
        let pace = limavm::machine::Pace {
            first: Duration::from_millis(20),
            most: Duration::from_millis(100),
            stable: Duration::from_secs(3600),
        };
        let kubernetes = matches!(self.cast, Cast::All | Cast::Whole).then(|| {
            Registered::new(kubernetes::Controller::new(self.town.setup(drivers.clone(), Arc::clone(&clock))))
        });
        let vm = limavm::Setup { drivers, log: LogOptions::default(), clock, pace };
        let vm = (self.cast != Cast::AppOnly).then(|| Registered::new(limavm::Controller::new(client.clone(), vm)));
        let app = (self.cast != Cast::LimaVMOnly).then(|| Registered::new(app::Controller::new(setup)));
        let engine = (self.cast == Cast::Whole).then(|| self.engine(client)).into_iter().flatten();
        vm.into_iter().chain(app).chain(kubernetes).chain(engine).collect()
    }

    fn engine(&self, client: &Client) -> Vec<Registered> {
        let setup = engine::Setup { socket: self.folder.path().join("docker.sock"), publisher: Arc::new(Unpublished) };
        vec![
            Registered::new(Containers),
            Registered::new(Defined::container_namespaces()),
            Registered::new(Defined::images()),
            Registered::new(Defined::volumes()),
            Registered::new(engine::Controller::new(client.clone(), setup)),
        ]
    }

    fn options(&self, client: Client) -> Options {
        let hooks = Arc::clone(self.api.core().webhooks());
        let local = Local {
            base: "https://127.0.0.1:9443".to_owned(),
            ca_bundle: String::new(),
            register: Arc::new(move |url, answer| Box::new(hooks.register_url(url, answer))),
        };
        Options {
            name: "test".to_owned(),
            role: Role::Alone,
            client,
            clock: Arc::clone(&self.clock) as SharedClock,
            hooks: Arc::new(local),
            probe: Arc::clone(&self.probe),
            metrics: Metrics::default(),
            progress: Arc::new(|_| {}),
        }
    }

    /// Ends everything as a kill would: no step, job or handler goes on.
    pub(crate) fn kill(&self) {
        let Some(Running { manager, driver }) = self.running.lock().unwrap().take() else { return };
        self.block(manager.kill());
        self.until("everything that was killed to be gone", || (driver.strong_count() == 0).then_some(()));
    }

    /// Kills the manager and starts it again.
    pub(crate) fn restart(&self) {
        self.kill();
        self.start();
    }

    /// Stops the manager gracefully.
    pub(crate) fn stop(&self) {
        if let Some(Running { manager, .. }) = self.running.lock().unwrap().take() {
            self.runtime.block_on(manager.stop(Duration::from_secs(40)));
        }
    }

    /// Removes all webhook configurations, so that writes succeed while no controller runs.
    pub(crate) fn remove_hooks(&self) {
        let (delete, all) = (DeleteParams::default(), ListParams::default());
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        self.block(mutating.delete_collection(&delete, &all)).unwrap();
        self.block(validating.delete_collection(&delete, &all)).unwrap();
    }

    /// Whether a probe has decided to die.
    pub(crate) fn is_dead(&self) -> bool {
        let running = self.running.lock().unwrap();
        let Some(Running { manager, .. }) = &*running else { return true };
        self.block(async { tokio::time::timeout(Duration::ZERO, manager.killed()).await.is_ok() })
    }

    pub(crate) fn block<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    #[track_caller]
    pub(crate) fn until<T>(&self, what: &str, probe: impl FnMut() -> Option<T>) -> T {
        eventually(what, PATIENCE, probe)
    }

    pub(crate) fn maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub(crate) fn vms(&self, namespace: &str) -> Api<LimaVM> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub(crate) fn apps(&self) -> Api<App> {
        Api::all(self.client.clone())
    }

    /// Applies a ConfigMap `input` with this template in the namespace `default`.
    pub(crate) fn put_input(&self, text: &str) {
        let input = json!({"metadata": {"name": "input"}, "data": {"template": text}});
        let input: ConfigMap = serde_json::from_value(input).unwrap();
        self.block(self.maps("default").create(&PostParams::default(), &input)).unwrap();
    }

    /// Creates a LimaVM in `default` from the ConfigMap `input`.
    pub(crate) fn try_create_vm(&self, name: &str, running: bool) -> Result<LimaVM, kube::Error> {
        self.block(self.vms("default").create(&PostParams::default(), &mk_vm(name, running)))
    }

    /// Creates a LimaVM from a new ConfigMap `input`.
    pub(crate) fn create_vm(&self, name: &str, running: bool) {
        self.put_input(TEMPLATE);
        self.try_create_vm(name, running).unwrap();
    }

    pub(crate) fn vm(&self, name: &str) -> Option<LimaVM> {
        self.block(self.vms("default").get_opt(name)).unwrap()
    }

    pub(crate) fn patch_vm(&self, name: &str, patch: &Value) {
        self.block(self.vms("default").patch(name, &PatchParams::default(), &Patch::Merge(patch))).unwrap();
    }

    /// Waits until the LimaVM with this name in `default` satisfies the check.
    #[track_caller]
    pub(crate) fn vm_until(&self, what: &str, name: &str, is: impl Fn(&LimaVM) -> bool) -> LimaVM {
        let look = || match self.vm(name) {
            Some(vm) if is(&vm) => Ok(vm),
            other => Err(format!("{:#?}", other.map(|vm| (vm.spec, vm.status)))),
        };
        eventually(what, PATIENCE, look)
    }

    /// Waits until the VM runs and is reported as running.
    #[track_caller]
    pub(crate) fn vm_until_running(&self, name: &str) -> LimaVM {
        self.vm_until("the LimaVM to run", name, |vm| says(vm, "Running", "True/Started"))
    }

    /// Creates the App with these settings in [`NAMESPACE`].
    pub(crate) fn create_app(&self, running: bool) -> App {
        let app = json!({"metadata": {"name": "app"}, "spec": {"running": running, "namespace": NAMESPACE}});
        let app: App = serde_json::from_value(app).unwrap();
        self.block(self.apps().create(&PostParams::default(), &app)).unwrap()
    }

    pub(crate) fn app(&self) -> Option<App> {
        self.block(self.apps().get_opt("app")).unwrap()
    }

    pub(crate) fn try_patch_app(&self, patch: &Value) -> Result<App, kube::Error> {
        self.block(self.apps().patch("app", &PatchParams::default(), &Patch::Merge(patch)))
    }

    #[track_caller]
    pub(crate) fn app_until(&self, what: &str, is: impl Fn(&App) -> bool) -> App {
        let look = || match self.app() {
            Some(app) if is(&app) => Ok(app),
            other => Err(format!("{:#?}", other.map(|app| (app.metadata.generation, app.spec, app.status)))),
        };
        eventually(what, PATIENCE, look)
    }

    /// Waits until the App is settled at this generation.
    #[track_caller]
    pub(crate) fn app_until_settled(&self, written: &App) -> App {
        let generation = written.metadata.generation.unwrap();
        self.app_until("the App to settle", |app| {
            condition(&app.status.as_ref().unwrap_or(&Default::default()).conditions, "Settled")
                .is_some_and(|settled| settled.status == "True" && settled.observed_generation >= Some(generation))
        })
    }

    pub(crate) fn rd(&self) -> Option<LimaVM> {
        self.block(self.vms(NAMESPACE).get_opt("rd")).unwrap()
    }

    pub(crate) fn delete_app(&self) {
        self.block(self.apps().delete("app", &DeleteParams::default())).unwrap();
    }

    /// The names of everything that an App could leave behind.
    pub(crate) fn remains(&self) -> Vec<String> {
        let mut found: Vec<String> = self.world.machines().iter().map(|vm| format!("machine {vm}")).collect();
        self.block(async {
            let all = Default::default();
            let vms: Api<LimaVM> = Api::all(self.client.clone());
            found.extend(vms.list(&all).await.unwrap().iter().map(|vm| format!("LimaVM {}", vm.name_any())));
            let maps = self.maps(NAMESPACE).list(&all).await.unwrap();
            // Every namespace has this ConfigMap; it does not belong to the App.
            let maps = maps.iter().map(ResourceExt::name_any).filter(|name| name != "kube-root-ca.crt");
            found.extend(maps.map(|name| format!("ConfigMap {name}")));
            let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.client.clone());
            found.extend(namespaces.get_opt(NAMESPACE).await.unwrap().map(|_| format!("Namespace {NAMESPACE}")));
            found.extend(self.apps().get_opt("app").await.unwrap().map(|_| "App".to_owned()));
        });
        found
    }

    #[track_caller]
    pub(crate) fn until_nothing_is_left(&self) {
        eventually("nothing to be left", PATIENCE, || match self.remains() {
            remains if remains.is_empty() => Ok(()),
            remains => Err(remains.join(", ")),
        });
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _inside = self.runtime.enter();
        drop(self.running.lock().map(|mut running| running.take()));
    }
}

pub(crate) fn mk_instance(name: &str) -> (Instance, Environment) {
    let environment =
        Environment { home: Some("/home/ann".into()), instance: Some(name.to_owned()), ..Environment::default() };
    (Instance::resolve(&environment, Platform::Linux).unwrap(), environment)
}

pub(crate) fn mk_vm(name: &str, running: bool) -> LimaVM {
    let vm = json!({"metadata": {"name": name}, "spec": {"running": running, "templateRef": {"name": "input"}}});
    serde_json::from_value(vm).unwrap()
}

pub(crate) fn condition<'a>(conditions: &'a [rdd_types::Condition], kind: &str) -> Option<&'a rdd_types::Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Whether a condition of the LimaVM is `Status/Reason`.
pub(crate) fn says(vm: &LimaVM, kind: &str, what: &str) -> bool {
    let conditions = vm.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    condition(conditions, kind).is_some_and(|one| format!("{}/{}", one.status, one.reason) == what)
}

/// The message of a condition of the LimaVM.
pub(crate) fn message(vm: &LimaVM, kind: &str) -> String {
    let conditions = vm.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    condition(conditions, kind).map(|one| one.message.clone()).unwrap_or_default()
}

/// Whether a condition of the App is `Status/Reason`.
pub(crate) fn app_says(app: &App, kind: &str, what: &str) -> bool {
    let conditions = app.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    condition(conditions, kind).is_some_and(|one| format!("{}/{}", one.status, one.reason) == what)
}

/// The code and the message of a refusal.
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> (u16, String) {
    match result.expect_err("it is refused") {
        kube::Error::Api(status) => (status.code, status.message.clone()),
        other => panic!("not the API's answer: {other}"),
    }
}

/// Faults for requests of the controllers, and a record of those that were answered with a conflict.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    planned: Arc<Mutex<Vec<Fault>>>,
    conflicts: Arc<Mutex<Vec<String>>>,
}

#[derive(Debug)]
struct Fault {
    method: &'static str,
    /// The end of the request's path.
    path: String,
    /// How many more times it happens.
    times: u32,
}

impl Faults {
    /// Makes the next `times` requests of the controllers with this method and such a path fail before they reach the server.
    pub(crate) fn plan(&self, method: &'static str, path: &str, times: u32) {
        self.planned.lock().unwrap().push(Fault { method, path: path.to_owned(), times });
    }

    /// The requests that were answered with 409, as method and path.
    pub(crate) fn conflicts(&self) -> Vec<String> {
        self.conflicts.lock().unwrap().clone()
    }

    /// How many planned faults of this method have not happened yet.
    pub(crate) fn left(&self, method: &str) -> u32 {
        self.planned.lock().unwrap().iter().filter(|fault| fault.method == method).map(|fault| fault.times).sum()
    }

    fn strikes(&self, request: &http::Request<Body>) -> bool {
        let mut planned = self.planned.lock().unwrap();
        let hit = planned.iter_mut().find(|fault| {
            fault.times > 0 && request.method() == fault.method && request.uri().path().ends_with(&fault.path)
        });
        hit.map(|fault| fault.times -= 1).is_some()
    }
}

/// The connection to the server, with planned faults.
#[derive(Clone)]
struct Faulty {
    door: InProcess,
    faults: Faults,
}

impl Service<http::Request<Body>> for Faulty {
    type Response = <InProcess as Service<http::Request<Body>>>::Response;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if self.faults.strikes(&request) {
            return Box::pin(async { Err(std::io::Error::other("the line is cut")) });
        }
        let asked = format!("{} {}", request.method(), request.uri().path());
        let conflicts = Arc::clone(&self.faults.conflicts);
        let answer = self.door.call(request);
        Box::pin(async move {
            let answer = answer.await.map_err(|never: Infallible| -> std::io::Error { match never {} })?;
            if answer.status() == http::StatusCode::CONFLICT {
                conflicts.lock().unwrap().push(asked);
            }
            Ok(answer)
        })
    }
}
