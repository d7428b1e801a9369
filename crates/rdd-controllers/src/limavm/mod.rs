//! LimaVM: keeps a VM (or the host in its place) in the state that its object and its template describe.

mod act;
mod admission;
pub mod machine;
#[cfg(test)]
mod machine_tests;
mod observe;
pub mod observed;
pub mod plan;
#[cfg(test)]
mod plan_tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use rdd_driver::{Drivers, LogOptions};
use rdd_runtime::{Context, Declaration, Error, Key, Plan};
use rdd_stdx::{chain::Chain, clock::SharedClock};
use rdd_types::lima::LimaVM;

use self::{
    machine::{Machines, Pace, STOP_GRACE},
    observed::Observed,
    plan::Step,
};

/// The controller's name, in `--controllers` and in discovery.
pub const NAME: &str = "limavm";
/// The controller's group in `--controllers`.
pub const GROUP: &str = "lima";

/// The configuration of the controller.
#[derive(Debug)]
pub struct Setup {
    /// The drivers that run VMs.
    pub drivers: Drivers,
    /// The options for the logs of VMs.
    pub log: LogOptions,
    /// The clock; tests use a manual one.
    pub clock: SharedClock,
    /// The backoff after failures; only tests change it.
    pub pace: Pace,
}

/// The controller.
pub struct Controller {
    client: Client,
    clock: SharedClock,
    machines: Machines,
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller").field("machines", &self.machines).finish_non_exhaustive()
    }
}

impl Controller {
    /// A controller with this configuration. Admission uses `client` before the first reconcile.
    pub fn new(client: Client, setup: Setup) -> Self {
        let Setup { drivers, log, clock, pace } = setup;
        Self { client, machines: Machines::new(drivers, log, Arc::clone(&clock), pace), clock }
    }
}

impl rdd_runtime::Controller for Controller {
    type Object = LimaVM;
    type Observed = Observed;
    type Step = Step;

    fn declaration(&self) -> Declaration {
        let declaration = Declaration::new(NAME, GROUP).crds(rdd_types::crds_of(NAME)).cleans_up();
        let declaration = declaration.owns::<ConfigMap>();
        admission::webhooks(&self.client, &self.clock, self.machines.drivers())
            .into_iter()
            .fold(declaration, Declaration::webhook)
    }

    async fn observe(&self, object: Arc<LimaVM>, cx: &Context) -> Result<Observed, Error> {
        observe::observe(&self.machines, &object, cx).await
    }

    fn plan(&self, observed: &Observed) -> Plan<Step> {
        plan::plan(observed)
    }

    async fn act(&self, step: &Step, observed: &Observed, cx: &Context) -> Result<(), Error> {
        act::act(&self.machines, step, observed, cx).await
    }

    fn after_failure(&self, failed: &Step, observed: &Observed, error: &Error) -> Option<Step> {
        plan::after_failure(failed, observed, &Chain(error).to_string())
    }

    fn gone(&self, key: &Key) {
        self.machines.forget(key);
    }

    /// Stops all VMs concurrently and gracefully.
    async fn stop(&self, _: &Context) {
        self.machines.stop_all(STOP_GRACE).await;
    }
}
