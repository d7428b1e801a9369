//! The Lima driver (`vmType: qemu`): runs VMs with `limactl` and its host agent, as processes that outlive the daemon.
//!
//! Each machine has a host agent, which starts QEMU and SSH connections. All of them have a mark in their environment
//! (`identity`), so that a daemon that restarts after a kill finds its own processes and no others. The original
//! Rancher Desktop's processes have no mark; they are identified by the PID file in their arguments. A host agent
//! reports its state as JSON lines in a file, so the driver can adopt one that an earlier daemon started.
//!
//! Without hardware acceleration, Lima starts rdd in place of QEMU, under the name [`SHIM`], and rdd starts QEMU with
//! [other arguments](emulated).

mod accelerator;
mod agent;
mod check;
mod clock;
mod cluster;
mod events;
mod image;
mod limactl;
mod machine;
mod supply;
mod teardown;
mod words;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use rdd_instance::{Environment, Instance};
use rdd_stdx::{
    chain::Chain,
    clock::{SharedClock, SystemClock},
};

#[cfg(feature = "suite")]
pub use self::check::cases as template_cases;
pub use self::{
    accelerator::{Accelerator, SHIM, emulated, find_qemu},
    limactl::{Places, find_limactl},
};
use self::{
    agent::Agent,
    check::{CheckContext, find_problems},
    machine::{Host, Machine, Shape, VM_TYPE},
    supply::Supply,
    teardown::teardown,
};
use crate::{
    Cluster, Driver, Error, Found, LogOptions, Pending, Run, Stopped, Template,
    assets::{self, Need},
    check_name,
    watch::Watch,
};

/// The grace period for a machine that is deleted while it runs, and for leftovers of an earlier start.
const REMAINS_GRACE: Duration = Duration::from_secs(10);
/// The folders of system programs; a user's `PATH` often lacks them.
const ADMINISTRATION: &str = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin";
/// Lima's folder for global settings.
const SETTINGS_DIR: &str = "_config";
/// The folder in Lima's home in which rdd keeps its own files.
const OWN_DIR: &str = ".rdd";

/// The driver of `vmType: qemu`.
#[derive(Debug)]
pub struct LimaDriver {
    instance: Instance,
    host: Arc<Host>,
    supply: Supply,
    clock: SharedClock,
    slots: Mutex<BTreeMap<String, Arc<Slot>>>,
}

/// The driver's state of one machine.
#[derive(Debug, Default)]
struct Slot {
    /// Serializes changes of the machine.
    turn: tokio::sync::Mutex<()>,
    watched: Watch,
    /// Serializes changes of its Kubernetes. Separate from `turn`, so that a stop of the machine does not wait for a
    /// slow guest.
    cluster_turn: tokio::sync::Mutex<()>,
    cluster: Watch,
    /// Whether the guest used control groups of version 1 at the last inspection.
    has_cgroup_v1: AtomicBool,
}

impl LimaDriver {
    /// Creates the driver for the machines of one instance. `shim` is the program that starts QEMU with [emulated]
    /// arguments when it is called as [`SHIM`]: rdd itself.
    pub fn new(instance: &Instance, environment: &Environment, shim: Option<PathBuf>) -> Self {
        let mut path = environment.path.clone().unwrap_or_default();
        if !path.is_empty() {
            path.push(":");
        }
        // Last, so that the user's own programs take precedence.
        path.push(ADMINISTRATION);
        let lima_home = instance.paths.lima_home.clone();
        let host = Host {
            own_dir: lima_home.join(OWN_DIR),
            lima_home,
            short_dir: instance.paths.short_dir.clone(),
            places: Places::of(environment, &instance.paths.bin_dir),
            path,
            cache: PathBuf::from(environment.home.clone().unwrap_or_default()).join(".cache"),
            is_root: rustix::process::geteuid().is_root(),
            shim,
            accelerator: OnceLock::new(),
            has_warned: AtomicBool::new(false),
            version: Mutex::default(),
        };
        let supply = Supply::of(instance, environment);
        let clock = SystemClock::shared();
        Self { instance: instance.clone(), host: Arc::new(host), supply, clock, slots: Mutex::default() }
    }

    /// Replaces the clock whose time the guests get.
    #[must_use]
    pub fn with_clock(self, clock: SharedClock) -> Self {
        Self { clock, ..self }
    }

    /// Makes the driver assume that it does not run as root, for tests by root with a stand-in for `limactl`.
    #[cfg(feature = "suite")]
    #[must_use]
    pub fn as_if_not_root(mut self) -> Self {
        if let Some(host) = Arc::get_mut(&mut self.host) {
            host.is_root = false;
        }
        self
    }

    /// Limits the programs to those in these folders, for tests of missing programs.
    #[cfg(feature = "suite")]
    #[must_use]
    pub fn with_programs_of(mut self, path: std::ffi::OsString) -> Self {
        if let Some(host) = Arc::get_mut(&mut self.host) {
            host.path = path;
        }
        self
    }

    /// How VMs run on this host. The first call tries the accelerator out.
    pub fn accelerator(&self) -> Result<Accelerator, Error> {
        self.host.accelerator().cloned()
    }

    fn machine(&self, vm: &str) -> Result<Machine, Error> {
        check_name(vm)?;
        Ok(Machine { vm: vm.to_owned(), folder: self.instance.paths.machine(vm), host: Arc::clone(&self.host) })
    }

    fn slot(&self, vm: &str) -> Arc<Slot> {
        Arc::clone(lock(&self.slots).entry(vm.to_owned()).or_default())
    }

    /// Starts to watch a host agent.
    fn watch(slot: &Slot, agent: Agent) -> Run {
        slot.watched.begin("host agent", |reporter| Box::pin(async move { agent.supervise(reporter).await }))
    }

    async fn stop_machine(&self, machine: &Machine, grace: Duration, word: &str) -> Result<Stopped, Error> {
        let slot = self.slot(&machine.vm);
        let reporter = slot.watched.end().await;
        let stopped = teardown(machine, grace).await?;
        if stopped != Stopped::Already {
            tracing::info!(vm = machine.vm, how = ?stopped, "the machine has stopped");
            if let Some(reporter) = reporter {
                reporter.report(stopped.exited(word));
            }
        }
        Ok(stopped)
    }

    /// Adopts the host agent that an earlier daemon left running; tears down what cannot be adopted.
    async fn take_over(&self, machine: &Machine, slot: &Slot) -> Result<Option<Run>, Error> {
        slot.watched.end().await;
        match machine.look()? {
            Found::Running(_) => {
                // The version is needed only for the warning; a missing `limactl` does not affect a running machine.
                let host = Arc::clone(&self.host);
                let _ = tokio::task::spawn_blocking(move || host.usable_limactl().map(drop)).await;
                if let Some(seen) = machine.agent(&machine.processes())
                    && let Some(agent) = Agent::adopt(machine, &seen)?
                {
                    return Ok(Some(Self::watch(slot, agent)));
                }
            }
            Found::Absent => return Ok(None),
            Found::Broken { .. } | Found::HalfMade | Found::Stopped => {}
        }
        // A machine that ended without a daemon leaves files behind, such as the sockets of its dead agent.
        teardown(machine, REMAINS_GRACE).await?;
        Ok(None)
    }

    /// Checks a template without running `limactl`.
    fn check(template: &str) -> Result<(), Vec<String>> {
        let template = Template::parse(template)?;
        match template.vm_type.as_deref() {
            None | Some(VM_TYPE) => Ok(()),
            Some(other) => Err(vec![format!("field `vmType` must be {VM_TYPE:?}, and is {other:?}")]),
        }
    }

    async fn validated(&self, machine: &Machine, template: &str) -> Result<(), Error> {
        let (host, text) = (Arc::clone(&self.host), template.to_owned());
        let checked = tokio::task::spawn_blocking(move || validate(&host, &text)).await;
        let checked =
            checked.map_err(|error| Error::System { action: "check a template".to_owned(), source: error.into() })?;
        checked.map_err(|problems| Error::InvalidTemplate { vm: machine.vm.clone(), problems })
    }
}

/// Validates a template: by `limactl` if it is installed, else by our copy of its rules.
fn validate(host: &Host, template: &str) -> Result<(), Vec<String>> {
    LimaDriver::check(template)?;
    if host.lacks_limactl()
        && let Some(release) = assets::lima(std::env::consts::ARCH)
    {
        // `limactl` will be downloaded when the first machine is created, and validates the template then.
        let settings = host.lima_home.join(SETTINGS_DIR);
        let has = |name: &str| settings.join(name).exists();
        let context = CheckContext {
            lima_version: release.version,
            has_global_settings: has("default.yaml") || has("override.yaml"),
            has_own_networks: has("networks.yaml"),
        };
        let problems = find_problems(template, &context);
        return if problems.is_empty() { Ok(()) } else { Err(problems) };
    }
    let limactl = host.limactl().map_err(|error| vec![Chain(&error).to_string()])?;
    limactl.validate(template)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the machine's folder in a blocking task, because it holds the disks.
async fn unmake(machine: Machine) -> Result<(), Error> {
    let removed = tokio::task::spawn_blocking(move || machine.unmake()).await;
    removed.map_err(|error| Error::System { action: "remove a machine".to_owned(), source: error.into() })?
}

impl Driver for LimaDriver {
    fn vm_types(&self) -> &'static [&'static str] {
        &[VM_TYPE]
    }

    fn available(&self) -> Result<(), Error> {
        self.host.usable_limactl()?;
        self.host.qemu().map(|_| ())
    }

    fn validate(&self, template: &str) -> Result<(), Vec<String>> {
        // `limactl validate` blocks for a moment; other tasks move to other threads meanwhile.
        let is_shared = tokio::runtime::Handle::try_current()
            .is_ok_and(|runtime| runtime.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread);
        if is_shared {
            return tokio::task::block_in_place(|| validate(&self.host, template));
        }
        validate(&self.host, template)
    }

    fn inspect<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Found, Error>> {
        Box::pin(async move { self.machine(vm)?.look() })
    }

    fn template<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<String>, Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            if machine.shape() == Shape::Whole { machine.template().map(Some) } else { Ok(None) }
        })
    }

    fn create<'a>(&'a self, vm: &'a str, template: &'a str) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            let slot = self.slot(vm);
            let _turn = slot.turn.lock().await;
            self.supply.ensure_limactl(&self.host, vm).await?;
            self.validated(&machine, template).await?;
            match machine.shape() {
                // A complete machine stays as it is, whatever the template.
                Shape::Whole => return Ok(()),
                Shape::Absent if machine.folder.exists() => {
                    let folder = machine.folder.display();
                    // The host driver uses the same folders; its machine must not be overwritten.
                    return Err(Error::InTheWay { what: format!("a machine of another kind has the folder {folder}") });
                }
                Shape::Absent | Shape::HalfMade => {}
            }
            let limactl = self.host.usable_limactl()?;
            self.host.require(Need::Machine)?;
            // Downloads come before any change of the machine, because they can take long and fail.
            self.supply.ensure_images(&self.host, vm, template).await?;
            // Finding O-3: an interrupted creation never counts as a complete machine; start from scratch.
            teardown(&machine, REMAINS_GRACE).await?;
            unmake(machine.clone()).await?;
            machine.make(&limactl, template).await
        })
    }

    fn start<'a>(&'a self, vm: &'a str, log: &'a LogOptions) -> Pending<'a, Result<Run, Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            let slot = self.slot(vm);
            let _turn = slot.turn.lock().await;
            if let Some(run) = slot.watched.under_way() {
                return Ok(run);
            }
            machine.expect_whole()?;
            if let Some(run) = self.take_over(&machine, &slot).await? {
                return Ok(run);
            }
            self.supply.ensure_limactl(&self.host, vm).await?;
            let (subject, options) = (machine.clone(), log.clone());
            // Starting runs limactl and the trial of the accelerator, which block.
            let started = tokio::task::spawn_blocking(move || Agent::start(&subject, &options)).await;
            let agent = started
                .map_err(|error| Error::System { action: "start a machine".to_owned(), source: error.into() })??;
            Ok(Self::watch(&slot, agent))
        })
    }

    fn adopt<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<Run>, Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            let slot = self.slot(vm);
            let _turn = slot.turn.lock().await;
            match slot.watched.under_way() {
                Some(run) => Ok(Some(run)),
                None => self.take_over(&machine, &slot).await,
            }
        })
    }

    fn stop<'a>(&'a self, vm: &'a str, grace: Duration) -> Pending<'a, Result<Stopped, Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            let slot = self.slot(vm);
            let _turn = slot.turn.lock().await;
            self.stop_machine(&machine, grace, "stopped").await
        })
    }

    fn apply_template<'a>(&'a self, vm: &'a str, template: &'a str) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            let slot = self.slot(vm);
            let _turn = slot.turn.lock().await;
            machine.expect_whole()?;
            self.validated(&machine, template).await?;
            let limactl = self.host.limactl()?;
            machine.write_template(&limactl, template)
        })
    }

    fn delete<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            let slot = self.slot(vm);
            let _turn = slot.turn.lock().await;
            self.stop_machine(&machine, REMAINS_GRACE, "deleted").await?;
            unmake(machine).await
        })
    }

    fn progress(&self, vm: &str) -> Option<String> {
        self.supply.progress(vm)
    }

    fn warning(&self, vm: &str) -> Option<String> {
        let machine = self.machine(vm).ok()?;
        if machine.shape() == Shape::Whole { self.host.warning() } else { None }
    }

    fn kubernetes(&self) -> Option<&dyn Cluster> {
        Some(self)
    }
}
