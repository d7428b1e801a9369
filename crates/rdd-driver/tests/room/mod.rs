//! A room for engines: a network namespace and a `/run` of a test's own, so that no test meets another one's engines, or
//! those of whoever works on this machine.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::{
    fs,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use rdd_driver::{Driver, host::HostDriver, suite::Subject};
use rdd_instance::{Engine, Environment, Instance, Platform};
use rdd_stdx::{
    clock::SystemClock,
    process::{self, Process, Signal},
};
use rdd_testkit::{
    bounded::{self, Outcome},
    capability::require,
};

/// Says that a test is inside already.
const INSIDE: &str = "RDD_TEST_ROOM";
const TEST_TAKES: Duration = Duration::from_secs(600);
const COMMAND_TAKES: Duration = Duration::from_secs(90);

/// Whether a test can go on. The first time it cannot: the whole test is run again, alone and inside of a room.
pub(crate) fn enter(test: &str) -> bool {
    enter_needing(test, "own-engine")
}

fn enter_needing(test: &str, capability: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        run("mount", &["-t", "tmpfs", "tmpfs", "/run"]);
        run("ip", &["link", "set", "lo", "up"]);
        return true;
    }
    if !require(capability) {
        return false;
    }
    let program = std::env::current_exe().unwrap();
    let mut command = process::background("unshare", Path::new("/"));
    command.args(["--net", "--mount", "--propagation", "private", "--"]).arg(program);
    command.args(["--exact", test, "--nocapture", "--test-threads", "1"]).env(INSIDE, "1");
    run_test(&mut command, test);
    false
}

fn run_test(command: &mut Command, test: &str) {
    match bounded::run(command, TEST_TAKES, |_| ()).unwrap() {
        Outcome::Ended(output) => {
            let output = output.expect_success();
            assert!(output.stdout.contains("1 passed"), "{}", output.stdout);
        }
        Outcome::TimedOut(output) => panic!("{test} took too long\n{}\n{}", output.stdout, output.stderr),
    }
}

/// As [`enter`], but inside of the room the test is nobody, who may have user namespaces.
pub(crate) fn enter_without_root(test: &str) -> bool {
    if is_root() {
        if enter_needing(test, "rootless-engine") {
            become_nobody(test);
        }
        return false;
    }
    std::env::var_os(INSIDE).is_some()
}

const NOBODY: &str = "65534";
const NOBODYS_RUNTIME: &str = "/run/user/65534";

/// Runs the test a third time, as nobody, with what an administrator gives to users of rootless engines.
fn become_nobody(test: &str) {
    run("mkdir", &["-p", NOBODYS_RUNTIME, "/run/home"]);
    run("chmod", &["755", "/run", "/run/user"]);
    run("chown", &[NOBODY, NOBODYS_RUNTIME, "/run/home"]);
    run("chmod", &["700", NOBODYS_RUNTIME]);
    fs::write("/run/ids", "nobody:200000:65536\n").unwrap();
    run("mount", &["--bind", "/run/ids", "/etc/subuid"]);
    run("mount", &["--bind", "/run/ids", "/etc/subgid"]);
    run("mknod", &["-m", "666", "/run/tun", "c", "10", "200"]);
    run("mount", &["--bind", "/run/tun", "/dev/net/tun"]);
    // Where the runner wants temporary files, only root may make any.
    let temporary = tempfile::Builder::new().prefix("rdd-n").tempdir().unwrap();
    run("chown", &[NOBODY, &temporary.path().to_string_lossy()]);
    // The program lies where only its builder can read.
    fs::copy(std::env::current_exe().unwrap(), "/run/test").unwrap();
    let mut command = process::background("setpriv", Path::new("/"));
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--", "/run/test"]);
    command.args(["--exact", test, "--nocapture", "--test-threads", "1"]);
    command.env("HOME", "/run/home").env("XDG_RUNTIME_DIR", NOBODYS_RUNTIME);
    command.env("TMPDIR", temporary.path());
    run_test(&mut command, test);
}

fn is_root() -> bool {
    run("id", &["-u"]).trim() == "0"
}

/// Runs a program to its end and returns what it wrote.
#[track_caller]
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let (code, stdout, stderr) = try_run(program, arguments);
    assert_eq!(code, Some(0), "{program} {arguments:?}\n{stdout}\n{stderr}");
    stdout
}

pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    try_run(program, arguments).0 == Some(0)
}

pub(crate) fn try_run(program: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = process::background(program, Path::new("/"));
    finish(command.args(arguments))
}

fn finish(command: &mut Command) -> (Option<i32>, String, String) {
    match bounded::run(command, COMMAND_TAKES, |_| ()).unwrap() {
        Outcome::Ended(output) => (output.code, output.stdout, output.stderr),
        Outcome::TimedOut(output) => panic!("{command:?} hangs\n{}\n{}", output.stdout, output.stderr),
    }
}

/// One instance with a home of its own.
pub(crate) struct Place {
    home: tempfile::TempDir,
    pub(crate) instance: Instance,
    environment: Environment,
}

impl Place {
    pub(crate) fn new(instance: &str) -> Self {
        let home = tempfile::Builder::new().prefix("rdd-d").tempdir().unwrap();
        let environment = Environment {
            home: Some(home.path().as_os_str().to_owned()),
            instance: Some(instance.to_owned()),
            path: std::env::var_os("PATH"),
            runtime_dir: std::env::var_os("XDG_RUNTIME_DIR"),
            ..Environment::default()
        };
        let instance = Instance::resolve(&environment, Platform::Linux).unwrap();
        Self { home, instance, environment }
    }

    pub(crate) fn host(&self) -> HostDriver {
        HostDriver::new(&self.instance, &self.environment, SystemClock::shared())
    }

    pub(crate) fn engine(&self, vm: &str) -> Engine {
        let runtime_dir = if is_root() { "/run" } else { NOBODYS_RUNTIME };
        self.instance.engine(vm, Path::new(runtime_dir))
    }

    /// The process of a part, as the driver wrote it down.
    pub(crate) fn part(&self, vm: &str, part: &str) -> Option<Process> {
        let record = fs::read(self.engine(vm).run_dir.join(format!("{part}.json"))).ok()?;
        let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
        Process::open(u32::try_from(record["pid"].as_u64().unwrap()).unwrap()).unwrap()
    }

    pub(crate) fn kill(&self, vm: &str, part: &str) {
        let process = self.part(vm, part).unwrap_or_else(|| panic!("{part} of {vm} does not run"));
        process.signal(Signal::KILL).unwrap();
        assert!(process.wait(Duration::from_secs(10)).unwrap());
    }

    /// Runs the Docker client against the engine of a machine.
    pub(crate) fn docker(&self, vm: &str, arguments: &[&str]) -> String {
        docker_at(&self.engine(vm).docker_socket, arguments)
    }

    /// A folder that a container can have as its root.
    pub(crate) fn bare_root(&self) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fill_root(root.path());
        root
    }

    /// Makes an image with nothing but a static busybox.
    pub(crate) fn import_image(&self, vm: &str) {
        import_image_at(&self.engine(vm).docker_socket);
    }
}

/// Files, processes and devices that a test would leave behind if it failed in the middle.
impl Drop for Place {
    fn drop(&mut self) {
        let machines = fs::read_dir(&self.instance.paths.lima_home).into_iter().flatten().flatten();
        for vm in machines.filter_map(|entry| entry.file_name().into_string().ok()) {
            let driver = self.host();
            // On a thread of its own, since a test that fails drops this inside of its own runtime.
            let work = || tokio::runtime::Runtime::new().unwrap().block_on(driver.delete(&vm));
            let _ = std::thread::scope(|scope| scope.spawn(work).join());
        }
    }
}

pub(crate) fn docker_at(socket: &Path, arguments: &[&str]) -> String {
    let host = format!("unix://{}", socket.display());
    run("docker", &[&["-H", &host], arguments].concat())
}

pub(crate) fn import_image_at(socket: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fill_root(&root);
    let tar = dir.path().join("image.tar");
    run("tar", &["-C", root.to_str().unwrap(), "-cf", tar.to_str().unwrap(), "."]);
    docker_at(socket, &["import", tar.to_str().unwrap(), "box"]);
}

/// What a container sees as its root: a static busybox under some names.
fn fill_root(root: &Path) {
    for folder in ["bin", "www", "proc", "sys", "dev", "tmp"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::write(root.join("www/index.html"), "from inside\n").unwrap();
    let busybox = run("sh", &["-c", "command -v busybox"]);
    fs::copy(busybox.trim(), root.join("bin/busybox")).unwrap();
    for name in ["sh", "httpd", "nc", "sleep"] {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(name)).unwrap();
    }
}

/// The host driver in a place, for the contract.
pub(crate) struct HostSubject {
    pub(crate) place: Place,
    params: &'static str,
    /// The parts that run, the one that hears requests last.
    parts: &'static [&'static str],
}

impl HostSubject {
    pub(crate) fn moby() -> Self {
        Self { place: Place::new("2"), params: "moby", parts: &["containerd", "dockerd"] }
    }

    pub(crate) fn containerd() -> Self {
        Self { place: Place::new("2"), params: "containerd", parts: &["containerd"] }
    }
}

impl HostSubject {
    pub(crate) fn rootless() -> Self {
        Self { place: Place::new("2"), params: "moby", parts: &["dockerd"] }
    }
}

impl Subject for HostSubject {
    fn driver(&self) -> Arc<dyn Driver> {
        Arc::new(self.place.host())
    }

    fn template(&self, number: u32) -> String {
        format!("vmType: host\ncpus: {number}\nparam:\n  CONTAINER_ENGINE: {}\n", self.params)
    }

    fn bad_template(&self) -> String {
        "vmType: host\nparam:\n  CONTAINER_ENGINE: podman\n".to_owned()
    }

    fn crash(&self, vm: &str) {
        for part in self.parts {
            self.place.kill(vm, part);
        }
    }

    fn hang(&self, vm: &str) {
        let part = self.parts.last().unwrap();
        self.place.part(vm, part).unwrap().signal(Signal::STOP).unwrap();
    }

    fn half_make(&self, vm: &str) {
        let folder = self.place.engine(vm).folder;
        fs::create_dir_all(folder.join("docker")).unwrap();
        fs::write(folder.join(".preparing"), "").unwrap();
        fs::write(folder.join("lima.yaml"), self.template(1)).unwrap();
    }

    fn maim(&self, vm: &str) {
        match self.parts {
            [_] => {
                // One part is all there is: what can be left is a process that it started.
                let mut command = process::background("sleep", Path::new("/"));
                let folder = self.place.engine(vm).folder;
                let launch = fs::read(folder.join("launch.json")).unwrap();
                let launch: serde_json::Value = serde_json::from_slice(&launch).unwrap();
                command.env("RDD_HOST_ENGINE", folder).env("RDD_MACHINE_NONCE", launch["nonce"].as_str().unwrap());
                command.arg("600");
                let child = command.spawn().unwrap();
                self.place.kill(vm, self.parts[0]);
                std::thread::spawn(move || {
                    let mut child = child;
                    child.wait()
                });
            }
            _ => self.place.kill(vm, "containerd"),
        }
    }

    fn leftovers(&self, vm: &str) -> Vec<String> {
        leftovers(&self.place, vm)
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(180)
    }
}

/// What is left of a machine anywhere on this host.
pub(crate) fn leftovers(place: &Place, vm: &str) -> Vec<String> {
    let engine = place.engine(vm);
    let mut left: Vec<String> = [&engine.folder, &engine.run_dir]
        .into_iter()
        .filter(|path| path.symlink_metadata().is_ok())
        .map(|path| path.display().to_string())
        .collect();
    left.extend(running_leftovers(place, vm));
    left
}

/// What is left of a machine that only one that runs may have.
pub(crate) fn running_leftovers(place: &Place, vm: &str) -> Vec<String> {
    let engine = place.engine(vm);
    let mut left = Vec::new();
    if engine.docker_socket.symlink_metadata().is_ok_and(|meta| meta.file_type().is_socket()) {
        left.push("docker.sock".to_owned());
    }
    if succeeds("ip", &["link", "show", "dev", &engine.bridge]) {
        left.push(format!("device {}", engine.bridge));
    }
    for table in ["nat", "mangle", "filter"] {
        if is_root() && run("iptables", &["-t", table, "-S"]).contains(&engine.chain) {
            left.push(format!("rules in {table}"));
        }
    }
    let folder = engine.folder.display().to_string();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(Path::new);
    let ours = points.filter(|point| point.starts_with(&engine.folder) || point.starts_with(&engine.run_dir));
    left.extend(ours.map(|point| format!("mount {}", point.display())));
    let mark = format!("RDD_HOST_ENGINE={folder}");
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
            left.push(format!("process {:?}", fs::read_to_string(entry.path().join("cmdline"))));
        }
    }
    let cgroups = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten().map(|entry| entry.path());
    let groups =
        cgroups.chain([PathBuf::from("/sys/fs/cgroup")]).map(|root| root.join(engine.cgroup.trim_start_matches('/')));
    left.extend(groups.filter(|group| group.exists()).map(|group| group.display().to_string()));
    left
}
