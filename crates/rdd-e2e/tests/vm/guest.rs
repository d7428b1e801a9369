//! A user of this machine with a home, `limactl`, a guest image and the product.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use rdd_stdx::process::{self, Process, Signal};
use rdd_testkit::{
    Output,
    bounded::{self, Outcome},
    bundle::{self, Subject},
    capability, eventually,
    processes::{Info, Table},
};

/// The timeout of a boot of an emulated VM on a busy machine.
pub(crate) const BOOT: Duration = Duration::from_secs(400);
/// The timeout of every command of the product.
const TIMEOUT: &str = "--timeout=380s";
pub(crate) const NAMESPACE: &str = "default";

/// The prefix of the test users' names; the PID of the test follows.
const USERS: &str = "rddvm";

/// A user; it is removed with all of its files and processes on drop.
pub(crate) struct User {
    name: String,
    pub(crate) home: PathBuf,
    program: PathBuf,
    lima: PathBuf,
    image: PathBuf,
}

impl User {
    /// Creates a user; `None` if VMs are not to be tested, which is printed.
    pub(crate) fn new() -> Option<Self> {
        if std::env::var_os("RDD_TEST_VM").is_none() {
            skip("make test-vm");
            return None;
        }
        if !capability::require("root") {
            return None;
        }
        remove_abandoned();
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").canonicalize().unwrap();
        let name = format!("{USERS}{}", std::process::id());
        // A short path, because the path of a Unix socket below it is limited to about a hundred bytes.
        let home = PathBuf::from("/home").join(&name);
        run("useradd", &["--create-home", "--home-dir", &home.to_string_lossy(), "--shell", "/bin/bash", &name]);
        let user =
            Self { program: home.join("rdd"), lima: home.join("lima"), image: home.join("image.yaml"), name, home };
        // The build may be in a folder that only its builder can read.
        let built = std::env::var_os("RDD_BIN").map_or_else(|| target.join("debug/rdd"), PathBuf::from);
        fs::copy(built, &user.program).unwrap();
        run("cp", &["-r", &target.join("lima").to_string_lossy(), &user.lima.to_string_lossy()]);
        let image = target.join("vm-image");
        let text = fs::read_to_string(image.join("image.yaml")).expect("make vm-image was run");
        let guest = user.home.join("guest");
        fs::create_dir(&guest).unwrap();
        for file in ["disk.img", "vmlinuz", "initrd"] {
            fs::hard_link(image.join(file), guest.join(file))
                .or_else(|_| fs::copy(image.join(file), guest.join(file)).map(|_| ()))
                .unwrap();
        }
        let release = user.home.join("k3s/v1.34.6+k3s1");
        fs::create_dir_all(&release).unwrap();
        let standin = target.join("conformance/k3s-standin");
        let k3s = real_k3s().unwrap_or(standin);
        fs::copy(k3s, release.join("k3s")).expect("the stand-in for K3s was built");
        fs::write(&user.image, text.replace(&*image.to_string_lossy(), &guest.to_string_lossy())).unwrap();
        for path in [&user.program, &user.image] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Some(user)
    }

    /// A program as this user, with its own environment.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = process::background("setpriv", &self.home);
        command.env_clear();
        command.args(["--reuid", &self.name, "--regid", &self.name, "--clear-groups", "--"]).arg(program);
        command
            .env("HOME", &self.home)
            .env("USER", &self.name)
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
        command.env("RDD_K3S_DIR", self.home.join("k3s")).env("RDD_INSTANCE", "v").env("RDD_LOG_LEVEL", "info");
        command.env("RDD_LIMACTL", self.lima.join("bin/limactl")).env("RDD_VM_IMAGE", &self.image);
        command
    }

    /// Runs the product.
    pub(crate) fn rdd(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(&self.program);
        finish(command.args(arguments))
    }

    /// Runs `limactl` with the environment that the product gives it without hardware acceleration.
    pub(crate) fn limactl(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(&self.lima.join("bin/limactl"));
        let home = self.home.join(".rdv/lima");
        command.env("LIMA_HOME", &home).env("XDG_CACHE_HOME", self.home.join(".cache"));
        command.env("QEMU_SYSTEM_X86_64", home.join(".rdd/rdd-qemu-emulated")).env("LIMA_SSH_PORT_FORWARDER", "true");
        finish(command.args(arguments))
    }

    /// Runs `limactl` with its own empty home.
    pub(crate) fn bare_limactl(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(&self.lima.join("bin/limactl"));
        finish(command.env("LIMA_HOME", self.home.join(".bare-lima")).args(arguments))
    }

    /// Sets properties of the App and waits until it has settled.
    #[track_caller]
    pub(crate) fn set(&self, properties: &[&str]) {
        let began = Instant::now();
        self.rdd(&[&["set", TIMEOUT], properties].concat()).expect_success();
        report(&format!("rdd set {}", properties.join(" ")), began.elapsed());
    }

    /// Runs a command of the product that waits until the App has settled.
    #[track_caller]
    pub(crate) fn verb(&self, verb: &str) -> Duration {
        let began = Instant::now();
        self.rdd(&[verb, TIMEOUT]).expect_success();
        report(&format!("rdd {verb}"), began.elapsed());
        began.elapsed()
    }

    /// Runs the Docker client with the instance's socket.
    pub(crate) fn docker(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(Path::new("docker"));
        finish(command.arg("-H").arg(format!("unix://{}", self.docker_socket().display())).args(arguments))
    }

    pub(crate) fn docker_socket(&self) -> PathBuf {
        self.home.join(".rdv/docker.sock")
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.home.join(".rdv/lima/rd")
    }

    /// The PID in a file of the VM.
    #[track_caller]
    pub(crate) fn pid(&self, file: &str) -> u32 {
        let path = self.folder().join(file);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        text.trim().parse().unwrap()
    }

    pub(crate) fn kill(&self, pid: u32) {
        let process = Process::open(pid).unwrap().expect("it lives");
        process.signal(Signal::KILL).unwrap();
        assert!(process.wait(Duration::from_secs(10)).unwrap());
    }

    /// A field of the LimaVM.
    pub(crate) fn vm(&self, path: &str) -> String {
        let words = ["ctl", "get", "limavms", "rd", "-n", NAMESPACE, "-o", &format!("jsonpath={{{path}}}")];
        self.rdd(&words).expect_success().stdout.trim().to_owned()
    }

    pub(crate) fn restarts(&self) -> u64 {
        self.vm(".status.restartCount").parse().unwrap_or(0)
    }

    /// Waits until the VM has been restarted once more.
    #[track_caller]
    pub(crate) fn until_restarted(&self, before: u64, what: &str) {
        let began = Instant::now();
        eventually(what, BOOT, || {
            let running = self.vm(".status.conditions[?(@.type==\"Running\")].status");
            let message = self.vm(".status.conditions[?(@.type==\"Running\")].message");
            if self.restarts() > before && running == "True" { Ok(()) } else { Err(format!("{running}: {message}")) }
        });
        report(what, began.elapsed());
    }

    /// Waits until the engine in the VM answers.
    #[track_caller]
    pub(crate) fn until_docker_answers(&self) {
        let began = Instant::now();
        eventually("Docker answers", BOOT, || {
            let output = self.docker(&["version", "--format", "{{.Server.Version}}"]);
            if output.code == Some(0) { Ok(()) } else { Err(output.stderr) }
        });
        report("docker answers", began.elapsed());
    }

    /// The remaining processes of this user.
    pub(crate) fn processes(&self) -> Vec<String> {
        processes_of(&self.name)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.leave_evidence();
        }
        remove_user(&self.name);
    }
}

/// Ends all processes of a user and removes the user.
fn remove_user(name: &str) {
    for line in processes_of(name) {
        let pid = line.split_ascii_whitespace().next().and_then(|pid| pid.parse().ok());
        if let Some(Ok(Some(process))) = pid.map(Process::open) {
            let _ = process.signal(Signal::KILL);
            let _ = process.wait(Duration::from_secs(10));
        }
    }
    let _ = try_run("userdel", &["--remove", name]);
    let _ = fs::remove_dir_all(Path::new("/home").join(name));
}

/// Removes the users of tests that were killed.
fn remove_abandoned() {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let names = users.lines().filter_map(|line| line.split(':').next());
    for name in names {
        let pid = name.strip_prefix(USERS).and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            remove_user(name);
        }
    }
}

fn processes_of(name: &str) -> Vec<String> {
    let output = finish(process::background("ps", Path::new("/")).args(["-u", name, "-o", "pid=,stat=,args="]));
    // A zombie is not counted, such as a container's first process whose parent has not reaped it.
    let is_alive = |line: &&str| line.split_ascii_whitespace().nth(1).is_some_and(|state| !state.starts_with('Z'));
    output.stdout.lines().map(str::trim).filter(is_alive).map(str::to_owned).collect()
}

impl User {
    /// Prints the ends of the logs, and writes a support bundle.
    fn leave_evidence(&self) {
        let mut text = String::new();
        let daemon = self.home.join(".local/state/rancher-desktop-v/rdd.stderr.log");
        let logs = ["ha.stderr.log", "ha.stdout.log", "serial.log"].map(|name| self.folder().join(name));
        for path in logs.into_iter().chain([daemon]) {
            let content = fs::read(&path).unwrap_or_default();
            let content = String::from_utf8_lossy(&content);
            let lines: Vec<&str> = content.lines().collect();
            let tail = lines[lines.len().saturating_sub(25)..].join("\n");
            text.push_str(&format!("== {}\n{tail}\n", path.display()));
        }
        text.push_str(&format!("== processes\n{}", self.processes().join("\n")));
        say(&text);
        let processes = self.processes_in_detail();
        let homes = [self.home.clone()];
        let reason = "the scenario of a virtual machine failed";
        let subject = Subject { name: "vm", reason, processes: &processes, homes: &homes, output: &text };
        match bundle::write(&bundle::default_parent(), &subject) {
            Ok(folder) => say(&format!("support bundle: {}", folder.display())),
            Err(error) => say(&format!("no support bundle: {error}")),
        }
    }

    fn processes_in_detail(&self) -> Vec<Info> {
        let first_word = |line: &String| line.split_ascii_whitespace().next().and_then(|pid| pid.parse::<u32>().ok());
        let pids: Vec<u32> = self.processes().iter().filter_map(first_word).collect();
        let table = Table::read();
        table.iter().flat_map(Table::iter).filter(|process| pids.contains(&process.pid)).cloned().collect()
    }
}

/// A real K3s instead of the stand-in, if `RDD_TEST_K3S` names one.
pub(crate) fn real_k3s() -> Option<PathBuf> {
    std::env::var_os("RDD_TEST_K3S").map(PathBuf::from)
}

#[allow(clippy::print_stderr, reason = "the figures are part of what this test is for")]
pub(crate) fn report(what: &str, took: Duration) {
    eprintln!("        {:>6.1} s  {what}", took.as_secs_f64());
}

#[allow(clippy::print_stderr, reason = "where a run of many minutes is must be seen")]
pub(crate) fn say(what: &str) {
    eprintln!("  {what}");
}

#[allow(clippy::print_stderr, reason = "a skip that nobody sees is a test that nobody runs")]
fn skip(remedy: &str) {
    eprintln!("skipped: virtual machines are tested by {remedy}");
}

pub(crate) fn finish(command: &mut Command) -> Output {
    match bounded::run(command, BOOT, |_| ()).unwrap() {
        Outcome::Ended(output) => output,
        Outcome::TimedOut(output) => panic!("{command:?} hangs\n{}\n{}", output.stdout, output.stderr),
    }
}

fn try_run(program: &str, arguments: &[&str]) -> Output {
    finish(process::background(program, Path::new("/")).args(arguments))
}

pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    try_run(program, arguments).expect_success().stdout
}
