//! Checks what K3s needs of this host besides an engine: control groups, a kernel module, and the programs that its
//! build lacks.
//!
//! A released K3s contains its CNI plugins, containerd and tools and puts them on its own `PATH`. A K3s that was built
//! from its Go module alone (`cmd/server`) contains none of them and looks for them on its `PATH`. The build
//! information that Go writes into a program shows which of the two it is.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use rdd_stdx::process;

use super::{
    k3s::Pods,
    mounts::{CgroupSupport, cgroup_support},
    programs::Programs,
};
use crate::Error;

/// The folders in which packages install CNI plugins: Debian's, and the usual one.
const CNI_FOLDERS: &str = "/usr/lib/cni:/opt/cni/bin";
/// The plugins that our network configuration and flannel's delegate name. K3s looks for `host-local` on its `PATH`,
/// and for the others in the same folder.
const CNI_PLUGINS: &[&str] = &["host-local", "bridge", "flannel", "loopback", "portmap"];
/// The programs that kube-proxy and the kubelet run.
const TOOLS: &[&str] = &["iptables", "iptables-save", "iptables-restore", "mount", "umount"];
/// The programs that K3s needs additionally when pods use its own containerd.
const CONTAINERD_TOOLS: &[&str] = &["containerd", "containerd-shim-runc-v2", "runc"];
/// Without this module, packets between pods on one bridge bypass the rules of services.
const BRIDGE_MODULE: &str = "br_netfilter";
const BRIDGE_SETTING: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";

/// Which programs a build of K3s contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bundle {
    /// All that it needs. Also the answer for a program that is not recognized as K3s.
    Whole,
    /// None.
    Nothing,
}

/// A cache of [`Bundle`] by program, because reading one means reading tens of megabytes.
#[derive(Debug, Default)]
pub(super) struct Bundles(Mutex<BTreeMap<PathBuf, KnownProgram>>);

/// A program and its bundle; a program with another size or modification time is read again.
#[derive(Debug)]
struct KnownProgram {
    bytes: u64,
    changed: Option<SystemTime>,
    bundle: Bundle,
}

impl Bundles {
    fn look(&self, program: &Path) -> Result<Bundle, Error> {
        let failed = |error| Error::at("read", program)(error);
        let meta = std::fs::metadata(program).map_err(failed)?;
        let (bytes, changed) = (meta.len(), meta.modified().ok());
        // Hold the lock while reading, so that concurrent checks read the program once.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(one) = known.get(program).filter(|one| (one.bytes, one.changed) == (bytes, changed)) {
            return Ok(one.bundle);
        }
        let bundle =
            read_bundle(BufReader::with_capacity(1 << 20, File::open(program).map_err(failed)?)).map_err(failed)?;
        known.insert(program.to_owned(), KnownProgram { bytes, changed, bundle });
        Ok(bundle)
    }
}

/// The `PATH` for K3s: ours, followed by the folders of CNI plugins.
pub(super) fn path_for_k3s(path: &OsStr) -> OsString {
    let mut whole = path.to_owned();
    whole.push(":");
    whole.push(CNI_FOLDERS);
    whole
}

/// The facts about this host's kernel that K3s depends on.
#[derive(Debug)]
pub(super) struct HostFacts {
    cgroups: CgroupSupport,
    /// Whether [`BRIDGE_MODULE`] is loaded or can be loaded.
    has_bridge_module: bool,
}

impl HostFacts {
    pub(super) fn read(programs: &Programs) -> Self {
        let has_bridge_module = Path::new(BRIDGE_SETTING).exists() || can_load(programs, BRIDGE_MODULE);
        Self { cgroups: cgroup_support(), has_bridge_module }
    }
}

/// Checks the kernel.
///
/// # Errors
/// [`Error::Unsupported`], which names what is missing and how to get it.
pub(super) fn check_host(facts: &HostFacts) -> Result<(), Error> {
    check_controllers(&facts.cgroups)?;
    check_module(facts.has_bridge_module)
}

/// Checks that the programs which this build of K3s does not contain are installed.
///
/// # Errors
/// [`Error::Unsupported`], which names what is missing and how to get it.
pub(super) fn check_program(program: &Path, pods: &Pods, programs: &Programs, bundles: &Bundles) -> Result<(), Error> {
    match bundles.look(program)? {
        Bundle::Whole => Ok(()),
        Bundle::Nothing => check_programs(&path_for_k3s(programs.path()), pods),
    }
}

fn check_controllers(support: &CgroupSupport) -> Result<(), Error> {
    let needed: &[&str] = match support.is_v1 {
        // In version 1, CPU accounting is a controller of its own.
        true => &["cpu", "cpuacct", "cpuset", "memory", "pids"],
        false => &["cpu", "cpuset", "memory", "pids"],
    };
    let missing: Vec<&str> =
        needed.iter().copied().filter(|name| !support.controllers.iter().any(|one| one == name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Unsupported {
        missing: format!("Kubernetes needs control group controllers that this machine does not have: {}", missing.join(", ")),
        remedy: "switch them on in the kernel's command line (for memory: cgroup_enable=memory cgroup_memory=1) or mount them, \
                 or choose the backend lima for a virtual machine"
            .to_owned(),
    })
}

fn check_module(is_there: bool) -> Result<(), Error> {
    if is_there {
        return Ok(());
    }
    Err(Error::Unsupported {
        missing: format!("Kubernetes needs the kernel module {BRIDGE_MODULE}, which is neither loaded nor installed"),
        remedy: format!(
            "load it (modprobe {BRIDGE_MODULE}; on Debian and Ubuntu it comes with the package linux-modules or linux-image), or choose the backend lima \
             for a virtual machine"
        ),
    })
}

/// Reports whether K3s will be able to load the module when it starts.
fn can_load(programs: &Programs, module: &str) -> bool {
    let Ok(modprobe) = programs.find("modprobe") else { return false };
    let mut command = process::background(&modprobe, Path::new("/"));
    // A dry run also succeeds for a module that is built into the kernel.
    command.args(["--dry-run", "--quiet", module]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn check_programs(path: &OsStr, pods: &Pods) -> Result<(), Error> {
    let search = Programs::exactly(path);
    let mut missing = Vec::new();
    // K3s looks for all plugins in the folder of `host-local`, so those elsewhere on the PATH do not count.
    let plugins = search.find("host-local").ok().and_then(|program| program.parent().map(Path::to_owned));
    let is_beside = |name: &str| plugins.as_ref().is_some_and(|folder| Programs::exactly(folder.as_os_str()).has(name));
    let absent: Vec<&str> = CNI_PLUGINS.iter().copied().filter(|name| !is_beside(name)).collect();
    if !absent.is_empty() {
        let place =
            plugins.as_ref().map_or_else(|| "on the PATH".to_owned(), |folder| format!("in {}", folder.display()));
        missing.push(format!("the CNI plugins {} {place}", absent.join(", ")));
    }
    let more = if *pods == Pods::Own { CONTAINERD_TOOLS } else { &[] };
    let tools: Vec<&str> = TOOLS.iter().chain(more).copied().filter(|name| !search.has(name)).collect();
    if !tools.is_empty() {
        missing.push(format!("{} on the PATH", tools.join(", ")));
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Unsupported {
        missing: format!("this build of K3s brings no programs of its own and needs {}", missing.join(" and ")),
        remedy: "take a released K3s, which brings them, or install them and restart the daemon (on Debian and Ubuntu: apt-get install \
                 containernetworking-plugins iptables mount; the plugin flannel, from github.com/flannel-io/cni-plugin, belongs into the same folder)"
            .to_owned(),
    })
}

/// Reads the build information that Go writes into a program: lines with fields separated by tabs. After `path` comes
/// the main package, after `mod` and `dep` a module.
fn read_bundle(program: impl BufRead) -> io::Result<Bundle> {
    const MODULE: &[u8] = b"github.com/k3s-io/k3s";
    const RELEASE: &[u8] = b"github.com/k3s-io/k3s/cmd/k3s\n";
    let (mut before, mut is_k3s) = (Vec::new(), false);
    for word in program.split(b'\t') {
        let word = word?;
        // A release is built from cmd/k3s, which embeds the other programs.
        if before.ends_with(b"path") && word.starts_with(RELEASE) {
            return Ok(Bundle::Whole);
        }
        is_k3s |= word == MODULE && (before.ends_with(b"mod") || before.ends_with(b"dep"));
        before = word;
    }
    Ok(if is_k3s { Bundle::Nothing } else { Bundle::Whole })
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    // Finding E-23
    #[test]
    fn what_a_build_brings_is_read_from_what_go_has_written_into_it() {
        let of = |text: &str| read_bundle(text.as_bytes()).unwrap();
        let release = "\u{7f}ELF\tx\0path\tgithub.com/k3s-io/k3s/cmd/k3s\nmod\tgithub.com/k3s-io/k3s\t(devel)\t\n";
        assert_eq!(of(release), Bundle::Whole);
        let server = "\0path\tgithub.com/k3s-io/k3s/cmd/server\nmod\tgithub.com/k3s-io/k3s\tv1.35.0\th1:x\n";
        assert_eq!(of(server), Bundle::Nothing);
        let other =
            "\0path\texample.com/mine\nmod\texample.com/mine\t(devel)\t\ndep\tgithub.com/k3s-io/k3s\tv1.35.0\th1:x\n";
        assert_eq!(of(other), Bundle::Nothing);
        assert_eq!(of("#!/bin/sh\n# github.com/k3s-io/k3s\n"), Bundle::Whole, "what nobody knows is tried");
    }

    // Finding E-23
    #[test]
    fn a_missing_plugin_or_tool_is_named_with_its_folder_and_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let (tools, plugins) = (dir.path().join("tools"), dir.path().join("cni"));
        let put = |folder: &Path, name: &str| {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join(name), "").unwrap();
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        };
        let path = format!("{}:{}", tools.display(), plugins.display());
        let docker = Pods::Docker("/d.sock".into());
        let said = |pods: &Pods| check_programs(OsStr::new(&path), pods).err().map(|error| error.to_string());
        let nothing = said(&docker).unwrap();
        assert!(
            nothing.contains("the CNI plugins host-local, bridge, flannel, loopback, portmap on the PATH"),
            "{nothing}"
        );
        assert!(
            nothing.contains(" and iptables, iptables-save, iptables-restore, mount, umount on the PATH; "),
            "{nothing}"
        );
        assert!(nothing.contains("apt-get install containernetworking-plugins"), "{nothing}");
        TOOLS.iter().for_each(|name| put(&tools, name));
        // One on the PATH is of no use where the others are not beside it.
        put(&tools, "flannel");
        ["host-local", "bridge", "loopback", "portmap"].iter().for_each(|name| put(&plugins, name));
        let flannel = said(&docker).unwrap();
        assert!(flannel.contains(&format!("needs the CNI plugins flannel in {}; ", plugins.display())), "{flannel}");
        put(&plugins, "flannel");
        assert_eq!(said(&docker), None);
        assert!(said(&Pods::Own).unwrap().contains("needs containerd, containerd-shim-runc-v2, runc on the PATH; "));
    }

    // Finding E-23
    #[test]
    fn a_missing_controller_or_module_is_named_with_its_remedy() {
        let check = |is_v1, names: &[&str], has_bridge_module| {
            let cgroups = CgroupSupport { is_v1, controllers: names.iter().map(|&one| one.into()).collect() };
            check_host(&HostFacts { cgroups, has_bridge_module })
        };
        let first = check(true, &["rw", "cpu", "cpuset", "pids"], true).unwrap_err().to_string();
        assert!(
            first.contains("does not have: cpuacct, memory; ") && first.contains("cgroup_enable=memory"),
            "{first}"
        );
        assert!(check(true, &["cpu", "cpuacct", "cpuset", "memory", "pids"], true).is_ok());
        let all = &["cpu", "cpuset", "memory", "pids"];
        assert!(check(false, all, true).is_ok());
        let cpuset = check(false, &["cpu", "memory", "pids"], true).unwrap_err().to_string();
        assert!(cpuset.contains("does not have: cpuset; "), "{cpuset}");
        let module = check(false, all, false).unwrap_err().to_string();
        assert!(module.contains("br_netfilter") && module.contains("modprobe br_netfilter"), "{module}");
    }

    // Finding E-23
    #[test]
    fn plugins_of_packages_are_found_after_those_of_the_user() {
        assert_eq!(path_for_k3s(OsStr::new("/mine:/usr/bin")), "/mine:/usr/bin:/usr/lib/cni:/opt/cni/bin");
    }
}
