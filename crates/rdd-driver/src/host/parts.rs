//! The processes of an engine and their command lines; each process writes its own log.

use std::{ffi::OsString, path::Path};

use rdd_instance::{Engine, Pool};
use rdd_stdx::{
    file::{self, PRIVATE},
    process::{self, Process},
};
use tokio::process::{Child, Command};

use super::{
    identity::{CLUSTER_MARK, MARK, Seen},
    machine::Machine,
    needs::path_for_k3s,
};
use crate::{Error, LogOptions, log};

/// A process of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Containerd,
    Dockerd,
    /// Kubernetes; independent of the engine's kind.
    K3s,
}

impl Part {
    pub(super) const ALL: &[Self] = &[Self::Containerd, Self::Dockerd, Self::K3s];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Dockerd => "dockerd",
            Self::K3s => "k3s",
        }
    }

    /// The names that the part's process can have: without root, a script executes the program that creates the
    /// namespaces.
    pub(super) const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Containerd => &["containerd"],
            Self::Dockerd => &["dockerd", "rootlesskit", "dockerd-rootless.sh"],
            // K3s overwrites its process title.
            Self::K3s => &["k3s", "k3s server", "k3s-server"],
        }
    }

    /// The name of its log in the machine's folder.
    pub(super) const fn log(self) -> &'static str {
        match self {
            Self::Containerd => "containerd.log",
            Self::Dockerd => "dockerd.log",
            Self::K3s => "k3s.log",
        }
    }
}

/// A running part, started by this daemon or adopted.
#[derive(Debug)]
pub(super) struct Alive {
    pub(super) part: Part,
    process: Process,
    child: Option<Child>,
}

impl Alive {
    /// Opens a process that an earlier daemon started. Returns `None` if it has ended.
    pub(super) fn adopt(part: Part, seen: &Seen) -> Result<Option<Self>, Error> {
        let open = seen.open().map_err(|source| Error::System { action: format!("watch {}", part.name()), source })?;
        Ok(open.map(|process| Self { part, process, child: None }))
    }

    /// Waits for the process to end and returns its exit status as text. Cancel safe: it can be dropped and called
    /// again.
    pub(super) async fn ended(&mut self) -> (Part, String) {
        let how = match &mut self.child {
            Some(child) => child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string()),
            None => match self.process.ended().await {
                Ok(()) => "it was started by an earlier daemon, so nobody knows how".to_owned(),
                Err(error) => error.to_string(),
            },
        };
        (self.part, how)
    }
}

/// Variables of our environment that an engine must not inherit: with them it would notify systemd for rdd, use rdd's
/// sockets, or connect to another engine.
const MISLEADING: &[&str] = &[
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "LISTEN_PID",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "CONTAINERD_ADDRESS",
    "CONTAINERD_NAMESPACE",
    "KUBECONFIG",
    "K3S_CONFIG_FILE",
    "K3S_DATA_DIR",
    "K3S_TOKEN",
    "K3S_URL",
    "K3S_KUBECONFIG_OUTPUT",
    "K3S_KUBECONFIG_MODE",
    "K3S_DATASTORE_ENDPOINT",
];

/// Starts a part and records its process.
pub(super) fn spawn(
    machine: &Machine,
    part: Part,
    program: &Path,
    arguments: &[OsString],
    options: &LogOptions,
) -> Result<Alive, Error> {
    let engine = &machine.engine;
    let failed = |source| Error::System { action: format!("start {}", program.display()), source };
    let output = log::rotate(&engine.folder.join(part.log()), options)?;
    let mut command = process::background(program, &engine.folder);
    command.args(arguments).stdout(output.try_clone().map_err(failed)?).stderr(output);
    for name in MISLEADING {
        command.env_remove(name);
    }
    let launch = machine.launch()?;
    command.env("PATH", machine.host.programs.path());
    launch.mark(&mut command, MARK, &engine.folder);
    if part == Part::K3s {
        command.env("PATH", path_for_k3s(machine.host.programs.path()));
        command.env(CLUSTER_MARK, &engine.k3s_root);
    }
    command.env("DOCKERD_ROOTLESS_ROOTLESSKIT_STATE_DIR", &engine.rootless_state);
    let child = Command::from(command).spawn().map_err(failed)?;
    let pid = child.id().unwrap_or_default();
    machine.record(part, pid, &launch)?;
    // The child is not reaped yet, so the PID cannot belong to another process.
    match Process::open(pid).map_err(failed)? {
        Some(process) => Ok(Alive { part, process, child: Some(child) }),
        None => Err(failed(std::io::Error::other("it ended at once"))),
    }
}

/// Writes the options of `containerd` that it does not accept as arguments.
pub(super) fn write_containerd_config(machine: &Machine) -> Result<(), Error> {
    let content = containerd_config(&machine.engine);
    Ok(file::write_atomic(&machine.containerd_config(), content.as_bytes(), PRIVATE)?)
}

fn containerd_config(engine: &Engine) -> String {
    // JSON strings are valid TOML strings.
    let quoted = |path: &Path| serde_json::Value::from(path.to_string_lossy()).to_string();
    format!(
        "version = 2\n\
         # Kubernetes brings its own way in; this one would open a port.\n\
         disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n\n\
         [debug]\n  address = {}\n\n\
         [plugins.\"io.containerd.internal.v1.opt\"]\n  path = {}\n",
        quoted(&engine.containerd_debug_socket),
        quoted(&engine.containerd_root.join("opt")),
    )
}

pub(super) fn containerd_arguments(machine: &Machine, options: &LogOptions) -> Vec<OsString> {
    let engine = &machine.engine;
    let mut arguments = Arguments::default();
    arguments.path("--config", &machine.containerd_config());
    arguments.path("--root", &engine.containerd_root);
    arguments.path("--state", &engine.containerd_state);
    arguments.path("--address", &engine.containerd_socket);
    arguments.text("--log-level", if options.debug { "debug" } else { "info" });
    arguments.0
}

/// The arguments of `dockerd` that describe the engine's network.
#[derive(Debug)]
pub(super) struct Network<'a> {
    pub(super) pool: &'a Pool,
    pub(super) mtu: Option<u16>,
}

/// Builds the arguments of `dockerd`. `network` is `None` without root, where `dockerd` runs in a network namespace of
/// its own and starts its own `containerd`.
pub(super) fn dockerd_arguments(
    machine: &Machine,
    socket: &Path,
    network: Option<&Network<'_>>,
    options: &LogOptions,
) -> Vec<OsString> {
    let engine = &machine.engine;
    let mut arguments = Arguments::default();
    // Without this flag, dockerd reads the system's configuration.
    arguments.path("--config-file", &machine.daemon_config());
    arguments.path("--data-root", &engine.data_root);
    arguments.path("--exec-root", &engine.exec_root);
    arguments.path("--pidfile", &engine.pid_file);
    let mut host = OsString::from("unix://");
    host.push(socket);
    arguments.text("--host", host);
    arguments.text("--log-level", if options.debug { "debug" } else { "info" });
    if let Some(network) = network {
        arguments.path("--containerd", &engine.containerd_socket);
        arguments.text("--bridge", engine.bridge.as_str());
        let pool = format!("base={},size={}", network.pool, Pool::NETWORK_PREFIX);
        arguments.text("--default-address-pool", pool);
        // The driver writes the rules itself: engines in one network namespace empty each other's chains (rules.rs).
        arguments.flag("--iptables=false");
        arguments.flag("--ip6tables=false");
        arguments.flag("--userland-proxy=true");
        // Without this flag, the socket would belong to the system's group `docker`.
        arguments.text("--group", rustix::process::getegid().as_raw().to_string());
        arguments.text("--cgroup-parent", engine.cgroup.as_str());
        arguments.text("--exec-opt", "native.cgroupdriver=cgroupfs");
        if let Some(mtu) = network.mtu {
            arguments.text("--mtu", mtu.to_string());
        }
    }
    arguments.0
}

/// Builds an argument vector.
#[derive(Debug, Default)]
pub(super) struct Arguments(pub(super) Vec<OsString>);

impl Arguments {
    pub(super) fn flag(&mut self, flag: &str) {
        self.0.push(flag.into());
    }

    pub(super) fn text(&mut self, flag: &str, value: impl Into<OsString>) {
        self.flag(flag);
        self.0.push(value.into());
    }

    pub(super) fn path(&mut self, flag: &str, value: &Path) {
        self.text(flag, value);
    }
}
