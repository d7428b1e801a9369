//! One machine on disk: its folder, whether it is complete, and which of its processes run.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rdd_instance::Engine;
use rdd_stdx::{
    clock::SharedClock,
    file::{self, PRIVATE},
    owned,
};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    command::run_within,
    identity::{CLUSTER_MARK, Launch, MARK, ProcessScope, Record, Seen},
    mounts,
    network::{Remembered, Tools},
    parts::Part,
    programs::Programs,
    settings::{Kind, Settings},
};
use crate::{Error, Found, Running, template, trust::check_machine_folder};

/// The settings that all machines of a driver share.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) programs: Programs,
    pub(super) is_root: bool,
    /// Whether a runtime folder exists: `/run` for root, else the user's `XDG_RUNTIME_DIR`.
    pub(super) has_runtime_dir: bool,
    /// The folder below which templates may place sockets.
    pub(super) short_dir: PathBuf,
    pub(super) clock: SharedClock,
}

/// One machine. It is cheap to clone and holds no state of its own.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub(super) vm: String,
    pub(super) engine: Engine,
    pub(super) host: Arc<Host>,
}

/// The `vmType` of this driver.
pub(super) const VM_TYPE: &str = "host";

/// This file exists while a creation or deletion is in progress.
const SENTINEL: &str = ".preparing";
const TEMPLATE: &str = "lima.yaml";
const NETWORK: &str = "network.json";
/// The configuration file of `dockerd`. Created empty; the user may edit it.
const DAEMON_CONFIG: &str = "daemon.json";
const CONTAINERD_CONFIG: &str = "containerd.toml";
/// The template that the current start uses. The file exists as long as processes may run.
const STARTED: &str = "started.yaml";
/// The nonce of the last start, which proves that a process belongs to it.
const LAUNCH: &str = "launch.json";

/// The timeout for `rm` in the engine's namespace to remove an engine's data.
const REMOVAL_TAKES: Duration = Duration::from_secs(600);

/// The state of the machine's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Absent,
    HalfMade,
    Whole,
}

impl Machine {
    fn sentinel(&self) -> PathBuf {
        self.engine.folder.join(SENTINEL)
    }

    fn template_file(&self) -> PathBuf {
        self.engine.folder.join(TEMPLATE)
    }

    fn started_file(&self) -> PathBuf {
        self.engine.run_dir.join(STARTED)
    }

    /// The configuration file of `dockerd`.
    pub(super) fn daemon_config(&self) -> PathBuf {
        self.engine.folder.join(DAEMON_CONFIG)
    }

    /// The configuration file of `containerd`.
    pub(super) fn containerd_config(&self) -> PathBuf {
        self.engine.folder.join(CONTAINERD_CONFIG)
    }

    /// Reads the state of the folder. A machine of another driver counts as absent, though it uses the same path.
    pub(super) fn shape(&self) -> Shape {
        let exists = |path: PathBuf| path.symlink_metadata().is_ok();
        // Lima's machines have the same folders; their template names another `vmType`.
        if !exists(self.engine.folder.clone()) || self.is_of_another_driver() {
            Shape::Absent
        } else if exists(self.sentinel()) || !exists(self.template_file()) {
            Shape::HalfMade
        } else {
            Shape::Whole
        }
    }

    fn is_of_another_driver(&self) -> bool {
        let vm_type = self.template().ok().and_then(|template| template::vm_type(&template).ok());
        // Templates without `vmType` are Lima's.
        vm_type.is_some_and(|vm_type| vm_type.as_deref() != Some(VM_TYPE))
    }

    /// Returns an error unless the machine is complete.
    pub(super) fn expect_whole(&self) -> Result<(), Error> {
        match self.shape() {
            Shape::Absent => Err(Error::Absent { vm: self.vm.clone() }),
            Shape::HalfMade => Err(Error::HalfMade { vm: self.vm.clone() }),
            Shape::Whole => Ok(()),
        }
    }

    /// Refuses a machine whose folder, or a file that the engine is started with, belongs to another user.
    pub(super) fn check_owner(&self) -> Result<(), Error> {
        check_machine_folder(&self.engine.folder, &[TEMPLATE, NETWORK, DAEMON_CONFIG, CONTAINERD_CONFIG])
    }

    /// The template for the next start.
    pub(super) fn template(&self) -> Result<String, Error> {
        let path = self.template_file();
        owned::read_to_string(&path).map_err(Error::at("read", path))
    }

    pub(super) fn write_template(&self, template: &str) -> Result<(), Error> {
        Ok(file::write_atomic(&self.template_file(), template.as_bytes(), PRIVATE)?)
    }

    pub(super) fn settings_of(&self, template: &str) -> Result<Settings, Error> {
        Settings::of(template, &self.host.short_dir)
            .map_err(|problems| Error::InvalidTemplate { vm: self.vm.clone(), problems })
    }

    /// The socket at which clients find the engine.
    pub(super) fn docker_socket(&self, settings: &Settings) -> PathBuf {
        settings.docker_socket.clone().unwrap_or_else(|| self.engine.docker_socket.clone())
    }

    /// Creates the folder. The sentinel is removed last, so that an interrupted creation is recognized as half-made.
    pub(super) fn make(&self, template: &str) -> Result<(), Error> {
        let engine = &self.engine;
        file::create_dir_private(&engine.folder)?;
        file::write_atomic(&self.sentinel(), b"", PRIVATE)?;
        file::create_dir_private(&engine.data_root)?;
        file::create_dir_private(&engine.containerd_root)?;
        file::write_atomic(&self.daemon_config(), b"{}\n", PRIVATE)?;
        self.write_template(template)?;
        file::remove_if_present(&self.sentinel())?;
        Ok(file::sync_dir(&engine.folder)?)
    }

    /// Removes the folder. Assumes that nothing of the machine runs and nothing is mounted below it. An interrupted
    /// removal leaves a half-made machine.
    pub(super) fn unmake(&self) -> Result<(), Error> {
        if self.shape() == Shape::Absent {
            return Ok(());
        }
        file::write_atomic(&self.sentinel(), b"", PRIVATE)?;
        // Without template and with sentinel, an interrupted removal counts as half-made.
        file::remove_if_present(&self.template_file())?;
        Ok(file::remove_dir_if_present(&self.engine.folder)?)
    }

    /// Removes a folder that an engine wrote to. Without root, some files belong to users that exist only in the
    /// engine's user namespace, and some folders are closed to their owner; `rootlesskit` removes them from inside that
    /// namespace.
    pub(super) async fn remove_folder(&self, folder: &Path) -> Result<(), Error> {
        match file::remove_dir_if_present(folder) {
            Err(error) if error.source.kind() == io::ErrorKind::PermissionDenied && !self.host.is_root => {
                let rootlesskit = self.host.programs.find("rootlesskit")?;
                let arguments = ["rm", "-rf", "--", &folder.to_string_lossy()];
                run_within(&rootlesskit, &arguments, "", REMOVAL_TAKES).await?;
                Ok(())
            }
            other => Ok(other?),
        }
    }

    /// Records that processes of a start with this template may run from now on.
    pub(super) fn note_start(&self, template: &str) -> Result<(), Error> {
        // Order matters: the new nonce must be on disk before anything that could be started with it.
        Launch::renew(&self.launch_file())?;
        file::create_dir_private(&self.engine.run_dir)?;
        Ok(file::write_atomic(&self.started_file(), template.as_bytes(), PRIVATE)?)
    }

    /// The template of the current start, or `None` if the machine is not started.
    pub(super) fn started_with(&self) -> Result<Option<String>, Error> {
        let path = self.started_file();
        match owned::read_to_string(&path) {
            Ok(template) => Ok(Some(template)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::at("read", path)(error)),
        }
    }

    /// The network that was recorded last; the default if the file is missing or unreadable.
    pub(super) fn remembered_network(&self) -> Remembered {
        read_json(&self.engine.folder.join(NETWORK)).unwrap_or_default()
    }

    pub(super) fn remember_network(&self, network: &Remembered) -> Result<(), Error> {
        write_json(&self.engine.folder.join(NETWORK), network)
    }

    fn record_file(&self, part: Part) -> PathBuf {
        self.engine.run_dir.join(format!("{}.json", part.name()))
    }

    fn launch_file(&self) -> PathBuf {
        self.engine.folder.join(LAUNCH)
    }

    /// The identity of the current start.
    pub(super) fn launch(&self) -> Result<Launch, Error> {
        Launch::current(&self.launch_file())
    }

    fn read_record(&self, part: Part) -> Option<Record> {
        read_json(&self.record_file(part))
    }

    /// Records which process a part is.
    pub(super) fn record(&self, part: Part, pid: u32, launch: &Launch) -> Result<(), Error> {
        match Record::new(pid, launch) {
            Some(record) => write_json(&self.record_file(part), &record),
            None => Ok(()), // it has ended already; its supervisor notices
        }
    }

    fn scope(&self, mark: &'static str, folder: &Path) -> ProcessScope {
        let records = Part::ALL.iter().filter_map(|part| self.read_record(*part));
        ProcessScope::new(mark, folder, &self.launch_file(), records)
    }

    /// The processes of the machine, without those inside containers.
    pub(super) fn processes(&self) -> Vec<Seen> {
        self.outside_containers(self.scope(MARK, &self.engine.folder).list())
    }

    /// The processes of the machine's Kubernetes, without those inside containers.
    pub(super) fn cluster_processes(&self) -> Vec<Seen> {
        self.outside_containers(self.scope(CLUSTER_MARK, &self.engine.k3s_root).list())
    }

    /// Drops processes inside containers: one that shares our PID namespace and inherited the nonce is still a
    /// container's. Without root the engine chooses its own control groups, and only the PID namespace distinguishes
    /// them.
    fn outside_containers(&self, mut found: Vec<Seen>) -> Vec<Seen> {
        // Reading the control groups is needed only if there are candidates.
        if !found.is_empty() {
            let groups = mounts::cgroups(&self.engine.cgroup);
            let inside: BTreeSet<u32> = groups.iter().flat_map(|group| mounts::cgroup_processes(group)).collect();
            found.retain(|seen| !inside.contains(&seen.pid));
        }
        found
    }

    /// Finds the process of a part: the recorded one or, if the daemon was killed before it could record it, the one
    /// among `processes` that was started as that program.
    pub(super) fn process_of(&self, part: Part, processes: &[Seen]) -> Option<Seen> {
        let scope = self.scope(MARK, &self.engine.folder);
        let recorded = self.read_record(part).and_then(|record| scope.find(&record));
        recorded.or_else(|| part.programs().iter().find_map(|program| scope.leader(processes, program)).cloned())
    }

    /// The parts that an engine with these settings needs.
    pub(super) fn parts(&self, settings: &Settings) -> &'static [Part] {
        match settings.engine {
            Kind::Foreign(_) => &[],
            // Without root, dockerd starts its containerd itself, inside its namespace.
            Kind::Moby if !self.host.is_root => &[Part::Dockerd],
            Kind::Moby => &[Part::Containerd, Part::Dockerd],
            Kind::Containerd => &[Part::Containerd],
        }
    }

    /// The network tools; `None` without root, where the driver manages no network.
    pub(super) fn tools(&self) -> Result<Option<Tools>, Error> {
        if self.host.is_root { Tools::find(&self.host.programs).map(Some) } else { Ok(None) }
    }

    /// Observes the machine: its folder, its current start and its processes.
    pub(super) fn look(&self) -> Result<Found, Error> {
        let processes = self.processes();
        let shape = self.shape();
        let started = self.started_with()?;
        // Without a recorded start, remaining processes cannot be assigned to an engine's parts.
        let Some(started) = started.filter(|_| shape == Shape::Whole) else {
            return Ok(match shape {
                Shape::Absent if processes.is_empty() => Found::Absent,
                Shape::Absent | Shape::HalfMade => Found::HalfMade,
                Shape::Whole if processes.is_empty() => Found::Stopped,
                Shape::Whole => broken(&processes),
            });
        };
        // A template from an older version of rdd may no longer be valid.
        let Ok(settings) = self.settings_of(&started) else {
            return Ok(if processes.is_empty() { Found::Stopped } else { broken(&processes) });
        };
        let parts = self.parts(&settings);
        if parts.is_empty() {
            // An attached machine has no processes; its link to the foreign socket is its running state.
            let attached = self.docker_socket(&settings).symlink_metadata().is_ok_and(|meta| meta.is_symlink());
            return Ok(if attached { self.running(&started)? } else { Found::Stopped });
        }
        let alive = parts.iter().filter(|part| self.process_of(**part, &processes).is_some()).count();
        if alive == parts.len() {
            self.running(&started)
        } else if processes.is_empty() {
            Ok(Found::Stopped)
        } else {
            Ok(broken(&processes))
        }
    }

    fn running(&self, started: &str) -> Result<Found, Error> {
        Ok(Found::Running(Running { outdated: started != self.template()? }))
    }
}

fn broken(processes: &[Seen]) -> Found {
    let names: Vec<String> = processes.iter().map(|seen| format!("{} ({})", seen.program(), seen.pid)).collect();
    Found::Broken { why: format!("processes are left of an engine that is not whole: {}", names.join(", ")) }
}

pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&owned::read(path).ok()?).ok()
}

pub(super) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let text = serde_json::to_vec(value).map_err(|error| Error::at("write", path)(error.into()))?;
    Ok(file::write_atomic(path, &text, PRIVATE)?)
}
