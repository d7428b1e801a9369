//! The environment variables that the program reads: one table, and the only code that reads them.

use std::ffi::{OsStr, OsString};

/// An environment variable, as `docs/reference/environment.md` documents it.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    /// The name of the variable.
    pub name: &'static str,
    /// The parts of the program that read it.
    pub read_by: &'static str,
    /// The effect of the variable.
    pub effect: &'static str,
}

/// All environment variables. The reference page is generated from this table, and [`Environment`] reads no others.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "RDD_INSTANCE",
        read_by: "every command",
        effect: "The instance to use, when `--instance` does not say; empty means `2`.",
    },
    Variable {
        name: "RDD_DEVELOPER_MODE",
        read_by: "every command",
        effect: "`1`, `t`, `T`, `true`, `True` or `TRUE` turns developer mode on: messages down to debug, hidden \
                 commands and flags shown in help, no check that client and server have the same version. Anything else turns it off.",
    },
    Variable {
        name: "RDD_LOG_LEVEL",
        read_by: "every command",
        effect: "`panic`, `fatal`, `error`, `warn`, `info`, `debug` or `trace`, when `--log-level` does not say.",
    },
    Variable {
        name: "RDD_LOG_DIR",
        read_by: "every command, the daemon",
        effect: "The folder for logs, taken as it is, for every instance.",
    },
    Variable {
        name: "RDD_KEEP_LOGS",
        read_by: "`svc start`, `svc delete`, the daemon",
        effect: "If not empty, old logs are neither pruned nor removed with the instance.",
    },
    Variable {
        name: "RDD_LOG_TITLE",
        read_by: "`svc start`",
        effect: "First line of each new log of the daemon, as `=== TITLE ===`.",
    },
    Variable {
        name: "RDD_ALLOW_NETWORK_HOME",
        read_by: "the daemon",
        effect: "If not empty, the datastore may lie on a network file system, at your own risk: such file systems do not always keep locks and syncs.",
    },
    Variable {
        name: "RDD_NO_SYMLINKS",
        read_by: "the daemon",
        effect: "If not empty, the links in the instance's bin folder are hard links.",
    },
    Variable {
        name: "RDD_YQ",
        read_by: "`yq`",
        effect: "`builtin` keeps `rdd yq` from looking for a `yq` on the `PATH`. It is set for the one that is run, in case that is \
                 another copy of this program.",
    },
    Variable {
        name: "RDD_VM_CPUS",
        read_by: "the daemon",
        effect: "How many CPUs a new App's virtual machine gets, when the App does not say.",
    },
    Variable {
        name: "RDD_LIMACTL",
        read_by: "the daemon, `limavm shell`",
        effect: "The `limactl` to use, instead of the one on the `PATH` or in the instance's bin folder.",
    },
    Variable {
        name: "RDD_VM_IMAGE",
        read_by: "the daemon",
        effect: "A file with the `images` (and `firmware`) of a Lima template, for the App's virtual machine, instead of the ones that are \
                 downloaded.",
    },
    Variable {
        name: "RDD_K3S_DIR",
        read_by: "the daemon",
        effect: "A folder with releases of K3s, for machines without a network: `<version>/k3s` and archives of images beside it, such as \
                 `v1.34.6+k3s1/k3s`. What is there is not downloaded.",
    },
    Variable {
        name: "RDD_TRACE_PACKETS",
        read_by: "the daemon",
        effect: "If not empty, and `RDD_KEEP_LOGS` too, the network of a WSL2 guest is logged packet by packet.",
    },
    Variable {
        name: "RDD_OFFLINE_DIR",
        read_by: "the daemon",
        effect: "A folder with files that would otherwise be downloaded (K3s, its images, its list of digests), each by its name or \
                 as `VERSION/NAME`. They are verified like downloads.",
    },
    Variable { name: "HOME", read_by: "every command", effect: "Base of every path on Linux and macOS." },
    Variable { name: "USERPROFILE", read_by: "every command", effect: "Base of every path on Windows." },
    Variable {
        name: "PATH",
        read_by: "`kubectl`, `yq`, `run`, `limavm shell`, the daemon",
        effect: "Where the real program is looked for; `kubectl` and `yq` pass over this program itself (without another `yq`, the built-in one is used), and `run` looks into \
                 the instance's bin folder first. The daemon looks for the programs of a container engine there, and then where \
                 an administrator's programs are.",
    },
    Variable {
        name: "XDG_RUNTIME_DIR",
        read_by: "the daemon",
        effect: "Where sockets and the like of an engine without root are, which need not survive a reboot. Without it no such engine is \
                 started, and the condition says what to do. With root they are under `/run`.",
    },
    Variable {
        name: "DOCKER_CONFIG",
        read_by: "the daemon, `run`, `svc delete`",
        effect: "The folder of the docker command's settings, where the instance's context goes; `~/.docker` if it is not set. A relative one is \
                 left alone.",
    },
    Variable {
        name: "DOCKER_HOST",
        read_by: "the daemon",
        effect: "If not empty, docker's current context is never switched to the instance's: contexts do not matter then. `run` takes it away.",
    },
    Variable {
        name: "DOCKER_CONTEXT",
        read_by: "the daemon",
        effect: "As `DOCKER_HOST`. `run` sets it to the instance's context.",
    },
    Variable {
        name: "KUBECONFIG",
        read_by: "the daemon, `kubectl`",
        effect: "The files, separated as in `PATH`, that the context of the instance's Kubernetes is put into, by the rules of \
                 kubectl; without it that is `~/.kube/config`. The daemon reads it once, at the start, and passes over what is not an \
                 absolute path. `kubectl` uses the cluster that they name.",
    },
    Variable {
        name: "HTTPS_PROXY",
        read_by: "the daemon, `kubectl`",
        effect: "The proxy for downloads, and for clusters that are not on this machine, as `http://HOST:PORT`.",
    },
    Variable {
        name: "https_proxy",
        read_by: "the daemon, `kubectl`",
        effect: "As `HTTPS_PROXY`, when that is not set.",
    },
    Variable {
        name: "NO_PROXY",
        read_by: "the daemon, `kubectl`",
        effect: "Hosts and domains, separated by commas, that are reached without the proxy; `*` is all.",
    },
    Variable { name: "no_proxy", read_by: "the daemon, `kubectl`", effect: "As `NO_PROXY`, when that is not set." },
    Variable {
        name: "KUBE_EDITOR",
        read_by: "`limavm edit`",
        effect: "The editor, before `EDITOR` and `VISUAL`; without any of them it is `vi`.",
    },
    Variable { name: "EDITOR", read_by: "`limavm edit`", effect: "The editor, when `KUBE_EDITOR` does not say." },
    Variable { name: "VISUAL", read_by: "`limavm edit`", effect: "The editor, when `EDITOR` does not say either." },
    Variable { name: "NO_COLOR", read_by: "every command", effect: "If not empty, no colour on a terminal." },
    Variable {
        name: "TERM",
        read_by: "every command",
        effect: "`dumb` means no colour and no line that is drawn over.",
    },
    Variable {
        name: "NOTIFY_SOCKET",
        read_by: "the daemon",
        effect: "Where readiness is announced, as systemd defines it. `svc start` uses it too.",
    },
];

/// The values of the variables at the start of the program. Empty values count as unset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// `RDD_INSTANCE`
    pub instance: Option<String>,
    /// `HOME`, or `USERPROFILE` on Windows
    pub home: Option<OsString>,
    /// `RDD_DEVELOPER_MODE`, if it is set
    pub developer_mode: Option<bool>,
    /// `RDD_LOG_LEVEL`, trimmed
    pub log_level: Option<String>,
    /// `RDD_LOG_DIR`
    pub log_dir: Option<OsString>,
    /// `RDD_KEEP_LOGS`
    pub keep_logs: bool,
    /// `RDD_LOG_TITLE`
    pub log_title: Option<String>,
    /// `RDD_ALLOW_NETWORK_HOME`
    pub allow_network_home: bool,
    /// `RDD_NO_SYMLINKS`
    pub no_symlinks: bool,
    /// Whether `RDD_YQ` is `builtin`
    pub builtin_yq: bool,
    /// `RDD_VM_CPUS`
    pub vm_cpus: Option<String>,
    /// `RDD_LIMACTL`
    pub limactl: Option<OsString>,
    /// `RDD_VM_IMAGE`
    pub vm_image: Option<OsString>,
    /// `RDD_TRACE_PACKETS`
    pub trace_packets: bool,
    /// `RDD_OFFLINE_DIR`
    pub offline_dir: Option<OsString>,
    /// `KUBECONFIG`
    pub kubeconfig: Option<OsString>,
    /// `HTTPS_PROXY`, or `https_proxy`
    pub https_proxy: Option<String>,
    /// `NO_PROXY`, or `no_proxy`
    pub no_proxy: Option<String>,
    /// `PATH`
    pub path: Option<OsString>,
    /// `DOCKER_CONFIG`
    pub docker_config: Option<OsString>,
    /// Whether `DOCKER_HOST` is set
    pub docker_host: bool,
    /// Whether `DOCKER_CONTEXT` is set
    pub docker_context: bool,
    /// `RDD_K3S_DIR`
    pub k3s_dir: Option<OsString>,
    /// `KUBE_EDITOR`
    pub kube_editor: Option<String>,
    /// `EDITOR`
    pub editor: Option<String>,
    /// `VISUAL`
    pub visual: Option<String>,
    /// `XDG_RUNTIME_DIR`
    pub runtime_dir: Option<OsString>,
    /// `NO_COLOR`
    pub no_color: bool,
    /// `TERM`
    pub term: Option<String>,
    /// `NOTIFY_SOCKET`
    pub notify_socket: Option<OsString>,
}

impl Environment {
    /// Reads the environment of this process.
    pub fn of_process() -> Self {
        Self::from_lookup(|name| std::env::var_os(name))
    }

    /// Reads the variables through `lookup`; tests pass their own.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let raw = |name| lookup(name).filter(|value| !value.is_empty());
        let text = |name| raw(name).map(|value| value.to_string_lossy().into_owned());
        let either = |first, second| {
            let (first, second) = (text(first), text(second));
            first.or(second)
        };
        let home = raw(crate::Platform::current().home_variable());
        Self {
            instance: text("RDD_INSTANCE"),
            home,
            developer_mode: text("RDD_DEVELOPER_MODE").map(|value| is_true(value.trim())),
            log_level: text("RDD_LOG_LEVEL").map(|level| level.trim().to_owned()).filter(|level| !level.is_empty()),
            log_dir: raw("RDD_LOG_DIR"),
            keep_logs: raw("RDD_KEEP_LOGS").is_some(),
            log_title: text("RDD_LOG_TITLE"),
            allow_network_home: raw("RDD_ALLOW_NETWORK_HOME").is_some(),
            no_symlinks: raw("RDD_NO_SYMLINKS").is_some(),
            builtin_yq: text("RDD_YQ").is_some_and(|value| value == "builtin"),
            vm_cpus: text("RDD_VM_CPUS"),
            limactl: raw("RDD_LIMACTL"),
            vm_image: raw("RDD_VM_IMAGE"),
            trace_packets: raw("RDD_TRACE_PACKETS").is_some(),
            offline_dir: raw("RDD_OFFLINE_DIR"),
            kubeconfig: raw("KUBECONFIG"),
            https_proxy: either("HTTPS_PROXY", "https_proxy"),
            no_proxy: either("NO_PROXY", "no_proxy"),
            path: raw("PATH"),
            docker_config: raw("DOCKER_CONFIG"),
            docker_host: raw("DOCKER_HOST").is_some(),
            docker_context: raw("DOCKER_CONTEXT").is_some(),
            k3s_dir: raw("RDD_K3S_DIR"),
            kube_editor: text("KUBE_EDITOR"),
            editor: text("EDITOR"),
            visual: text("VISUAL"),
            runtime_dir: raw("XDG_RUNTIME_DIR"),
            no_color: raw("NO_COLOR").is_some(),
            term: text("TERM"),
            notify_socket: raw("NOTIFY_SOCKET"),
        }
    }

    /// The same environment for another instance.
    #[must_use]
    pub fn with_instance(mut self, instance: &str) -> Self {
        self.instance = Some(instance.to_owned());
        self
    }

    /// The socket for readiness notifications, if a service manager listens.
    pub fn notify_socket(&self) -> Option<&OsStr> {
        self.notify_socket.as_deref()
    }
}

/// The values that Go's `strconv.ParseBool` accepts as true; existing scripts use them.
fn is_true(value: &str) -> bool {
    matches!(value, "1" | "t" | "T" | "true" | "True" | "TRUE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn developer_mode_is_on_off_or_unset() {
        for (value, expected) in [
            (None, None),
            (Some(""), None),
            (Some("1"), Some(true)),
            (Some(" true "), Some(true)),
            (Some("TRUE"), Some(true)),
            (Some("yes"), Some(false)),
            (Some("0"), Some(false)),
        ] {
            let env = Environment::from_lookup(|name| {
                (name == "RDD_DEVELOPER_MODE").then_some(value).flatten().map(OsString::from)
            });
            assert_eq!(env.developer_mode, expected, "{value:?}");
        }
    }

    #[test]
    fn every_variable_that_is_read_is_in_the_table_and_the_other_way_round() {
        let asked = std::cell::RefCell::new(vec!["HOME", "USERPROFILE"]);
        Environment::from_lookup(|name| {
            if let Some(variable) = VARIABLES.iter().find(|variable| variable.name == name) {
                asked.borrow_mut().push(variable.name);
                return None;
            }
            panic!("{name} is read but not documented");
        });
        let asked = asked.into_inner();
        let unread: Vec<_> =
            VARIABLES.iter().map(|variable| variable.name).filter(|name| !asked.contains(name)).collect();
        assert!(unread.is_empty(), "documented but never read: {unread:?}");
    }
}
