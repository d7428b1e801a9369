//! Kubernetes: K3s in the App's machine, reachable at a port that this process holds, with a context for everybody.
//!
//! | what | where |
//! |---|---|
//! | the port | `gate`: bound here, published in `status.kubernetesPort`, closed when Kubernetes is disabled |
//! | the cluster | [`rdd_driver::Cluster`]: what the machine's driver runs |
//! | whether it is there | [`prober`]: asked through the port, with the published kubeconfig |
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

/// The name by which the controller is selected and discovered.
pub const NAME: &str = "kubernetes";
/// No word but its name and `*` selects it.
pub const GROUP: &str = "";

/// What the controller is made of.
#[derive(Debug)]
pub struct Setup {
    /// What runs the machines; the same that the LimaVM controller has, where it is in this process.
    pub drivers: Drivers,
    /// The port to try first.
    pub first_port: u16,
    /// Where releases come from.
    pub releases: Arc<dyn Releases>,
    /// Where contexts are published.
    pub contexts: Arc<dyn Contexts>,
    /// Who asks whether the cluster is there.
    pub ask: Arc<dyn Ask>,
    /// Where time comes from.
    pub clock: SharedClock,
    /// How failures are paced; the default but for tests.
    pub pace: Pace,
}

impl Setup {
    /// For this instance.
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
    /// One of this setup.
    pub fn new(setup: Setup) -> Self {
        let Setup { drivers, first_port, releases, contexts, ask, clock, pace } = setup;
        let (gate, prober, memory) = (Gate::default(), Prober::new(ask), Memory::new(clock, pace));
        let app_is_gone = tokio::sync::Notify::new();
        Self { parts: Parts { drivers, first_port, releases, contexts, gate, prober, memory, app_is_gone } }
    }

    /// Lets go of what leads nowhere without this process, or without an App.
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

    /// Takes away what is published of an App that is gone: now, or under a daemon that was killed.
    async fn withdraw_leftovers(&self, cx: &Context) -> Result<(), Error> {
        let apps: Api<App> = Api::all(cx.client.clone());
        loop {
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
        // Which step it was is in what is said of it.
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

    /// The machine's controller stops the machine, and with it the cluster. What leads there goes now.
    async fn stop(&self, _: &Context) {
        self.withdraw().await;
        self.let_go();
    }
}
