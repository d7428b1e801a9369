//! One VM on disk: its folder, whether it is complete, and which processes belong to it.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use rdd_stdx::{
    file::{self, PRIVATE},
    owned,
};
use serde_json::Value;

use super::{
    accelerator::{self, Accelerator},
    image::check_image,
    limactl::{Limactl, Places, Version, find_limactl},
};
use crate::{
    Error, Found, Running, Template,
    assets::{self, Need, Program},
    identity::{self, LIMA_MARK, Launch, ProcessScope, Record, Seen},
    template,
    trust::check_machine_folder,
};

/// The `vmType` of this driver.
pub(super) const VM_TYPE: &str = "qemu";
/// The `vmType` of the host driver.
const HOST_VM_TYPE: &str = "host";

/// This file exists while a creation or deletion is in progress. It is outside the machine's folder, which Lima
/// creates.
const PREPARING: &str = "preparing";
/// The same marker inside the folder, as the original Rancher Desktop leaves it.
const ORIGINAL_SENTINEL: &str = ".preparing";
/// The template that Lima reads at each start.
const TEMPLATE: &str = "lima.yaml";
/// The template as the caller provided it, if the one for Lima has its references resolved.
const SOURCE: &str = "template.yaml";
/// The template of the current start. The file exists as long as processes may run.
const STARTED: &str = "started.yaml";
/// The record of the last start, beside the machine's folder. Its nonce proves that a process belongs to the start.
const LAUNCH: &str = "launch.json";
/// The record of the host agent's process.
const AGENT: &str = "agent.json";
/// The PID files of the host agent and of QEMU.
const AGENT_PID: &str = "ha.pid";
/// The image that the machine's disk was created from.
const BASE_DISK: &str = "basedisk";
const QEMU_PID: &str = "qemu.pid";
const AGENT_SOCKET: &str = "ha.sock";
pub(super) const QMP_SOCKET: &str = "qmp.sock";

/// The settings that all machines of a driver share.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) lima_home: PathBuf,
    /// The folder for rdd's own files. Lima ignores names that begin with a dot.
    pub(super) own_dir: PathBuf,
    /// The folder below which templates may place sockets.
    pub(super) short_dir: PathBuf,
    pub(super) places: Places,
    /// The `PATH` for child processes.
    pub(super) path: OsString,
    /// The cache folder in which Lima keeps downloads, shared by all instances.
    pub(super) cache: PathBuf,
    pub(super) is_root: bool,
    /// The program that replaces QEMU for emulation: rdd itself.
    pub(super) shim: Option<PathBuf>,
    pub(super) accelerator: OnceLock<Accelerator>,
    pub(super) has_warned: AtomicBool,
    /// The version of the last `limactl`, cached by path and modification time.
    pub(super) version: Mutex<Option<(PathBuf, SystemTime, Version)>>,
}

impl Host {
    /// The `limactl` of this host.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it is not installed, or if the user is root.
    pub(super) fn limactl(&self) -> Result<Limactl, Error> {
        if self.is_root {
            return Err(Error::Unsupported {
                missing: "root cannot have virtual machines: limactl refuses to run as root".to_owned(),
                remedy: "run as another user, or use the backend host".to_owned(),
            });
        }
        let program = find_limactl(&self.places).ok_or_else(|| match &self.places.chosen {
            Some(chosen) => Error::Unsupported {
                missing: format!("RDD_LIMACTL names {}, which is no program", chosen.display()),
                remedy: "correct it or leave it out".to_owned(),
            },
            None => Error::Unsupported {
                missing: "limactl is not installed".to_owned(),
                remedy: "install Lima, name its limactl with RDD_LIMACTL, or use the backend host".to_owned(),
            },
        })?;
        // limactl fails if its home folder does not exist.
        file::create_dir_private(&self.lima_home)?;
        let (home, path) = (self.lima_home.clone(), self.path.clone());
        Ok(Limactl { program, home, path, scratch: self.own_dir.clone(), cache: self.cache.clone() })
    }

    /// Whether `limactl` is missing and may be downloaded: the user is not root and did not set `RDD_LIMACTL`.
    pub(super) fn lacks_limactl(&self) -> bool {
        !self.is_root && self.places.chosen.is_none() && find_limactl(&self.places).is_none()
    }

    /// Like [`limactl`](Self::limactl), but also checks the version. Logs a known flaw once.
    pub(super) fn usable_limactl(&self) -> Result<Limactl, Error> {
        let limactl = self.limactl()?;
        let version = self.version_of(&limactl)?;
        if let Some(warning) = warning_of(version)
            && !self.has_warned.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(program = %limactl.program.display(), "{warning}");
        }
        Ok(limactl)
    }

    /// The known flaw of the `limactl` that was used last.
    pub(super) fn warning(&self) -> Option<String> {
        let known = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().and_then(|(_, _, version)| warning_of(*version))
    }

    /// The version of a `limactl`. Cached by path and modification time, because running it takes a while.
    fn version_of(&self, limactl: &Limactl) -> Result<Version, Error> {
        let modified = fs::metadata(&limactl.program).and_then(|file| file.modified()).ok();
        let mut known = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((program, time, version)) = &*known
            && *program == limactl.program
            && Some(*time) == modified
        {
            return Ok(*version);
        }
        let version = limactl.version()?;
        *known = modified.map(|modified| (limactl.program.clone(), modified, version));
        Ok(version)
    }

    /// Checks that the programs of the manifest for this need are installed. The error names all missing ones and their
    /// packages.
    pub(super) fn require(&self, need: Need) -> Result<(), Error> {
        // Search the same PATH that the child processes get.
        let is_missing = |program: &&Program| accelerator::find_in(&self.path, &program.name).is_none();
        let missing: Vec<_> = assets::programs(need, std::env::consts::ARCH).filter(is_missing).collect();
        if missing.is_empty() { Ok(()) } else { Err(lacking(&missing)) }
    }

    /// The path of QEMU, if all programs for a VM are installed.
    pub(super) fn qemu(&self) -> Result<PathBuf, Error> {
        self.require(Need::Machine)?;
        accelerator::find_qemu(&self.path).ok_or_else(|| Error::Unsupported {
            missing: format!("nothing is known to run virtual machines on {}", std::env::consts::ARCH),
            remedy: "use the backend host".to_owned(),
        })
    }

    /// How VMs run on this host. Tried out once and cached for the life of the daemon.
    pub(super) fn accelerator(&self) -> Result<&Accelerator, Error> {
        let qemu = self.qemu()?;
        // Errors above are not cached: the user may install QEMU while the daemon runs.
        Ok(self.accelerator.get_or_init(|| accelerator::try_out(&qemu)))
    }
}

/// The known flaw of this version of Lima.
fn warning_of(version: Version) -> Option<String> {
    (version < Version::WITHOUT_SOCKET_FLAW).then(|| {
        format!(
            "limactl {version} lets every user of the guest become root there (CVE-2026-53657); \
             update Lima to 2.1.3 or later"
        )
    })
}

/// The error for missing programs, of which there is at least one.
fn lacking(missing: &[&Program]) -> Error {
    let names = missing.iter().map(|program| program.name.as_str()).collect::<Vec<_>>().join(", ");
    let mut packages: Vec<&str> = missing.iter().map(|program| program.package.as_str()).collect();
    // Programs of one package are adjacent in the manifest.
    packages.dedup();
    let (verb, object) = if missing.len() == 1 { ("is", "it") } else { ("are", "them") };
    Error::Unsupported {
        missing: format!("{names} {verb} not installed"),
        remedy: format!(
            "install {object} (on Debian and Ubuntu: apt-get install {}), or use the backend host",
            packages.join(" ")
        ),
    }
}

/// One machine. It is cheap to clone and holds no state of its own.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub(super) vm: String,
    pub(super) folder: PathBuf,
    pub(super) host: Arc<Host>,
}

/// The state of the machine's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Absent,
    HalfMade,
    Whole,
}

impl Machine {
    fn within(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn sentinel(&self) -> PathBuf {
        self.host.own_dir.join(format!("{}.{PREPARING}", self.vm))
    }

    fn launch_file(&self) -> PathBuf {
        self.host.own_dir.join(format!("{}.{LAUNCH}", self.vm))
    }

    /// The identity of the current start.
    pub(super) fn launch(&self) -> Result<Launch, Error> {
        file::create_dir_private(&self.host.own_dir)?;
        Launch::current(&self.launch_file())
    }

    pub(super) fn agent_pid_file(&self) -> PathBuf {
        self.within(AGENT_PID)
    }

    pub(super) fn agent_socket(&self) -> PathBuf {
        self.within(AGENT_SOCKET)
    }

    /// Reads the state of the files. A machine of another driver counts as absent, though it uses the same path.
    pub(super) fn shape(&self) -> Shape {
        let exists = |path: PathBuf| path.symlink_metadata().is_ok();
        if self.is_of_another_driver() {
            Shape::Absent
        // Before the folder is checked: a creation writes the sentinel before Lima creates the folder.
        } else if exists(self.sentinel()) || exists(self.within(ORIGINAL_SENTINEL)) {
            Shape::HalfMade
        } else if !exists(self.folder.clone()) {
            Shape::Absent
        } else if exists(self.within(TEMPLATE)) {
            Shape::Whole
        } else {
            Shape::HalfMade
        }
    }

    fn is_of_another_driver(&self) -> bool {
        let text = owned::read_to_string(&self.within(TEMPLATE)).unwrap_or_default();
        template::vm_type(&text).is_ok_and(|vm_type| vm_type.as_deref() == Some(HOST_VM_TYPE))
    }

    /// Returns an error unless the machine is complete.
    pub(super) fn expect_whole(&self) -> Result<(), Error> {
        match self.shape() {
            Shape::Absent => Err(Error::Absent { vm: self.vm.clone() }),
            Shape::HalfMade => Err(Error::HalfMade { vm: self.vm.clone() }),
            Shape::Whole => Ok(()),
        }
    }

    /// Refuses a machine whose folder, or a file that `limactl` is started with, belongs to another user.
    pub(super) fn check_owner(&self) -> Result<(), Error> {
        check_machine_folder(&self.folder, &[TEMPLATE, SOURCE])
    }

    /// The template for the next start, as the caller provided it.
    pub(super) fn template(&self) -> Result<String, Error> {
        let source = read(&self.within(SOURCE))?;
        match source {
            Some(source) => Ok(source),
            None => {
                let path = self.within(TEMPLATE);
                owned::read_to_string(&path).map_err(Error::at("read", path))
            }
        }
    }

    /// Replaces the template. The file for Lima gets the content of all references.
    pub(super) fn write_template(&self, limactl: &Limactl, template: &str) -> Result<(), Error> {
        if !refers_to_others(template) {
            file::write_atomic(&self.within(TEMPLATE), template.as_bytes(), PRIVATE)?;
            return Ok(file::remove_if_present(&self.within(SOURCE))?);
        }
        let embedded = limactl.embedded(template)?;
        // Lima's file first: a kill in between then shows the old source with the new content, never the reverse.
        file::write_atomic(&self.within(TEMPLATE), embedded.as_bytes(), PRIVATE)?;
        Ok(file::write_atomic(&self.within(SOURCE), template.as_bytes(), PRIVATE)?)
    }

    /// Creates the machine. Assumes that nothing is left of an earlier attempt.
    pub(super) async fn make(&self, limactl: &Limactl, template: &str) -> Result<(), Error> {
        file::create_dir_private(&self.host.own_dir)?;
        file::write_atomic(&self.sentinel(), b"", PRIVATE)?;
        // `limactl create` may start processes; they get the nonce of this launch.
        let launch = Launch::renew(&self.launch_file())?;
        limactl.create(&self.vm, template, &self.folder, &launch).await?;
        self.check_disk()?;
        file::create_dir_private(&self.folder)?;
        self.write_template(limactl, template)?;
        // The folder must be on disk before the sentinel is removed, or a power loss could leave half a machine.
        file::sync_dir(&self.folder)?;
        file::remove_if_present(&self.sentinel())?;
        Ok(file::sync_dir(&self.host.own_dir)?)
    }

    /// Refuses a machine whose disk image refers to other files, because QEMU would expose them to the guest.
    pub(super) fn check_disk(&self) -> Result<(), Error> {
        check_image(&self.within(BASE_DISK))
    }

    /// Removes the folder. Assumes that nothing of the machine runs. An interrupted removal leaves a half-made machine.
    pub(super) fn unmake(&self) -> Result<(), Error> {
        if self.shape() == Shape::Absent {
            return Ok(());
        }
        file::create_dir_private(&self.host.own_dir)?;
        file::write_atomic(&self.sentinel(), b"", PRIVATE)?;
        self.release_disks()?;
        file::remove_dir_if_present(&self.folder)?;
        file::remove_if_present(&self.launch_file())?;
        Ok(file::remove_if_present(&self.sentinel())?)
    }

    /// Unlocks Lima's additional disks. Lima records their user in `in_use_by`, and a killed machine leaves the record
    /// behind.
    pub(super) fn release_disks(&self) -> Result<(), Error> {
        let disks = fs::read_dir(self.host.lima_home.join("_disks")).into_iter().flatten().flatten();
        for used_by in disks.map(|disk| disk.path().join("in_use_by")) {
            if fs::read_link(&used_by).is_ok_and(|user| user == self.folder) {
                file::remove_if_present(&used_by)?;
            }
        }
        Ok(())
    }

    /// Records that processes of a start with this template may run from now on.
    pub(super) fn note_start(&self, template: &str) -> Result<Launch, Error> {
        file::create_dir_private(&self.host.own_dir)?;
        let launch = Launch::renew(&self.launch_file())?;
        file::write_atomic(&self.within(STARTED), template.as_bytes(), PRIVATE)?;
        Ok(launch)
    }

    /// The template of the current start, or `None` if the machine is not started.
    pub(super) fn started_with(&self) -> Result<Option<String>, Error> {
        read(&self.within(STARTED))
    }

    /// Records the process of the host agent.
    pub(super) fn record_agent(&self, pid: u32, launch: &Launch) -> Result<(), Error> {
        let Some(record) = Record::new(pid, launch) else { return Ok(()) };
        let path = self.within(AGENT);
        let text = serde_json::to_vec(&record).map_err(|error| Error::at("write", &path)(error.into()))?;
        Ok(file::write_atomic(&path, &text, PRIVATE)?)
    }

    fn recorded_agent(&self) -> Option<Record> {
        serde_json::from_slice(&owned::read(&self.within(AGENT)).ok()?).ok()
    }

    fn scope(&self) -> ProcessScope {
        ProcessScope::new(LIMA_MARK, &self.folder, &self.launch_file(), self.recorded_agent())
    }

    /// All processes of the machine: those with the proof of our start, and those of the original Rancher Desktop,
    /// without a mark.
    pub(super) fn processes(&self) -> Vec<Seen> {
        let mut found = self.scope().list();
        for (file, option) in [(AGENT_PID, "--pidfile"), (QEMU_PID, "-pidfile")] {
            let stranger = self.stranger(&self.within(file), option);
            found.extend(stranger.filter(|stranger| found.iter().all(|known| known.pid != stranger.pid)));
        }
        found
    }

    /// The process that a PID file names, if it is ours and has this very file in its arguments.
    fn stranger(&self, pid_file: &Path, option: &str) -> Option<Seen> {
        // The file can be stale, so the process has to prove itself below.
        let pid = owned::read_to_string(pid_file).ok()?.trim().parse().ok()?;
        let seen = identity::alive(pid)?;
        let words = seen.arguments();
        let is_its =
            words.windows(2).any(|pair| pair[0] == option.as_bytes() && pair[1] == pid_file.as_os_str().as_bytes());
        (is_its && identity::is_ours(pid)).then_some(seen)
    }

    /// The host agent among these processes: the recorded one or, if the daemon was killed before it could record it or
    /// the original Rancher Desktop started it, the one whose arguments match.
    pub(super) fn agent(&self, processes: &[Seen]) -> Option<Seen> {
        if let Some(seen) = self.recorded_agent().and_then(|record| self.scope().find(&record)) {
            return Some(seen);
        }
        let pid_file = self.agent_pid_file();
        let is_agent = |seen: &&Seen| {
            let words = seen.arguments();
            words.iter().any(|word| word == b"hostagent")
                && words.iter().any(|word| word == pid_file.as_os_str().as_bytes())
        };
        processes.iter().find(is_agent).cloned()
    }

    /// The QEMU process of the VM.
    pub(super) fn qemu(&self, processes: &[Seen]) -> Option<Seen> {
        processes.iter().find(|seen| seen.program().starts_with("qemu-system-")).cloned()
    }

    /// Observes the machine: its files, its current start and its processes.
    pub(super) fn look(&self) -> Result<Found, Error> {
        if self.is_of_another_driver() {
            return Ok(Found::Absent);
        }
        let (shape, processes) = (self.shape(), self.processes());
        Ok(match shape {
            Shape::Absent if processes.is_empty() => Found::Absent,
            // Processes without a complete folder need the same cleanup as a half-made machine.
            Shape::Absent | Shape::HalfMade => Found::HalfMade,
            Shape::Whole if processes.is_empty() => Found::Stopped,
            Shape::Whole if self.agent(&processes).is_some() => {
                let template = self.template()?;
                let outdated = self.started_with()?.is_some_and(|started| template::needs_restart(&started, &template));
                // A machine that the original Rancher Desktop started has no record; it counts as up to date.
                Found::Running(Running { outdated })
            }
            Shape::Whole => {
                let names: Vec<String> =
                    processes.iter().map(|seen| format!("{} ({})", seen.program(), seen.pid)).collect();
                Found::Broken { why: format!("its host agent has ended, but not {}", names.join(", ")) }
            }
        })
    }

    /// Removes the files that only a running machine needs. The record of the start goes last: while it exists, the
    /// next daemon knows that the cleanup is not complete.
    pub(super) fn clear(&self) -> Result<(), Error> {
        let started = self.started_with()?;
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_passing = path
                .extension()
                .is_some_and(|extension| extension == "pid" || extension == "sock" || extension == "tmp");
            if is_passing && entry.file_type().is_ok_and(|kind| !kind.is_dir()) {
                file::remove_if_present(&path)?;
            }
        }
        self.release_disks()?;
        for socket in started.iter().flat_map(|template| sockets(template)) {
            self.remove_deserted(&socket)?;
        }
        file::remove_if_present(&self.within(AGENT))?;
        Ok(file::remove_if_present(&self.within(STARTED))?)
    }

    /// Removes a socket below our folder on which no process listens. Other files do not belong to rdd and stay.
    fn remove_deserted(&self, path: &Path) -> Result<(), Error> {
        use std::os::unix::{fs::FileTypeExt as _, net::UnixStream};
        let is_socket = path.symlink_metadata().is_ok_and(|meta| meta.file_type().is_socket());
        // A template can name any path; only sockets below our own folder are removed.
        let is_below = path.starts_with(&self.host.short_dir) && path.components().all(|part| part.as_os_str() != "..");
        let is_deserted =
            || UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        if is_socket && is_below && is_deserted() {
            file::remove_if_present(path)?;
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Option<String>, Error> {
    match owned::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::at("read", path)(error)),
    }
}

/// Whether a template refers to other templates.
fn refers_to_others(template: &str) -> bool {
    let is_reference = |field: &str| field == "base";
    Template::parse(template).is_ok_and(|template| template.fields.iter().any(|field| is_reference(field)))
}

/// The sockets on this host that a template can create: in its port forwards and its parameters.
fn sockets(template: &str) -> Vec<PathBuf> {
    let options = serde_saphyr::options! { with_snippet: false };
    let Ok(parsed) = serde_saphyr::from_str_with_options::<Value>(template, options) else { return Vec::new() };
    let forwards =
        parsed["portForwards"].as_array().into_iter().flatten().filter_map(|rule| rule["hostSocket"].as_str());
    let parameters = parsed["param"].as_object().into_iter().flat_map(|map| map.values()).filter_map(Value::as_str);
    forwards.chain(parameters).filter(|text| text.starts_with('/')).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_at_once_with_its_packages() {
        let told = |count: usize| {
            let missing: Vec<_> = assets::programs(Need::Machine, "x86_64").take(count).collect();
            lacking(&missing).to_string()
        };
        assert_eq!(
            told(1),
            "qemu-system-x86_64 is not installed; install it (on Debian and Ubuntu: apt-get install qemu-system-x86), or use the \
             backend host"
        );
        let all = told(4);
        assert!(
            all.starts_with("qemu-system-x86_64, qemu-img, ssh, ssh-keygen are not installed; install them"),
            "{all}"
        );
        assert!(all.contains("apt-get install qemu-system-x86 qemu-utils openssh-client)"), "{all}");
    }

    #[test]
    fn sockets_are_where_the_template_or_its_parameters_say() {
        let template = "portForwards:\n- guestSocket: /a\n  hostSocket: \"{{.Param.S}}\"\n- guestPort: 1\n  hostSocket: /b.sock\n\
                        param:\n  S: /c.sock\n  N: 7\n  E: moby\n";
        assert_eq!(sockets(template), [PathBuf::from("/b.sock"), PathBuf::from("/c.sock")]);
        for odd in ["", "[", "param: 7", "portForwards: {a: b}", "portForwards:\n- 1\n"] {
            assert!(sockets(odd).is_empty(), "{odd}");
        }
    }

    #[test]
    fn a_template_with_a_base_is_not_complete() {
        assert!(refers_to_others("base: template://default\n"));
        assert!(!refers_to_others("images: []\nparam:\n  base: x\n"));
    }
}
