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

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

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
    admission::{Facts, UsedRelease},
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
    /// What `RDD_VM_IMAGE` names: the images of the virtual machine, instead of those that are downloaded.
    pub images: Option<String>,
    /// What admission knows of this machine.
    pub facts: Facts,
}

impl Setup {
    /// For this instance, on a machine that has this much.
    pub fn of(instance: &Instance, environment: &Environment, drivers: &Drivers, host: Host) -> Self {
        let backends = backend::available(drivers, Platform::current());
        let has_driver = backends.contains(&Backend::Lima);
        let facts = Facts {
            cpus: host.cpus,
            memory_bytes: host.memory_bytes,
            vm_cpus: environment.vm_cpus.clone(),
            backend: backend::choose(detect(has_driver, instance, environment)),
            backends,
            channel: k3s_versions::channel,
            supports: k3s_versions::supports,
            full: k3s_versions::full,
            used_release: UsedRelease::from_drivers(drivers),
        };
        Self {
            instance: instance.clone(),
            home: environment.home.clone().map(PathBuf::from).unwrap_or_default(),
            keep_logs: environment.keep_logs,
            trace_packets: environment.trace_packets,
            images: environment.vm_image.as_deref().and_then(|path| read_images(Path::new(path))),
            facts,
        }
    }

    /// The template for these settings, and for the port of Kubernetes once there is one. Every value comes from the settings or
    /// from the instance, so two instances never share one.
    pub fn render(&self, spec: &AppSpec, kubernetes_port: Option<u16>) -> String {
        let paths = &self.instance.paths;
        let wanted = spec.kubernetes.as_ref().filter(|kubernetes| kubernetes.enabled);
        let release = wanted.and_then(|wanted| k3s_versions::full(wanted.version.as_deref().unwrap_or_default()));
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
            // Only what is bound is told: without a port there is nothing to tell yet.
            kubernetes: release.as_deref().zip(kubernetes_port).map(|(release, port)| template::Kubernetes {
                version: release.strip_prefix('v').unwrap_or(release),
                port,
            }),
            docker_socket: &paths.docker_socket,
            kubernetes_socket: &paths.kubernetes_socket,
            guest_kubernetes_port: self.instance.ports.kubernetes,
            home: &self.home,
            log_dir: &paths.log_dir,
            keep_logs: self.keep_logs,
            trace_packets: self.trace_packets,
            images: self.images.as_deref(),
        })
    }
}

#[cfg(target_os = "linux")]
fn detect(has_driver: bool, instance: &Instance, environment: &Environment) -> backend::Facts {
    use rdd_driver::lima::{Accelerator, LimaDriver, Places, find_limactl};
    let has_limactl = find_limactl(&Places::of(environment, &instance.paths.bin_dir)).is_some();
    let driver = LimaDriver::new(instance, environment, None);
    backend::detect(has_driver, has_limactl, || driver.accelerator().is_ok_and(|found| found == Accelerator::Kvm))
}

#[cfg(not(target_os = "linux"))]
fn detect(has_driver: bool, _instance: &Instance, _environment: &Environment) -> backend::Facts {
    backend::detect(has_driver, false, || false)
}

/// A file that cannot be read is told of, and the images are those that are downloaded.
fn read_images(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path);
    text.inspect_err(|error| tracing::error!(path = %path.display(), %error, "RDD_VM_IMAGE cannot be read")).ok()
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
