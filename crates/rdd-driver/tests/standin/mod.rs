//! A place with a stand-in for `limactl`: machines that are processes and files, and faults on demand.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rdd_driver::{
    Driver, Wanted,
    lima::LimaDriver,
    suite::{Subject, cluster::ClusterSubject},
};
use rdd_instance::{Environment, Instance, Platform};
use rdd_stdx::process::{Process, Signal};

const LIMACTL: &str = include_str!("limactl");
/// What the guest has of systemd: one unit, which is a process.
const SYSTEMCTL: &str = r#"#!/bin/bash
pid=$(cat "$RDD_GUEST_ROOT/unit" 2>/dev/null)
alive() { [ -n "$pid" ] && [ "$(cut -d' ' -f3 "/proc/$pid/stat" 2>/dev/null)" != Z ] && kill -0 "$pid" 2>/dev/null; }
case $1 in
is-active) alive && echo active || { echo inactive; exit 3; } ;;
stop) alive && kill "$pid"; while alive; do sleep 0.05; done; rm -f "$RDD_GUEST_ROOT/unit" ;;
kill) alive && kill -KILL "$pid" ;;
esac
exit 0
"#;
const SYSTEMD_RUN: &str = r#"#!/bin/bash
while [ "${1#--}" != "$1" ]; do shift; done
setsid "$@" </dev/null >"$RDD_GUEST_ROOT/journal" 2>&1 &
echo $! >"$RDD_GUEST_ROOT/unit"
"#;
const JOURNALCTL: &str = "#!/bin/sh\necho killed by somebody\n";
/// A K3s that writes its kubeconfig, which is another one for each start, and then does nothing.
const K3S: &str = r#"#!/bin/bash
echo "$0 $*" >"$RDD_GUEST_ROOT/words"
while [ $# -gt 0 ]; do
    case $1 in --write-kubeconfig) config=$2 ;; --data-dir) tls=$2/server/tls ;; esac
    shift
done
mkdir -p "$tls"
[ -e "$tls/server-ca.crt" ] || echo "-----BEGIN CERTIFICATE----- $$" >"$tls/server-ca.crt"
date +%s >"$RDD_GUEST_ROOT/started-at"
printf 'clusters: []\n# %s\n' "$$" >"$config"
exec sleep 600
"#;
/// The guest's clock, which is off by as many seconds as the file says, and cannot be set if there is a file that says so.
const DATE: &str = r#"#!/bin/bash
now=$(/bin/date +%s)
case $1 in
-s)
    [ ! -e "$RDD_GUEST_ROOT/clock-is-stuck" ] || { echo "date: cannot set date: Operation not permitted" >&2; exit 1; }
    [ -e "$RDD_GUEST_ROOT/clock-goes-its-way" ] || echo $((${2#@} - now)) >"$RDD_GUEST_ROOT/clock"
    ;;
*) echo $((now + $(cat "$RDD_GUEST_ROOT/clock" 2>/dev/null || echo 0))) ;;
esac
"#;
/// What marks the processes of a machine.
pub(crate) const MARK: &str = "RDD_LIMA_MACHINE";

/// One instance with a home, a `limactl` and a QEMU of its own.
pub(crate) struct Place {
    home: tempfile::TempDir,
    pub(crate) instance: Instance,
    pub(crate) environment: Environment,
}

impl Place {
    pub(crate) fn new() -> Self {
        let home = tempfile::Builder::new().prefix("rdd-l").tempdir().unwrap();
        let lima = home.path().join("lima");
        let program = |name: &str, text: &str| {
            let path = lima.join("bin").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        program("limactl", LIMACTL);
        program("guest/systemctl", SYSTEMCTL);
        program("guest/systemd-run", SYSTEMD_RUN);
        program("guest/journalctl", JOURNALCTL);
        program("guest/date", DATE);
        program("guest/docker", "#!/bin/sh\n");
        for tool in ["qemu-img", "qemu-system-x86_64", "ssh", "ssh-keygen"] {
            program(tool, "#!/bin/sh\n");
        }
        fs::create_dir_all(lima.join("share/lima")).unwrap();
        fs::write(lima.join(format!("share/lima/lima-guestagent.Linux-{}.gz", std::env::consts::ARCH)), "").unwrap();
        let environment = Environment {
            home: Some(home.path().as_os_str().to_owned()),
            instance: Some("l".to_owned()),
            path: Some(lima.join("bin").into_os_string()),
            ..Environment::default()
        };
        let instance = Instance::resolve(&environment, Platform::Linux).unwrap();
        Self { home, instance, environment }
    }

    pub(crate) fn driver(&self) -> LimaDriver {
        LimaDriver::new(&self.instance, &self.environment, Some(PathBuf::from("/bin/true"))).as_if_not_root()
    }

    /// A driver on a machine that has what this one has, but for these programs.
    pub(crate) fn driver_without(&self, names: &[&str]) -> LimaDriver {
        let folder = self.home.path().join("programs");
        fs::create_dir(&folder).unwrap();
        for place in [self.bin().as_path(), Path::new("/usr/bin"), Path::new("/bin")] {
            for entry in fs::read_dir(place).unwrap().flatten() {
                let name = entry.file_name();
                if !names.iter().any(|missing| name == *missing) {
                    // The first of a name counts, as on any path.
                    let _ = std::os::unix::fs::symlink(entry.path(), folder.join(name));
                }
            }
        }
        self.driver().with_programs_of(folder.into_os_string())
    }

    pub(crate) fn bin(&self) -> PathBuf {
        self.home.path().join("lima/bin")
    }

    /// Faults of the stand-in, a word each.
    pub(crate) fn mode(&self, words: &str) {
        fs::write(self.bin().join("mode"), words).unwrap();
    }

    pub(crate) fn calls(&self) -> String {
        fs::read_to_string(self.bin().join("calls/all")).unwrap_or_default()
    }

    pub(crate) fn folder(&self, vm: &str) -> PathBuf {
        self.instance.paths.machine(vm)
    }

    pub(crate) fn own_dir(&self) -> PathBuf {
        self.instance.paths.lima_home.join(".rdd")
    }

    pub(crate) fn launch_file(&self, vm: &str) -> PathBuf {
        self.own_dir().join(format!("{vm}.launch.json"))
    }

    /// The processes of a machine, with their words.
    pub(crate) fn processes(&self, vm: &str) -> Vec<(u32, String)> {
        let mark = format!("{MARK}={}", self.folder(vm).display());
        processes().into_iter().filter(|(pid, _)| has_variable(*pid, &mark)).collect()
    }

    pub(crate) fn agent(&self, vm: &str) -> u32 {
        let found = self.processes(vm).into_iter().find(|(_, words)| words.contains("hostagent --pidfile"));
        found.unwrap_or_else(|| panic!("{vm} has no agent: {:?}", self.processes(vm))).0
    }

    pub(crate) fn kill_all(&self, vm: &str) {
        self.processes(vm).into_iter().for_each(|(pid, _)| kill(pid));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let own = self.home.path().to_string_lossy().into_owned();
        for (pid, _) in
            processes().into_iter().filter(|(pid, words)| words.contains(&own) || has_variable_below(*pid, &own))
        {
            kill(pid);
        }
    }
}

fn has_variable_below(pid: u32, folder: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let prefix = format!("{MARK}={folder}/");
    environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(prefix.as_bytes()))
}

pub(crate) fn kill(pid: u32) {
    if let Ok(Some(process)) = Process::open(pid) {
        let _ = process.signal(Signal::KILL);
        let _ = process.wait(Duration::from_secs(10));
    }
}

pub(crate) fn processes() -> Vec<(u32, String)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()));
    let alive = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    };
    let words = |pid: u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        (pid, String::from_utf8_lossy(&line).replace('\0', " "))
    };
    pids.filter(alive).map(words).collect()
}

fn has_variable(pid: u32, expected: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == expected.as_bytes())
}

pub(crate) const TEMPLATE: &str = "vmType: qemu\nimages: [{location: /x}]\ncontainerd: {system: false, user: false}\n";

impl Subject for Place {
    fn driver(&self) -> Arc<dyn Driver> {
        Arc::new(Place::driver(self))
    }

    fn template(&self, number: u32) -> String {
        format!("{TEMPLATE}cpus: {number}\n")
    }

    fn bad_template(&self) -> String {
        "vmType: qemu\ncpus: 2\n".to_owned()
    }

    fn crash(&self, vm: &str) {
        self.kill_all(vm);
    }

    fn hang(&self, vm: &str) {
        fs::write(self.folder(vm).join("deaf"), "").unwrap();
    }

    fn half_make(&self, vm: &str) {
        fs::create_dir_all(self.own_dir()).unwrap();
        fs::write(self.own_dir().join(format!("{vm}.preparing")), "").unwrap();
        fs::create_dir_all(self.folder(vm)).unwrap();
        fs::write(self.folder(vm).join("lima.yaml"), TEMPLATE).unwrap();
    }

    fn maim(&self, vm: &str) {
        kill(self.agent(vm));
    }

    fn leftovers(&self, vm: &str) -> Vec<String> {
        let mut left: Vec<String> = self.processes(vm).into_iter().map(|(_, words)| words).collect();
        let files = [self.folder(vm), self.own_dir().join(format!("{vm}.preparing")), self.launch_file(vm)];
        left.extend(files.iter().filter(|path| path.exists()).map(|path| path.display().to_string()));
        left.extend(scratch_of(&self.own_dir()));
        left
    }
}

impl ClusterSubject for Place {
    fn release(&self, number: u32) -> Wanted {
        let program = self.bin().join(format!("k3s-{number}"));
        fs::write(&program, format!("{K3S}# {}\n", "x".repeat(number as usize))).unwrap();
        Wanted { version: format!("v1.34.{number}+k3s1"), program, images: Vec::new(), port: 7443 }
    }

    fn crash_cluster(&self, vm: &str) {
        let pid = fs::read_to_string(self.folder(vm).join("guest/unit")).unwrap();
        kill(pid.trim().parse().unwrap());
    }

    fn engine_identity(&self, vm: &str) -> String {
        format!("{} {}", self.agent(vm), fs::read_to_string(self.folder(vm).join("qemu.pid")).unwrap())
    }
}

/// Templates and logs that exist for a moment only.
fn scratch_of(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.starts_with('t')).collect()
}
