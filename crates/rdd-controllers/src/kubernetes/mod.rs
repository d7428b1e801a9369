//! Kubernetes: K3s in the App's machine, reachable at a port of this process, with a kubeconfig context.
//!
//! | what | where |
//! |---|---|
//! | the port | `gate`: bound here, published in `status.kubernetesPort`, closed when Kubernetes is disabled |
//! | the cluster | [`rdd_driver::Cluster`]: what the machine's driver runs |
//! | readiness | [`prober`]: requests through the port, with the published kubeconfig |
//! | the contexts | [`contexts`]: the instance's own file and the user's |

pub mod access;
mod act;
pub mod contexts;
pub mod downloads;
mod gate;
mod memory;
mod observe;
pub mod plan;
#[cfg(test)]
mod plan_tests;
pub mod prober;
pub mod releases;
mod validity;

use std::sync::Arc;

use kube::{Api, api::ListParams};
use rdd_driver::Drivers;
use rdd_instance::{Environment, Instance};
use rdd_runtime::{Background, Context, Declaration, Error, Key, Plan};
use rdd_stdx::{chain::Chain, clock::SharedClock};
use rdd_types::app::App;

use self::{
    contexts::Contexts,
    gate::Gate,
    memory::Memory,
    plan::{Observed, Step},
    prober::{Ask, Prober},
    releases::Releases,
};

pub use memory::Pace;

/// The controller's name, in `--controllers` and in discovery.
pub const NAME: &str = "kubernetes";
/// No group: only its name and `*` select it.
pub const GROUP: &str = "";

/// The configuration of the controller.
#[derive(Debug)]
pub struct Setup {
    /// The drivers of machines, shared with the LimaVM controller if it runs in this process.
    pub drivers: Drivers,
    /// The preferred port.
    pub first_port: u16,
    /// Provides releases of K3s.
    pub releases: Arc<dyn Releases>,
    /// Publishes contexts.
    pub contexts: Arc<dyn Contexts>,
    /// Sends the requests that determine readiness.
    pub ask: Arc<dyn Ask>,
    /// The clock; tests use a manual one.
    pub clock: SharedClock,
    /// The backoff after failures; only tests change it.
    pub pace: Pace,
}

impl Setup {
    /// The configuration for this instance.
    pub fn of(instance: &Instance, environment: &Environment, drivers: Drivers, clock: &SharedClock) -> Self {
        Self {
            drivers,
            first_port: instance.ports.kubernetes,
            releases: Arc::new(downloads::Downloads::of(instance, environment, clock)),
            contexts: Arc::new(contexts::Files::of(instance, environment)),
            ask: Arc::new(prober::Network::default()),
            clock: Arc::clone(clock),
            pace: Pace::default(),
        }
    }
}

/// The controller.
#[derive(Debug)]
pub struct Controller {
    parts: Parts,
}

#[derive(Debug)]
struct Parts {
    drivers: Drivers,
    first_port: u16,
    releases: Arc<dyn Releases>,
    contexts: Arc<dyn Contexts>,
    gate: Gate,
    prober: Prober,
    memory: Memory,
    app_is_gone: tokio::sync::Notify,
}

impl Controller {
    /// A controller with this configuration.
    pub fn new(setup: Setup) -> Self {
        let Setup { drivers, first_port, releases, contexts, ask, clock, pace } = setup;
        let (gate, prober, memory) = (Gate::default(), Prober::new(ask), Memory::new(clock, pace));
        let app_is_gone = tokio::sync::Notify::new();
        Self { parts: Parts { drivers, first_port, releases, contexts, gate, prober, memory, app_is_gone } }
    }

    /// Stops everything that has no use without this process or without an App.
    fn let_go(&self) {
        self.parts.prober.stop();
        self.parts.memory.let_go();
        self.parts.releases.stop();
        self.parts.gate.release();
    }

    async fn withdraw(&self) {
        if self.parts.contexts.is_there()
            && let Err(error) = self.parts.contexts.withdraw().await
        {
            tracing::warn!(error, "the context of Kubernetes could not be withdrawn");
        }
    }

    /// Withdraws publications of an App that is gone, also those of a process that was killed. Runs until the manager ends.
    async fn withdraw_leftovers(&self, cx: &Context) -> Result<(), Error> {
        let apps: Api<App> = Api::all(cx.client.clone());
        loop {
            // Ask the server: the cache could be empty only because it is not synced.
            if apps.list(&ListParams::default()).await?.items.is_empty() {
                self.withdraw().await;
            }
            self.parts.app_is_gone.notified().await;
        }
    }
}

impl rdd_runtime::Controller for Controller {
    type Object = App;
    type Observed = Observed;
    type Step = Step;

    fn declaration(&self) -> Declaration {
        // There is only one App.
        Declaration::new(NAME, GROUP).workers(1)
    }

    async fn observe(&self, object: Arc<App>, cx: &Context) -> Result<Observed, Error> {
        observe::observe(&self.parts, &object, cx).await
    }

    fn plan(&self, observed: &Observed) -> Plan<Step> {
        plan::plan(observed)
    }

    async fn act(&self, step: &Step, observed: &Observed, cx: &Context) -> Result<(), Error> {
        act::act(&self.parts, step, observed, cx).await
    }

    fn after_failure(&self, failed: &Step, observed: &Observed, error: &Error) -> Option<Step> {
        // The condition's message already names the operation, so the step's name is left out.
        let error = match error {
            Error::Step { source, .. } => source,
            error => error,
        };
        plan::after_failure(failed, observed, &Chain(error).to_string())
    }

    fn background(self: &Arc<Self>) -> Vec<Background> {
        let this = Arc::clone(self);
        vec![Background::new("kubernetes leftovers", move |cx| {
            let this = Arc::clone(&this);
            async move { this.withdraw_leftovers(&cx).await }
        })]
    }

    fn gone(&self, _: &Key) {
        self.let_go();
        self.parts.app_is_gone.notify_one();
    }

    /// Withdraws the publications and closes the port. The LimaVM controller stops the machine, and the cluster with it.
    async fn stop(&self, _: &Context) {
        self.withdraw().await;
        self.let_go();
    }
}
