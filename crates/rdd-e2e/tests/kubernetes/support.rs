//! An instance with a stand-in for K3s, and helpers for its tests.

use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    time::Duration,
};

use rdd_stdx::process::{Process, Signal, background};
use rdd_testkit::{Output, Sandbox, bounded::run, capability::require, eventually, processes::look_at};
use serde_json::{Value, json};

pub(crate) use crate::standin::finish;
use crate::standin::program;
pub(crate) use crate::standin::real_k3s;

/// A timeout that is long enough for a busy machine; only a failing test waits this long.
pub(crate) const SOON: Duration = Duration::from_secs(60);
/// The version of the channel `stable`.
pub(crate) const STABLE: &str = "v1.34.6+k3s1";
/// A newer version, that of the channel `latest`.
pub(crate) const LATEST: &str = "v1.35.3+k3s1";

/// Whether a test that needs the stand-in can continue.
#[expect(clippy::print_stderr, reason = "a skip that nobody sees is a test that nobody runs")]
pub(crate) fn needs_standin() -> bool {
    if real_k3s().is_some() {
        eprintln!("skipped: only the stand-in for K3s behaves like this on request");
    }
    real_k3s().is_none()
}

/// The SHA-256 digest of a file, as publishers list it.
pub(crate) fn digest_of(path: &Path) -> String {
    let output = finish(background("sha256sum", Path::new("/")).arg(path), SOON).expect_success();
    output.stdout.split_whitespace().next().unwrap().to_owned()
}

/// The variable that the driver sets for every process of a cluster.
const CLUSTER_MARK: &str = "RDD_HOST_CLUSTER";

/// The main process of a cluster; it identifies one start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClusterProcess {
    pid: u32,
    /// The start time in clock ticks since boot.
    started: u64,
}

/// An instance with its own running engine and with Kubernetes disabled.
pub(crate) struct Product {
    sandbox: Sandbox,
    releases: PathBuf,
}

impl Deref for Product {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl Product {
    /// Starts an instance; `None` if this machine cannot run it, which is printed.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// Like `start`, with additional environment variables.
    pub(crate) fn start_with(environment: &[(&str, &str)]) -> Option<Self> {
        let product = Self::stopped(environment)?;
        product.rdd(&["set", "backend=host", "running=true"]).expect_success();
        Some(product)
    }

    /// Creates an instance with these environment variables, without starting anything.
    pub(crate) fn stopped(environment: &[(&str, &str)]) -> Option<Self> {
        if !require("own-engine") || !require("go") {
            return None;
        }
        let folder = tempfile::Builder::new().prefix("rdd-k3s").tempdir().unwrap();
        let releases = folder.keep();
        let mut builder = Sandbox::builder().env("RDD_LOG_LEVEL", "info").env("RDD_K3S_DIR", &releases);
        if let Some(plugins) = std::env::var_os("RDD_TEST_CNI").filter(|folder| !folder.is_empty()) {
            let mut path = plugins;
            path.push(":");
            path.push(std::env::var_os("PATH").unwrap_or_default());
            builder = builder.env("PATH", path);
        }
        for (name, value) in environment {
            builder = builder.env(name, value);
        }
        let product = Self { sandbox: builder.build(), releases };
        product.offer(STABLE, &json!({}));
        Some(product)
    }

    /// Makes a release with this behaviour available.
    pub(crate) fn offer(&self, version: &str, behaviour: &Value) {
        let folder = self.release(version);
        fs::create_dir_all(&folder).unwrap();
        if !folder.join("k3s").exists() {
            fs::copy(program(), folder.join("k3s")).unwrap();
        }
        fs::write(folder.join("version"), version).unwrap();
        fs::write(folder.join("behaviour.json"), behaviour.to_string()).unwrap();
    }

    /// The folder of a release.
    pub(crate) fn release(&self, version: &str) -> PathBuf {
        self.releases.join(version)
    }

    /// Makes a running cluster misbehave: `hang`, `unready` or `sick`.
    pub(crate) fn afflict(&self, version: &str, with: &str) {
        fs::write(self.release(version).join(with), "").unwrap();
    }

    pub(crate) fn relieve(&self, version: &str, from: &str) {
        fs::remove_file(self.release(version).join(from)).unwrap();
    }

    pub(crate) fn enable(&self) -> Output {
        self.rdd(&["set", "kubernetes.enabled=true"])
    }

    pub(crate) fn disable(&self) -> Output {
        self.rdd(&["set", "kubernetes.enabled=false"])
    }

    /// The App.
    #[track_caller]
    pub(crate) fn app(&self) -> Value {
        let output = self.rdd(&["ctl", "get", "app", "app", "-o", "json"]).expect_success();
        serde_json::from_str(&output.stdout).unwrap()
    }

    /// The status, reason and message of a condition.
    #[track_caller]
    pub(crate) fn condition(&self, kind: &str) -> (String, String, String) {
        let app = self.app();
        let found = app["status"]["conditions"].as_array().and_then(|all| all.iter().find(|one| one["type"] == kind));
        let text = |key: &str| found.map_or(String::new(), |one| one[key].as_str().unwrap_or_default().to_owned());
        (text("status"), text("reason"), text("message"))
    }

    /// Waits until `KubernetesReady` has this reason, and returns its message.
    #[track_caller]
    pub(crate) fn until(&self, reason: &str) -> String {
        self.until_condition("KubernetesReady", reason)
    }

    #[track_caller]
    pub(crate) fn until_condition(&self, kind: &str, reason: &str) -> String {
        eventually(&format!("{kind} {reason}"), SOON, || {
            let (status, found, message) = self.condition(kind);
            if found == reason { Ok(message) } else { Err(format!("{status}/{found}: {message}")) }
        })
    }

    /// The published port; 0 if there is none.
    #[track_caller]
    pub(crate) fn port(&self) -> u16 {
        u16::try_from(self.app()["status"]["kubernetesPort"].as_i64().unwrap_or_default()).unwrap()
    }

    /// The port that the instance tries first.
    pub(crate) fn first_port(&self) -> u16 {
        self.resolve().ports.kubernetes
    }

    fn resolve(&self) -> rdd_instance::Instance {
        let environment = rdd_instance::Environment {
            home: Some(self.home().into()),
            instance: Some(self.instance().to_owned()),
            ..Default::default()
        };
        rdd_instance::Instance::resolve(&environment, rdd_instance::Platform::Linux).unwrap()
    }

    /// The name of the kubeconfig context.
    pub(crate) fn context(&self) -> String {
        format!("rancher-desktop-{}", self.instance())
    }

    pub(crate) fn users_file(&self) -> PathBuf {
        self.home().join(".kube/config")
    }

    pub(crate) fn own_file(&self) -> PathBuf {
        self.home().join(format!(".rd{}/kube.config", self.instance()))
    }

    /// The folder of the VM.
    pub(crate) fn machine_folder(&self) -> PathBuf {
        self.home().join(format!(".rd{}/lima/rd", self.instance()))
    }

    /// The data folder of the cluster.
    pub(crate) fn data(&self) -> PathBuf {
        self.machine_folder().join("k3s")
    }

    /// The cgroups of pods, in each hierarchy.
    pub(crate) fn pod_groups(&self) -> Vec<PathBuf> {
        let own = self.resolve().engine("rd", Path::new("/run")).cgroup;
        let root = Path::new("/sys/fs/cgroup");
        let hierarchies = fs::read_dir(root).unwrap().flatten().map(|entry| entry.path()).chain([root.to_owned()]);
        let groups = hierarchies.map(|hierarchy| hierarchy.join(own.trim_start_matches('/')).join("kubepods"));
        groups.filter(|group| group.is_dir()).collect()
    }

    /// The releases with which the stand-in was started on this data, one per start. A real K3s keeps no such list: compare
    /// [`Product::cluster`] instead.
    pub(crate) fn starts(&self) -> Vec<String> {
        let text = fs::read_to_string(self.data().join("starts")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The certificate authority of the cluster's server certificate; it lives as long as the cluster's data.
    #[track_caller]
    pub(crate) fn authority(&self) -> String {
        fs::read_to_string(self.data().join("server/tls/server-ca.crt")).unwrap()
    }

    /// The process that the driver has recorded as the cluster; `None` if it does not run. A real K3s renames itself, so it cannot be found
    /// by name.
    fn find_cluster(&self) -> Option<ClusterProcess> {
        let record = self.resolve().engine("rd", Path::new("/run")).run_dir.join("k3s.json");
        let record: Value = serde_json::from_slice(&fs::read(record).ok()?).unwrap();
        let pid = u32::try_from(record["pid"].as_u64()?).unwrap();
        let found = look_at(pid).filter(|found| !found.is_zombie())?;
        // The PID may have been reused.
        (record["started"].as_u64() == Some(found.started)).then_some(ClusterProcess { pid, started: found.started })
    }

    /// The process of the cluster, which must be running: an equal value means that it was not restarted.
    #[track_caller]
    pub(crate) fn cluster(&self) -> ClusterProcess {
        self.find_cluster().expect("the cluster runs")
    }

    /// Waits until the cluster is another process than this.
    #[track_caller]
    pub(crate) fn until_restarted(&self, before: ClusterProcess) -> ClusterProcess {
        eventually("another process of the cluster", SOON, || self.find_cluster().filter(|now| *now != before))
    }

    /// All processes of the cluster, whatever their names: each has the driver's variable.
    pub(crate) fn cluster_processes(&self) -> Vec<String> {
        let mut all = self.processes();
        all.retain(|process| !process.is_zombie() && process.variable_names().iter().any(|name| name == CLUSTER_MARK));
        all.iter().map(|process| format!("{} ({})", process.name, process.pid)).collect()
    }

    #[track_caller]
    pub(crate) fn kill_cluster(&self) {
        kill(self.cluster().pid);
    }

    /// Runs kubectl like the user, with the user's own kubeconfig.
    #[track_caller]
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Output {
        let mut command = background("kubectl", Path::new("/"));
        self.dress(&mut command);
        command.args(["--request-timeout=10s"]).args(arguments);
        finish(&mut command, SOON)
    }

    /// Runs docker with the instance's own engine.
    #[track_caller]
    pub(crate) fn docker(&self, arguments: &[&str]) -> Output {
        let mut command = background("docker", Path::new("/"));
        let socket = self.home().join(format!(".rd{}/docker.sock", self.instance()));
        command.arg("-H").arg(format!("unix://{}", socket.display())).args(arguments);
        finish(&mut command, SOON)
    }

    /// Creates an image with only busybox.
    #[track_caller]
    pub(crate) fn make_image(&self, tag: &str) {
        let folder = tempfile::tempdir().unwrap();
        let script = "mkdir bin && cp \"$(command -v busybox)\" bin/busybox && for name in sh sleep echo; do ln -s busybox bin/$name; done \
                      && tar -cf root.tar bin";
        finish(background("sh", folder.path()).args(["-c", script]), SOON).expect_success();
        self.docker(&["import", &folder.path().join("root.tar").to_string_lossy(), tag]).expect_success();
    }

    /// How long the cluster itself took to become ready at its last start.
    pub(crate) fn took(&self) -> Duration {
        let text = fs::read_to_string(self.data().join("took")).unwrap();
        Duration::from_millis(text.trim().parse().unwrap())
    }

    /// The PIDs of the processes with this name.
    pub(crate) fn pids(&self, name: &str) -> Vec<u32> {
        let all = self.processes();
        let mut pids: Vec<u32> = all
            .iter()
            .filter(|process| process.name == name && !process.is_zombie())
            .map(|process| process.pid)
            .collect();
        pids.sort_unstable();
        pids
    }

    /// The engine's PIDs; unchanged PIDs mean that it was not restarted.
    pub(crate) fn engine(&self) -> Vec<u32> {
        [self.pids("dockerd"), self.pids("containerd")].concat()
    }

    #[track_caller]
    pub(crate) fn kill(&self, name: &str) {
        let pids = self.pids(name);
        assert!(!pids.is_empty(), "{name} does not run");
        pids.into_iter().for_each(kill);
    }

    /// Expects that nothing of the cluster is left, and that nothing refers to it.
    #[track_caller]
    pub(crate) fn assert_gone(&self, port: u16) {
        assert_eq!(self.port(), 0);
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "{port} is closed");
        assert!(!self.own_file().exists());
        let merged = fs::read_to_string(self.users_file()).unwrap_or_default();
        assert!(!merged.contains(&self.context()), "{merged}");
        assert_eq!(self.cluster_processes(), Vec::<String>::new());
    }
}

#[track_caller]
fn kill(pid: u32) {
    if let Some(process) = Process::open(pid).unwrap() {
        process.signal(Signal::KILL).unwrap();
        assert!(process.wait(Duration::from_secs(10)).unwrap());
    }
}

/// An engine whose processes are killed leaves devices, mounts and rules behind, so it is stopped properly.
impl Drop for Product {
    fn drop(&mut self) {
        let mut command = self.sandbox.command(&["svc", "delete"]);
        let _ = run(&mut command, Duration::from_secs(120), |_| ());
        let _ = fs::remove_dir_all(&self.releases);
    }
}
