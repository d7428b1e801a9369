//! The App controller: one object with all settings, carried out by a LimaVM that the App owns.

mod act;
pub mod admission;
#[cfg(test)]
mod admission_tests;
pub mod backend;
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
/// The group name that selects it together with the other controllers of the group.
pub const GROUP: &str = "app";

/// What the controller needs.
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
    /// The YAML in the file that `RDD_VM_IMAGE` names: images for the virtual machine that replace the downloaded ones.
    pub images: Option<String>,
    /// What admission knows about this machine.
    pub facts: Facts,
}

impl Setup {
    /// Collects what the controller needs for this instance on this machine. May run `limactl` and test for hardware acceleration.
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

    /// Renders the template for these settings, with the Kubernetes port once one is bound. Every value comes from the settings or
    /// from the instance, so that two instances never share one.
    pub fn render(&self, spec: &AppSpec, kubernetes_port: Option<u16>) -> String {
        let paths = &self.instance.paths;
        let wanted = spec.kubernetes.as_ref().filter(|kubernetes| kubernetes.enabled);
        let release = wanted.and_then(|wanted| k3s_versions::full(wanted.version.as_deref().unwrap_or_default()));
        let machine = spec.virtual_machine.clone().unwrap_or_default();
        template::render(&Values {
            base: match spec.backend {
                Backend::Lima => Base::Lima { vm_type: backend::lima_vm_type(Platform::current()) },
                // An App that bypassed defaulting gets the backend that works everywhere.
                Backend::Host | Backend::Auto => Base::Host,
            },
            engine: spec.container_engine.name,
            cpus: machine.cpus,
            memory_bytes: machine.memory.and_then(|memory| memory.bytes().ok()),
            // The template gets a port only after the Kubernetes controller has bound it.
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

/// Reads the file with images. If that fails, it logs the error and the VM uses the downloaded images.
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
    /// Creates the controller.
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

/// Wakes the App for the ConfigMaps that it depends on: its template input, its VM's template (to overwrite edits by hand), and the list of
/// managers (which other controllers run).
fn concerned(map: &ConfigMap) -> Wake {
    let name = map.name_any();
    let is_discovery = name == DISCOVERY_CONFIG_MAP && map.namespace().as_deref() == Some(SYSTEM_NAMESPACE);
    let is_ours = name == VM || name == LimaVM::template_config_map(VM);
    if is_discovery || is_ours { Wake::One(Key::cluster(APP)) } else { Wake::Nothing }
}
