//! The host driver (`vmType: host`, Linux): runs the instance's own container engine as processes of this host, without
//! a VM.
//!
//! Each engine has its own data, sockets, `containerd`, bridge, addresses, packet rules and control group. The driver
//! marks the processes that it starts in their environment (`identity`), so that a daemon that restarts after a kill
//! finds its own processes and no others. The driver writes the packet rules itself (`rules`), so that engines in one
//! network namespace do not interfere with each other.
//!
//! A machine can use an existing engine instead (`param.HOST_ENGINE_SOCKET`). The driver watches it and never starts or
//! stops it. The instance's socket is then a symbolic link to the engine's socket: it supports every protocol that
//! clients use (attach, exec, build sessions), and the engine's own permissions apply.

mod ask;
mod cluster;
mod command;
mod images;
mod journal;
mod k3s;
mod machine;
mod mounts;
mod needs;
mod network;
mod parts;
mod programs;
mod rules;
mod settings;
mod start;
mod supervise;
mod teardown;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rdd_instance::{Environment, Instance};
use rdd_stdx::clock::SharedClock;

use self::{
    journal::Journal,
    machine::{Machine, Shape},
    programs::Programs,
    settings::Settings,
    teardown::teardown,
};
use crate::{Driver, Error, Found, LogOptions, Pending, Run, Stopped, check_name, identity, watch::Watch};

/// The grace period for an engine that is deleted while it runs, and for leftovers of an earlier start.
const REMAINS_GRACE: Duration = Duration::from_secs(10);

/// The driver of `vmType: host`.
#[derive(Debug)]
pub struct HostDriver {
    instance: Instance,
    runtime_dir: PathBuf,
    host: Arc<machine::Host>,
    slots: Mutex<BTreeMap<String, Arc<Slot>>>,
    /// What each K3s program includes, cached by file.
    bundles: needs::Bundles,
}

/// The driver's state of one machine.
#[derive(Debug, Default)]
struct Slot {
    /// Serializes changes of the machine.
    turn: tokio::sync::Mutex<()>,
    /// The watch of the engine.
    watched: Watch,
    /// The watch of the machine's Kubernetes.
    cluster: Watch,
}

impl HostDriver {
    /// Creates the driver for the machines of one instance.
    pub fn new(instance: &Instance, environment: &Environment, clock: SharedClock) -> Self {
        Self::for_user(instance, environment, clock, rustix::process::geteuid().is_root())
    }

    fn for_user(instance: &Instance, environment: &Environment, clock: SharedClock, is_root: bool) -> Self {
        let chosen = environment.runtime_dir.as_deref().map(PathBuf::from).filter(|_| !is_root);
        let host = machine::Host {
            programs: Programs::new(environment.path.as_deref()),
            is_root,
            has_runtime_dir: is_root || chosen.is_some(),
            short_dir: instance.paths.short_dir.clone(),
            clock,
        };
        Self {
            instance: instance.clone(),
            // A user without root and without a runtime folder gets a path, but `start` refuses to use it.
            runtime_dir: chosen.unwrap_or_else(|| PathBuf::from("/run")),
            host: Arc::new(host),
            slots: Mutex::default(),
            bundles: needs::Bundles::default(),
        }
    }

    fn machine(&self, vm: &str) -> Result<Machine, Error> {
        check_name(vm)?;
        let engine = self.instance.engine(vm, &self.runtime_dir);
        Ok(Machine { vm: vm.to_owned(), engine, host: Arc::clone(&self.host) })
    }

    fn slot(&self, vm: &str) -> Arc<Slot> {
        Arc::clone(lock(&self.slots).entry(vm.to_owned()).or_default())
    }

    /// Starts to watch an engine.
    fn watch(slot: &Slot, engine: supervise::Engine) -> Run {
        slot.watched.begin("engine", |reporter| Box::pin(async move { engine.supervise(reporter).await }))
    }

    async fn stop_machine(&self, vm: &str, grace: Duration, word: &str) -> Result<Stopped, Error> {
        let machine = self.machine(vm)?;
        let slot = self.slot(vm);
        let reporter = slot.watched.end().await;
        // Write the state to the machine's log even if no watch is running, as after a restart of the daemon.
        let stopped = teardown(&machine, grace).await?;
        if stopped != Stopped::Already {
            let exited = stopped.exited(word);
            tracing::info!(vm, how = ?stopped, "the engine has stopped");
            if let Ok(journal) = Journal::resume(&machine.engine.folder, self.host.clock.clone()) {
                journal.state(&exited);
            }
            if let Some(reporter) = reporter {
                reporter.report(exited);
            }
        }
        Ok(stopped)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the machine's folder in a blocking task, because it may hold an engine's data.
async fn unmake(machine: Machine) -> Result<(), Error> {
    // Without root, files of the engine can belong to users of its namespace; they have to be removed there first.
    if !machine.host.is_root {
        machine.remove_folder(&machine.engine.data_root).await?;
    }
    let removed = tokio::task::spawn_blocking(move || machine.unmake()).await;
    removed.map_err(|error| Error::System { action: "remove a machine".to_owned(), source: error.into() })?
}

impl Driver for HostDriver {
    fn vm_types(&self) -> &'static [&'static str] {
        &[machine::VM_TYPE]
    }

    fn available(&self) -> Result<(), Error> {
        let settings = Settings { engine: settings::Kind::Moby, docker_socket: None };
        start::check(&self.host, &settings)
    }

    fn validate(&self, template: &str) -> Result<(), Vec<String>> {
        Settings::of(template, &self.host.short_dir).map(|_| ())
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
            machine.settings_of(template)?;
            let slot = self.slot(vm);
            let _turn = slot.turn.lock().await;
            // An interrupted creation is cleared away and repeated; a complete machine stays as it is.
            match machine.shape() {
                Shape::Whole => return Ok(()),
                Shape::Absent if machine.engine.folder.exists() => {
                    let folder = machine.engine.folder.display();
                    return Err(Error::InTheWay { what: format!("a machine of another kind has the folder {folder}") });
                }
                Shape::Absent | Shape::HalfMade => {}
            }
            if machine.shape() == Shape::HalfMade || machine.engine.run_dir.exists() {
                teardown(&machine, REMAINS_GRACE).await?;
                unmake(machine.clone()).await?;
            }
            machine.make(template)
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
            let engine = start::start(&machine, log).await?;
            Ok(Self::watch(&slot, engine))
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
            check_name(vm)?;
            let slot = self.slot(vm);
            let _turn = slot.turn.lock().await;
            self.stop_machine(vm, grace, "stopped").await
        })
    }

    fn apply_template<'a>(&'a self, vm: &'a str, template: &'a str) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            machine.settings_of(template)?;
            let slot = self.slot(vm);
            let _turn = slot.turn.lock().await;
            machine.expect_whole()?;
            machine.write_template(template)
        })
    }

    fn delete<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            let machine = self.machine(vm)?;
            let slot = self.slot(vm);
            let _turn = slot.turn.lock().await;
            self.stop_machine(vm, REMAINS_GRACE, "deleted").await?;
            unmake(machine).await
        })
    }

    fn kubernetes(&self) -> Option<&dyn crate::Cluster> {
        Some(self)
    }
}

impl HostDriver {
    /// Adopts the engine that an earlier daemon left running; tears down what cannot be adopted.
    async fn take_over(&self, machine: &Machine, slot: &Slot) -> Result<Option<Run>, Error> {
        slot.watched.end().await;
        match machine.look()? {
            Found::Running(_) => {
                if let Some(engine) = start::adopt(machine)? {
                    return Ok(Some(Self::watch(slot, engine)));
                }
            }
            Found::Broken { .. } => {}
            // A run folder without processes remains after a power loss or a kill; it has to be torn down as well.
            Found::Absent | Found::HalfMade | Found::Stopped if !remains(&machine.engine.run_dir) => return Ok(None),
            Found::Absent | Found::HalfMade | Found::Stopped => {}
        }
        teardown(machine, REMAINS_GRACE).await?;
        Ok(None)
    }
}

/// Reports whether an engine ended without a teardown: after a power loss, or when it and its daemon were killed.
fn remains(run_dir: &Path) -> bool {
    run_dir.symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use rdd_instance::Platform;
    use rdd_stdx::clock::SystemClock;

    use super::*;

    // Finding E-8
    #[tokio::test]
    async fn a_user_without_a_runtime_folder_gets_the_remedy_once_from_every_start() {
        let home = tempfile::tempdir().unwrap();
        let environment = Environment { home: Some(home.path().into()), ..Environment::default() };
        let instance = Instance::resolve(&environment, Platform::Linux).unwrap();
        let driver = HostDriver::for_user(&instance, &environment, SystemClock::shared(), false);
        driver.create("vm", "vmType: host\n").await.unwrap();
        let refused = driver.start("vm", &LogOptions::default()).await.unwrap_err().to_string();
        for once in [start::NO_RUNTIME_DIR, start::RUNTIME_DIR_REMEDY] {
            assert_eq!(refused.matches(once).count(), 1, "{once}: {refused}");
        }
        assert_eq!(driver.available().unwrap_err().to_string(), refused);
        let environment = Environment { runtime_dir: Some(home.path().into()), ..environment };
        let driver = HostDriver::for_user(&instance, &environment, SystemClock::shared(), false);
        let refused = driver.available().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(!refused.contains(start::NO_RUNTIME_DIR), "{refused}");
    }
}
