//! One machine on disk: its folder, whether it is whole, and which processes are its.

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

/// The `vmType` of what runs here.
pub(super) const VM_TYPE: &str = "qemu";
/// What `vmType` another driver takes.
const HOST_VM_TYPE: &str = "host";

/// There while a creation or a deletion is under way, beside the machine's folder, which Lima wants to make itself.
const PREPARING: &str = "preparing";
/// The same, inside of the folder: what the original leaves.
const ORIGINAL_SENTINEL: &str = ".preparing";
/// What Lima reads at each start.
const TEMPLATE: &str = "lima.yaml";
/// The template as it was given, where Lima's has more in it.
const SOURCE: &str = "template.yaml";
/// The template of the start that is under way: there as long as something may run.
const STARTED: &str = "started.yaml";
/// The last start, beside the machine's folder: what proves that a process belongs to it.
const LAUNCH: &str = "launch.json";
/// Which process the host agent is, as we recorded it.
const AGENT: &str = "agent.json";
/// What the host agent writes its PID to, and QEMU.
const AGENT_PID: &str = "ha.pid";
/// The image that the machine was made of, as Lima keeps it.
const BASE_DISK: &str = "basedisk";
const QEMU_PID: &str = "qemu.pid";
const AGENT_SOCKET: &str = "ha.sock";
pub(super) const QMP_SOCKET: &str = "qmp.sock";

/// What all machines of a driver share.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) lima_home: PathBuf,
    /// A folder of ours in Lima's, which passes over names that begin with a dot.
    pub(super) own_dir: PathBuf,
    /// Below this folder a template may have sockets made.
    pub(super) short_dir: PathBuf,
    pub(super) places: Places,
    /// `PATH`, for what we start.
    pub(super) path: OsString,
    /// Where Lima keeps what it downloaded, for all instances.
    pub(super) cache: PathBuf,
    pub(super) is_root: bool,
    /// The program that stands in for QEMU where it has to emulate: ourselves.
    pub(super) shim: Option<PathBuf>,
    pub(super) accelerator: OnceLock<Accelerator>,
    pub(super) has_warned: AtomicBool,
    /// Which version a `limactl` is that was asked, by its place and age.
    pub(super) version: Mutex<Option<(PathBuf, SystemTime, Version)>>,
}

impl Host {
    /// The `limactl` of this host, if this user can use it.
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
        // Lima looks for the folder before it does anything.
        file::create_dir_private(&self.lima_home)?;
        let (home, path) = (self.lima_home.clone(), self.path.clone());
        Ok(Limactl { program, home, path, scratch: self.own_dir.clone(), cache: self.cache.clone() })
    }

    /// Whether there is no `limactl`, though this user could have one and nobody chose one.
    pub(super) fn lacks_limactl(&self) -> bool {
        !self.is_root && self.places.chosen.is_none() && find_limactl(&self.places).is_none()
    }

    /// As [`limactl`](Self::limactl), for a version that can be used. Told once if it has a flaw.
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

    /// What is known to be wrong with the `limactl` that was used last.
    pub(super) fn warning(&self) -> Option<String> {
        let known = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().and_then(|(_, _, version)| warning_of(*version))
    }

    /// Asked once of each program: the same file says the same, and a start need not wait for that.
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

    /// An error that names every program of the manifest that is missing for this, with the packages that have them.
    pub(super) fn require(&self, need: Need) -> Result<(), Error> {
        let is_missing = |program: &&Program| accelerator::find_in(&self.path, &program.name).is_none();
        let missing: Vec<_> = assets::programs(need, std::env::consts::ARCH).filter(is_missing).collect();
        if missing.is_empty() { Ok(()) } else { Err(lacking(&missing)) }
    }

    /// QEMU, where it is, if everything is there that a machine takes.
    pub(super) fn qemu(&self) -> Result<PathBuf, Error> {
        self.require(Need::Machine)?;
        accelerator::find_qemu(&self.path).ok_or_else(|| Error::Unsupported {
            missing: format!("nothing is known to run virtual machines on {}", std::env::consts::ARCH),
            remedy: "use the backend host".to_owned(),
        })
    }

    /// How machines are run here. Tried once: a device does not begin to work while we look on.
    pub(super) fn accelerator(&self) -> Result<&Accelerator, Error> {
        let qemu = self.qemu()?;
        Ok(self.accelerator.get_or_init(|| accelerator::try_out(&qemu)))
    }
}

/// A known flaw of this version of Lima.
fn warning_of(version: Version) -> Option<String> {
    (version < Version::WITHOUT_SOCKET_FLAW).then(|| {
        format!(
            "limactl {version} lets every user of the guest become root there (CVE-2026-53657); \
             update Lima to 2.1.3 or later"
        )
    })
}

/// What to say of programs that are missing; there is one at least.
fn lacking(missing: &[&Program]) -> Error {
    let names = missing.iter().map(|program| program.name.as_str()).collect::<Vec<_>>().join(", ");
    let mut packages: Vec<&str> = missing.iter().map(|program| program.package.as_str()).collect();
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

/// One machine. Cheap to clone, holds no state of its own.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub(super) vm: String,
    pub(super) folder: PathBuf,
    pub(super) host: Arc<Host>,
}

/// What there is on disk.
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

    /// The start that is under way.
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

    /// A machine of another driver is absent to this one, though it lies in the same place.
    pub(super) fn shape(&self) -> Shape {
        let exists = |path: PathBuf| path.symlink_metadata().is_ok();
        if self.is_of_another_driver() {
            Shape::Absent
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

    /// An error, unless the machine is whole.
    pub(super) fn expect_whole(&self) -> Result<(), Error> {
        match self.shape() {
            Shape::Absent => Err(Error::Absent { vm: self.vm.clone() }),
            Shape::HalfMade => Err(Error::HalfMade { vm: self.vm.clone() }),
            Shape::Whole => Ok(()),
        }
    }

    /// Refuses a machine of which another user owns the folder or a file that `limactl` is started with.
    pub(super) fn check_owner(&self) -> Result<(), Error> {
        check_machine_folder(&self.folder, &[TEMPLATE, SOURCE])
    }

    /// The template of the next start, as it was given.
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

    /// Replaces the template. What it refers to is put into what Lima reads.
    pub(super) fn write_template(&self, limactl: &Limactl, template: &str) -> Result<(), Error> {
        if !refers_to_others(template) {
            file::write_atomic(&self.within(TEMPLATE), template.as_bytes(), PRIVATE)?;
            return Ok(file::remove_if_present(&self.within(SOURCE))?);
        }
        let embedded = limactl.embedded(template)?;
        // In this order, so that a start never takes the old text for the new one.
        file::write_atomic(&self.within(TEMPLATE), embedded.as_bytes(), PRIVATE)?;
        Ok(file::write_atomic(&self.within(SOURCE), template.as_bytes(), PRIVATE)?)
    }

    /// Makes the machine. Nothing is left of an earlier attempt.
    pub(super) async fn make(&self, limactl: &Limactl, template: &str) -> Result<(), Error> {
        file::create_dir_private(&self.host.own_dir)?;
        file::write_atomic(&self.sentinel(), b"", PRIVATE)?;
        let launch = Launch::renew(&self.launch_file())?;
        limactl.create(&self.vm, template, &self.folder, &launch).await?;
        self.check_disk()?;
        file::create_dir_private(&self.folder)?;
        self.write_template(limactl, template)?;
        file::sync_dir(&self.folder)?;
        file::remove_if_present(&self.sentinel())?;
        Ok(file::sync_dir(&self.host.own_dir)?)
    }

    /// Refuses a machine whose first disk refers to other files: QEMU would show them to the guest.
    pub(super) fn check_disk(&self) -> Result<(), Error> {
        check_image(&self.within(BASE_DISK))
    }

    /// Removes the folder; nothing of the machine runs any more. One that is cut short leaves a half-made machine.
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

    /// Disks that Lima made besides the machine's own say who uses them; one that was killed did not take that back.
    pub(super) fn release_disks(&self) -> Result<(), Error> {
        let disks = fs::read_dir(self.host.lima_home.join("_disks")).into_iter().flatten().flatten();
        for used_by in disks.map(|disk| disk.path().join("in_use_by")) {
            if fs::read_link(&used_by).is_ok_and(|user| user == self.folder) {
                file::remove_if_present(&used_by)?;
            }
        }
        Ok(())
    }

    /// Notes that something may run from now on, started with this template.
    pub(super) fn note_start(&self, template: &str) -> Result<Launch, Error> {
        file::create_dir_private(&self.host.own_dir)?;
        let launch = Launch::renew(&self.launch_file())?;
        file::write_atomic(&self.within(STARTED), template.as_bytes(), PRIVATE)?;
        Ok(launch)
    }

    /// The template of the start that is under way, if one is.
    pub(super) fn started_with(&self) -> Result<Option<String>, Error> {
        read(&self.within(STARTED))
    }

    /// Stores which process the host agent is.
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

    /// Every process of the machine: what proves that we started it, and what the original started, which has no mark.
    pub(super) fn processes(&self) -> Vec<Seen> {
        let mut found = self.scope().list();
        for (file, option) in [(AGENT_PID, "--pidfile"), (QEMU_PID, "-pidfile")] {
            let stranger = self.stranger(&self.within(file), option);
            found.extend(stranger.filter(|stranger| found.iter().all(|known| known.pid != stranger.pid)));
        }
        found
    }

    /// The process that a PID file names, if it is ours and was told to write that very file.
    fn stranger(&self, pid_file: &Path, option: &str) -> Option<Seen> {
        let pid = owned::read_to_string(pid_file).ok()?.trim().parse().ok()?;
        let seen = identity::alive(pid)?;
        let words = seen.arguments();
        let is_its =
            words.windows(2).any(|pair| pair[0] == option.as_bytes() && pair[1] == pid_file.as_os_str().as_bytes());
        (is_its && identity::is_ours(pid)).then_some(seen)
    }

    /// The host agent among these processes: the recorded one, or else (we were killed before we could record it, or the
    /// original started it) the one that was started like it.
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

    /// The process that is the virtual machine itself.
    pub(super) fn qemu(&self, processes: &[Seen]) -> Option<Seen> {
        processes.iter().find(|seen| seen.program().starts_with("qemu-system-")).cloned()
    }

    /// Looks at everything.
    pub(super) fn look(&self) -> Result<Found, Error> {
        if self.is_of_another_driver() {
            return Ok(Found::Absent);
        }
        let (shape, processes) = (self.shape(), self.processes());
        Ok(match shape {
            Shape::Absent if processes.is_empty() => Found::Absent,
            Shape::Absent | Shape::HalfMade => Found::HalfMade,
            Shape::Whole if processes.is_empty() => Found::Stopped,
            Shape::Whole if self.agent(&processes).is_some() => {
                let template = self.template()?;
                let outdated = self.started_with()?.is_some_and(|started| template::needs_restart(&started, &template));
                Found::Running(Running { outdated })
            }
            Shape::Whole => {
                let names: Vec<String> =
                    processes.iter().map(|seen| format!("{} ({})", seen.program(), seen.pid)).collect();
                Found::Broken { why: format!("its host agent has ended, but not {}", names.join(", ")) }
            }
        })
    }

    /// Removes what only a running machine has. The note of the start goes last, since it tells the next daemon that there is
    /// something to clear.
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

    /// Removes a socket of ours where nobody listens any more. Anything else is not ours.
    fn remove_deserted(&self, path: &Path) -> Result<(), Error> {
        use std::os::unix::{fs::FileTypeExt as _, net::UnixStream};
        let is_socket = path.symlink_metadata().is_ok_and(|meta| meta.file_type().is_socket());
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

/// Whether a template is not complete by itself.
fn refers_to_others(template: &str) -> bool {
    let is_reference = |field: &str| field == "base";
    Template::parse(template).is_ok_and(|template| template.fields.iter().any(|field| is_reference(field)))
}

/// Where a template may have sockets made on this machine: where it says so, and where its parameters point to.
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
