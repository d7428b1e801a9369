//! Controllers over an API in the test's own process: wait until they are quiet, kill them at a step, start them again.

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

/// The address under which webhooks are known to the API of a test.
const HOOKS: &str = "https://127.0.0.1:9443";

/// Makes controllers, anew for each start.
type Make = Box<dyn Fn() -> Vec<Registered>>;

/// Controllers that run over a [`TestApi`]. Dropping it cuts them off, as a kill would.
pub struct Stage {
    client: Client,
    hooks: Arc<dyn Hooks>,
    make: Make,
    probe: Arc<dyn Probe>,
    manager: Option<Manager>,
    deaths: usize,
    // Last, for what is above runs on it.
    runtime: Runtime,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage").field("manager", &self.manager).field("deaths", &self.deaths).finish_non_exhaustive()
    }
}

/// Webhooks that the API of a test calls as functions.
pub fn hooks_of(api: &TestApi) -> Arc<dyn Hooks> {
    let webhooks = Arc::clone(api.core().webhooks());
    Arc::new(Local {
        base: HOOKS.to_owned(),
        ca_bundle: String::new(),
        register: Arc::new(move |url, answer| Box::new(webhooks.register_url(url, answer))),
    })
}

impl Stage {
    /// Controllers that `make` makes, not started yet.
    ///
    /// # Panics
    /// When no runtime can be started.
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

    /// The API, as controllers see it.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Waits for a future.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// How often it was killed.
    pub fn deaths(&self) -> usize {
        self.deaths
    }

    /// From the next start on, dies where the probe says.
    pub fn probe(&mut self, probe: Arc<dyn Probe>) {
        self.probe = probe;
    }

    /// Starts the controllers; what ran before is cut off. Returns when their watches are filled.
    ///
    /// # Panics
    /// When they cannot be started.
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

    /// Cuts the controllers off, as a kill would.
    pub fn cut(&mut self) {
        if let Some(manager) = self.manager.take() {
            self.runtime.block_on(manager.kill());
        }
    }

    /// Ends the controllers well.
    pub fn stop(&mut self) {
        if let Some(manager) = self.manager.take() {
            self.runtime.block_on(manager.stop(PATIENCE));
        }
    }

    /// The running manager.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn manager(&self) -> &Manager {
        self.manager.as_ref().expect("the controllers were started")
    }

    /// Waits until nothing is left to do. Controllers that a probe kills meanwhile are started again.
    ///
    /// # Panics
    /// When that does not happen within [`PATIENCE`].
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
        !self.has_died() && self.runtime.block_on(manager.is_quiet()) && !self.has_died()
    }

    fn has_died(&self) -> bool {
        let killed = async { tokio::time::timeout(Duration::ZERO, self.manager().killed()).await.is_ok() };
        self.runtime.block_on(killed)
    }
}

/// Runs `scenario` once for every point before and after every step of every controller, in a fresh world each time, and kills
/// the controllers there. Returns how many points there are.
///
/// `world` makes what outlives the controllers (a fake machine, for one), `make` the controllers over it. The scenario calls
/// [`Stage::settle`] after each of its changes and checks what it expects.
///
/// # Panics
/// When a point is never reached: then the scenario does not exercise the step, and proves nothing about it.
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
