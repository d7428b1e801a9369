//! LimaVM: a VM, or what stands in for one, kept as its object and its template want it.

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

/// The name by which the controller is selected and discovered.
pub const NAME: &str = "limavm";
/// The word that selects it with others of its group.
pub const GROUP: &str = "lima";

/// What the controller is made of.
#[derive(Debug)]
pub struct Setup {
    /// What runs the VMs.
    pub drivers: Drivers,
    /// How the logs of VMs are kept.
    pub log: LogOptions,
    /// Where time comes from.
    pub clock: SharedClock,
    /// How failures are paced; the default but for tests.
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
    /// One that asks this API. Admission needs it before there is anything to reconcile.
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

    /// Every VM gets its time to stop by itself, all at once.
    async fn stop(&self, _: &Context) {
        self.machines.stop_all(STOP_GRACE).await;
    }
}
