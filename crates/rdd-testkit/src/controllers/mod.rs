//! Runs controllers over an API in the test's process: waits until they are quiet, kills them at a step, restarts them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use kube::Client;
use rdd_runtime::{
    Registered,
    hooks::{Hooks, Local},
    manager::{Manager, Options, Role, Started},
    metrics::Metrics,
    probe::{KillAt, Probe, Unhurt, When},
};
use rdd_stdx::clock::SystemClock;
use tokio::runtime::Runtime;

use crate::api::{PATIENCE, TestApi};

/// The base URL of the webhooks in a test's API.
const HOOKS: &str = "https://127.0.0.1:9443";

/// Creates the controllers for each start.
type Make = Box<dyn Fn() -> Vec<Registered>>;

/// Controllers that run over a [`TestApi`]. Dropping it aborts them, like a kill of their process.
pub struct Stage {
    client: Client,
    hooks: Arc<dyn Hooks>,
    make: Make,
    probe: Arc<dyn Probe>,
    manager: Option<Manager>,
    deaths: usize,
    // Dropped last: the fields above have tasks on it.
    runtime: Runtime,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage").field("manager", &self.manager).field("deaths", &self.deaths).finish_non_exhaustive()
    }
}

/// Registers webhooks as functions that the test's API calls directly.
pub fn hooks_of(api: &TestApi) -> Arc<dyn Hooks> {
    let webhooks = Arc::clone(api.core().webhooks());
    Arc::new(Local {
        base: HOOKS.to_owned(),
        ca_bundle: String::new(),
        register: Arc::new(move |url, answer| Box::new(webhooks.register_url(url, answer))),
    })
}

impl Stage {
    /// Creates a stage for the controllers that `make` creates, without starting them.
    ///
    /// # Panics
    ///
    /// If the runtime cannot be started.
    pub fn over(api: &TestApi, make: impl Fn() -> Vec<Registered> + 'static) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).thread_stack_size(8 << 20).enable_all().build();
        let runtime = runtime.expect("a runtime can be started");
        let client = {
            let _inside = runtime.enter();
            Client::new(api.door(), "default")
        };
        let (make, probe) = (Box::new(make), Arc::new(Unhurt));
        Self { client, hooks: hooks_of(api), make, probe, manager: None, deaths: 0, runtime }
    }

    /// A client of the API, as controllers use it.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Runs a future to its end.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// The number of kills by the probe.
    pub fn deaths(&self) -> usize {
        self.deaths
    }

    /// Sets the probe that decides where the controllers are killed; it applies from the next start.
    pub fn probe(&mut self, probe: Arc<dyn Probe>) {
        self.probe = probe;
    }

    /// Starts the controllers, aborting those that run. Returns when their caches have synced.
    ///
    /// # Panics
    ///
    /// If they cannot be started.
    #[track_caller]
    pub fn start(&mut self) {
        self.cut();
        let options = Options {
            name: "test".to_owned(),
            role: Role::Alone,
            client: self.client(),
            clock: SystemClock::shared(),
            hooks: Arc::clone(&self.hooks),
            probe: Arc::clone(&self.probe),
            metrics: Metrics::default(),
            progress: Arc::new(|_| {}),
        };
        match self.runtime.block_on(Manager::start(options, (self.make)())) {
            Ok(Started::Running(manager)) => self.manager = Some(*manager),
            other => panic!("the controllers do not start: {other:?}"),
        }
    }

    /// Aborts the controllers, like a kill of their process.
    pub fn cut(&mut self) {
        if let Some(manager) = self.manager.take() {
            self.runtime.block_on(manager.kill());
        }
    }

    /// Stops the controllers properly.
    pub fn stop(&mut self) {
        if let Some(manager) = self.manager.take() {
            self.runtime.block_on(manager.stop(PATIENCE));
        }
    }

    /// The running manager.
    ///
    /// # Panics
    ///
    /// If the controllers have not been started.
    #[track_caller]
    pub fn manager(&self) -> &Manager {
        self.manager.as_ref().expect("the controllers were started")
    }

    /// Waits until the controllers have nothing left to do. Restarts them if the probe kills them meanwhile.
    ///
    /// # Panics
    ///
    /// If that takes longer than [`PATIENCE`].
    #[track_caller]
    pub fn settle(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.is_quiet() {
            assert!(Instant::now() < deadline, "waited {PATIENCE:?} for quiet controllers; {:?}", self.manager);
            if self.has_died() {
                self.deaths += 1;
                self.start();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn is_quiet(&self) -> bool {
        let manager = self.manager();
        // Checked again: the probe may have killed them during the check.
        !self.has_died() && self.runtime.block_on(manager.is_quiet()) && !self.has_died()
    }

    fn has_died(&self) -> bool {
        let killed = async { tokio::time::timeout(Duration::ZERO, self.manager().killed()).await.is_ok() };
        self.runtime.block_on(killed)
    }
}

/// Runs `scenario` once for every kill point (before and after each step of each controller), each time with a new world, and kills the
/// controllers there. Returns the number of kill points.
///
/// `world` creates what outlives the controllers, such as a fake VM; `make` creates the controllers over it. The scenario calls
/// [`Stage::settle`] after each of its changes and checks the result.
///
/// # Panics
///
/// If a kill point is never reached: then the scenario does not exercise that step and proves nothing about it.
#[track_caller]
pub fn kill_everywhere<W: Clone + 'static>(
    world: impl Fn() -> W,
    make: impl Fn(&W) -> Vec<Registered> + Clone + 'static,
    scenario: impl Fn(&mut Stage, &W),
) -> usize {
    let mut points = Vec::new();
    for registered in make(&world()) {
        let name = registered.declaration().name();
        for step in registered.steps() {
            points.extend([When::Before, When::After].map(|when| (name, step, when)));
        }
    }
    let mut missed = Vec::new();
    for (controller, step, when) in &points {
        let (api, world) = (TestApi::start(), world());
        let probe = Arc::new(KillAt::first(controller, step, *when));
        let (make, own) = (make.clone(), world.clone());
        let mut stage = Stage::over(&api, move || make(&own));
        stage.probe(Arc::clone(&probe) as _);
        stage.start();
        scenario(&mut stage, &world);
        if !probe.has_killed() {
            missed.push(format!("{when:?} {controller}/{step}"));
        }
    }
    assert!(missed.is_empty(), "never reached: {missed:?}");
    points.len()
}
