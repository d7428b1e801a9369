//! One machine on disk: its folder, whether it is whole, and what of it runs.

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

/// What all machines of a driver share.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) programs: Programs,
    pub(super) is_root: bool,
    /// Whether there is a folder for what means something only while an engine runs: `/run`, or a user's own.
    pub(super) has_runtime_dir: bool,
    /// Below this folder we make sockets where a template asks for them.
    pub(super) short_dir: PathBuf,
    pub(super) clock: SharedClock,
}

/// One machine. Cheap to clone, holds no state of its own.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub(super) vm: String,
    pub(super) engine: Engine,
    pub(super) host: Arc<Host>,
}

/// What `vmType` means this driver.
pub(super) const VM_TYPE: &str = "host";

/// There while a creation or a deletion is under way.
const SENTINEL: &str = ".preparing";
const TEMPLATE: &str = "lima.yaml";
const NETWORK: &str = "network.json";
/// What `dockerd` reads besides its arguments. Made empty, and then left to whoever wants to change it.
const DAEMON_CONFIG: &str = "daemon.json";
const CONTAINERD_CONFIG: &str = "containerd.toml";
/// The template of the start that is under way: there as long as something may run.
const STARTED: &str = "started.yaml";
/// The last start: what proves that a process belongs to it.
const LAUNCH: &str = "launch.json";

/// How long another program may take to remove an engine's data.
const REMOVAL_TAKES: Duration = Duration::from_secs(600);

/// What there is on disk.
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

    /// The file that `dockerd` reads besides its arguments.
    pub(super) fn daemon_config(&self) -> PathBuf {
        self.engine.folder.join(DAEMON_CONFIG)
    }

    /// The file that `containerd` reads besides its arguments.
    pub(super) fn containerd_config(&self) -> PathBuf {
        self.engine.folder.join(CONTAINERD_CONFIG)
    }

    /// A machine of another driver is absent to this one, though it lies in the same place.
    pub(super) fn shape(&self) -> Shape {
        let exists = |path: PathBuf| path.symlink_metadata().is_ok();
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
        // One that names none is Lima's.
        vm_type.is_some_and(|vm_type| vm_type.as_deref() != Some(VM_TYPE))
    }

    /// An error, unless the machine is whole.
    pub(super) fn expect_whole(&self) -> Result<(), Error> {
        match self.shape() {
            Shape::Absent => Err(Error::Absent { vm: self.vm.clone() }),
            Shape::HalfMade => Err(Error::HalfMade { vm: self.vm.clone() }),
            Shape::Whole => Ok(()),
        }
    }

    /// Refuses a machine of which another user owns the folder or a file that the engine is started with.
    pub(super) fn check_owner(&self) -> Result<(), Error> {
        check_machine_folder(&self.engine.folder, &[TEMPLATE, NETWORK, DAEMON_CONFIG, CONTAINERD_CONFIG])
    }

    /// The template of the next start.
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

    /// Where clients find the engine.
    pub(super) fn docker_socket(&self, settings: &Settings) -> PathBuf {
        settings.docker_socket.clone().unwrap_or_else(|| self.engine.docker_socket.clone())
    }

    /// Makes the folder. The sentinel goes last, so that nobody takes a part for the whole.
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

    /// Removes the folder; nothing of the machine runs any more, and nothing is mounted below it. One that is cut short
    /// leaves a half-made machine.
    pub(super) fn unmake(&self) -> Result<(), Error> {
        if self.shape() == Shape::Absent {
            return Ok(());
        }
        file::write_atomic(&self.sentinel(), b"", PRIVATE)?;
        file::remove_if_present(&self.template_file())?;
        Ok(file::remove_dir_if_present(&self.engine.folder)?)
    }

    /// Removes a folder that an engine wrote to. Without root some of it belongs to users that only the engine's own
    /// namespace knows, and folders may be closed to their owner.
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

    /// Notes that something may run from now on, started with this template.
    pub(super) fn note_start(&self, template: &str) -> Result<(), Error> {
        Launch::renew(&self.launch_file())?;
        file::create_dir_private(&self.engine.run_dir)?;
        Ok(file::write_atomic(&self.started_file(), template.as_bytes(), PRIVATE)?)
    }

    /// The template of the start that is under way, if one is.
    pub(super) fn started_with(&self) -> Result<Option<String>, Error> {
        let path = self.started_file();
        match owned::read_to_string(&path) {
            Ok(template) => Ok(Some(template)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::at("read", path)(error)),
        }
    }

    /// What is remembered of the network; nothing, if that cannot be read.
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

    /// The start that is under way.
    pub(super) fn launch(&self) -> Result<Launch, Error> {
        Launch::current(&self.launch_file())
    }

    fn read_record(&self, part: Part) -> Option<Record> {
        read_json(&self.record_file(part))
    }

    /// Stores which process a part is.
    pub(super) fn record(&self, part: Part, pid: u32, launch: &Launch) -> Result<(), Error> {
        match Record::new(pid, launch) {
            Some(record) => write_json(&self.record_file(part), &record),
            None => Ok(()), // it has ended already, and its supervisor will notice
        }
    }

    fn scope(&self, mark: &'static str, folder: &Path) -> ProcessScope {
        let records = Part::ALL.iter().filter_map(|part| self.read_record(*part));
        ProcessScope::new(mark, folder, &self.launch_file(), records)
    }

    /// The processes of the machine, without those inside of containers.
    pub(super) fn processes(&self) -> Vec<Seen> {
        self.outside_containers(self.scope(MARK, &self.engine.folder).list())
    }

    /// The processes of the machine's Kubernetes, without those inside of containers.
    pub(super) fn cluster_processes(&self) -> Vec<Seen> {
        self.outside_containers(self.scope(CLUSTER_MARK, &self.engine.k3s_root).list())
    }

    /// A container that shares our PID namespace and knows the nonce is still a container. Without root the engine chooses its
    /// control groups itself, and the PID namespace has to do.
    fn outside_containers(&self, mut found: Vec<Seen>) -> Vec<Seen> {
        if !found.is_empty() {
            let groups = mounts::cgroups(&self.engine.cgroup);
            let inside: BTreeSet<u32> = groups.iter().flat_map(|group| mounts::cgroup_processes(group)).collect();
            found.retain(|seen| !inside.contains(&seen.pid));
        }
        found
    }

    /// The process that is this part: the recorded one, or else (we were killed before we could record it) the one among
    /// these that was started like it.
    pub(super) fn process_of(&self, part: Part, processes: &[Seen]) -> Option<Seen> {
        let scope = self.scope(MARK, &self.engine.folder);
        let recorded = self.read_record(part).and_then(|record| scope.find(&record));
        recorded.or_else(|| part.programs().iter().find_map(|program| scope.leader(processes, program)).cloned())
    }

    /// The parts that these settings need.
    pub(super) fn parts(&self, settings: &Settings) -> &'static [Part] {
        match settings.engine {
            Kind::Foreign(_) => &[],
            // Without root, the one program starts the other inside of its own namespace.
            Kind::Moby if !self.host.is_root => &[Part::Dockerd],
            Kind::Moby => &[Part::Containerd, Part::Dockerd],
            Kind::Containerd => &[Part::Containerd],
        }
    }

    /// The tools for the network; `None` where we have none to care for.
    pub(super) fn tools(&self) -> Result<Option<Tools>, Error> {
        if self.host.is_root { Tools::find(&self.host.programs).map(Some) } else { Ok(None) }
    }

    /// Looks at everything.
    pub(super) fn look(&self) -> Result<Found, Error> {
        let processes = self.processes();
        let shape = self.shape();
        let started = self.started_with()?;
        let Some(started) = started.filter(|_| shape == Shape::Whole) else {
            return Ok(match shape {
                Shape::Absent if processes.is_empty() => Found::Absent,
                Shape::Absent | Shape::HalfMade => Found::HalfMade,
                Shape::Whole if processes.is_empty() => Found::Stopped,
                Shape::Whole => broken(&processes),
            });
        };
        // One that was valid when it was started may not be any more, for a newer version of us.
        let Ok(settings) = self.settings_of(&started) else {
            return Ok(if processes.is_empty() { Found::Stopped } else { broken(&processes) });
        };
        let parts = self.parts(&settings);
        if parts.is_empty() {
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
