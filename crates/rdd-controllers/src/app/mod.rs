//! App: the product's one switchboard, carried out by a LimaVM that it owns.

mod act;
pub mod admission;
#[cfg(test)]
mod admission_tests;
pub mod backend;
pub mod conditions;
mod observe;
pub mod plan;
#[cfg(test)]
mod plan_tests;
pub mod settled;
#[cfg(test)]
mod settled_tests;
mod template;
mod webhooks;

use std::{path::PathBuf, sync::Arc};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::ResourceExt;
use rdd_driver::Drivers;
use rdd_instance::{Environment, Instance, Platform};
use rdd_runtime::{Context, Declaration, Error, Key, Plan, Wake};
use rdd_stdx::chain::Chain;
use rdd_types::{
    app::{APP, App, AppSpec, Backend, VM},
    lima::LimaVM,
    names::{DISCOVERY_CONFIG_MAP, SYSTEM_NAMESPACE},
};

use crate::{hostinfo::Host, k3s_versions};

use self::{
    admission::Facts,
    plan::{Observed, Step},
    template::{Base, Values},
};

/// The name by which the controller is selected and discovered.
pub const NAME: &str = "app";
/// The word that selects it with others of its group.
pub const GROUP: &str = "app";

/// What the controller is made of.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The instance whose paths go into the template.
    pub instance: Instance,
    /// The user's home, which the guest mounts.
    pub home: PathBuf,
    /// `RDD_KEEP_LOGS`
    pub keep_logs: bool,
    /// `RDD_TRACE_PACKETS`
    pub trace_packets: bool,
    /// What admission knows of this machine.
    pub facts: Facts,
}

impl Setup {
    /// For this instance, on a machine that has this much.
    pub fn of(instance: &Instance, environment: &Environment, drivers: &Drivers, host: Host) -> Self {
        let places = backend::Places {
            chosen: environment.limactl.clone().map(PathBuf::from),
            path: environment.path.iter().flat_map(std::env::split_paths).collect(),
            bin_dir: instance.paths.bin_dir.clone(),
        };
        let backends = backend::available(drivers, Platform::current());
        let has_driver = backends.contains(&Backend::Lima);
        let facts = Facts {
            cpus: host.cpus,
            memory_bytes: host.memory_bytes,
            vm_cpus: environment.vm_cpus.clone(),
            backend: backend::choose(backend::detect(has_driver, &places)),
            backends,
            channel: k3s_versions::channel,
            supports: k3s_versions::supports,
        };
        Self {
            instance: instance.clone(),
            home: environment.home.clone().map(PathBuf::from).unwrap_or_default(),
            keep_logs: environment.keep_logs,
            trace_packets: environment.trace_packets,
            facts,
        }
    }

    /// The template for these settings. Every value comes from the settings or from the instance, so two instances never share one.
    pub fn render(&self, spec: &AppSpec) -> String {
        let paths = &self.instance.paths;
        let machine = spec.virtual_machine.clone().unwrap_or_default();
        template::render(&Values {
            base: match spec.backend {
                Backend::Lima => Base::Lima { vm_type: backend::lima_vm_type(Platform::current()) },
                // An App that came past the defaulter gets what runs everywhere.
                Backend::Host | Backend::Auto => Base::Host,
            },
            engine: spec.container_engine.name,
            cpus: machine.cpus,
            memory_bytes: machine.memory.and_then(|memory| memory.bytes().ok()),
            // Admission refuses to enable it as long as `admission::KUBERNETES_IS_AVAILABLE` is false.
            kubernetes: None,
            docker_socket: &paths.docker_socket,
            home: &self.home,
            k3s_config: &paths.k3s_config,
            log_dir: &paths.log_dir,
            keep_logs: self.keep_logs,
            trace_packets: self.trace_packets,
        })
    }
}

/// The controller.
#[derive(Debug)]
pub struct Controller {
    setup: Setup,
}

impl Controller {
    /// One of this setup.
    pub fn new(setup: Setup) -> Self {
        Self { setup }
    }
}

impl rdd_runtime::Controller for Controller {
    type Object = App;
    type Observed = Observed;
    type Step = Step;

    fn declaration(&self) -> Declaration {
        let declaration = Declaration::new(NAME, GROUP).crds(rdd_types::crds_of(NAME)).cleans_up();
        let declaration = declaration.owns::<LimaVM>();
        let declaration =
            declaration.watches::<ConfigMap, _>(concerned).watches::<Namespace, _>(|_: &Namespace| Wake::All);
        webhooks::webhooks(&self.setup.facts).into_iter().fold(declaration, Declaration::webhook)
    }

    async fn observe(&self, object: Arc<App>, cx: &Context) -> Result<Observed, Error> {
        observe::observe(&self.setup, &object, cx).await
    }

    fn plan(&self, observed: &Observed) -> Plan<Step> {
        plan::plan(observed)
    }

    async fn act(&self, step: &Step, observed: &Observed, cx: &Context) -> Result<(), Error> {
        act::act(step, observed, cx).await
    }

    fn after_failure(&self, failed: &Step, observed: &Observed, error: &Error) -> Option<Step> {
        plan::after_failure(failed, observed, &Chain(error).to_string())
    }
}

/// ConfigMaps that an App depends on: its input, its VM's template (an edit by hand is overwritten), and who else runs.
fn concerned(map: &ConfigMap) -> Wake {
    let name = map.name_any();
    let is_discovery = name == DISCOVERY_CONFIG_MAP && map.namespace().as_deref() == Some(SYSTEM_NAMESPACE);
    let is_ours = name == VM || name == LimaVM::template_config_map(VM);
    if is_discovery || is_ours { Wake::One(Key::cluster(APP)) } else { Wake::Nothing }
}
