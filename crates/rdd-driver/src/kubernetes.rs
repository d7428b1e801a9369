//! Kubernetes in a machine: the seam by which a driver runs K3s next to its container engine.
//!
//! A driver that supports it returns a [`Cluster`] from [`Driver::kubernetes`](crate::Driver::kubernetes). Starting and
//! stopping a cluster affects neither the machine nor its engine. The driver does not serve the published port: it only returns
//! the address of its cluster ([`Cluster::upstream`]), and the daemon forwards to it.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{Error, Pending, Run, Stopped};

/// Runs one Kubernetes cluster in each machine of a driver.
///
/// # Flow
/// The controller calls [`check`](Self::check), then [`start`](Self::start), and waits for
/// [`kubeconfig`](Self::kubeconfig) and [`upstream`](Self::upstream). Before it publishes the credentials it calls
/// [`confirm`](Self::confirm).
///
/// # Guarantees
/// The guarantees of [`Driver`](crate::Driver) hold here: methods are idempotent, changes of one machine are serial, dropping
/// the driver stops nothing, and memory holds no authoritative state. A machine that stops also stops its cluster. The
/// cluster's data stays until [`reset`](Self::reset), or until the machine is deleted.
///
/// # Errors
/// [`Error::NotRunning`](crate::Error::NotRunning) if the operation needs a running machine,
/// [`Error::Unsupported`](crate::Error::Unsupported) with a remedy if the machine or host lacks a requirement.
pub trait Cluster: std::fmt::Debug + Send + Sync {
    /// Checks that the machine can run a cluster, and, if `program` is given, that it has everything that this program needs.
    /// The error names a remedy.
    fn check<'a>(&'a self, vm: &'a str, program: Option<&'a Path>) -> Pending<'a, Result<(), Error>>;

    /// The release that last used the cluster's data, from records on the host alone. `None` if there is no data.
    fn used_release(&self, vm: &str) -> Option<String>;

    /// A warning for people about running this release in this machine, as of the last inspection. The release runs nevertheless.
    fn warning(&self, _vm: &str, _version: &str) -> Option<String> {
        None
    }

    /// When the running cluster was started, since the epoch, by the clock of the machine that it runs in. `None` if unknown.
    /// The prober ignores conditions in the cluster's data that are older: an earlier start left them.
    fn started_at<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<Duration>, Error>>;

    /// Reads the cluster's state. It changes nothing and does not wait for other methods.
    fn inspect<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<ClusterFound, Error>>;

    /// Starts a cluster in a running machine and returns a watch at once. A cluster that runs as specified is adopted. One that
    /// runs otherwise is stopped first; nothing else is affected.
    ///
    /// A machine with its own clock gets the host's time first: K3s creates certificates by that clock, and certificates of
    /// another time are useless on the host. If the clock is far off and cannot be set, the start fails.
    ///
    /// [`State::Running`](crate::State::Running) means that the process lives and has written its kubeconfig. The
    /// prober checks through the published port whether the API server answers.
    fn start<'a>(&'a self, vm: &'a str, spec: &'a Wanted) -> Pending<'a, Result<Run, Error>>;

    /// Stops a cluster and the containers of its pods: requests a shutdown, and kills the processes when `grace` has passed.
    fn stop<'a>(&'a self, vm: &'a str, grace: Duration) -> Pending<'a, Result<Stopped, Error>>;

    /// The kubeconfig that the running cluster wrote. Its server address is the cluster's own address, not the published one.
    fn kubeconfig<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<String>, Error>>;

    /// Where this process can reach the running cluster's API server. `None` if no cluster runs.
    fn upstream<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<Upstream>, Error>>;

    /// The certificate authority in the cluster's data, whether it runs or not. `None` if there is no data, or K3s has not
    /// created the authority yet.
    fn foundation<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<Foundation>, Error>>;

    /// Records that users may have used the data. The controller calls this before it publishes the credentials.
    fn confirm<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<(), Error>>;

    /// Resets a cluster: stops it, and removes its data and the containers of its pods. All other containers stay. Data on a
    /// disk that is not reachable while the machine is stopped is removed before the next cluster starts.
    fn reset<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<(), Error>>;
}

/// The desired cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The full release: `v1.34.6+k3s1`.
    pub version: String,
    /// The K3s program on the host. A driver whose machines have their own disks copies it there.
    pub program: PathBuf,
    /// Archives of container images, so that the cluster need not pull them. May be empty.
    pub images: Vec<PathBuf>,
    /// The published port on the host's loopback. The driver uses it for certificates and does not bind it.
    pub port: u16,
}

/// The state of a cluster, as [`Cluster::inspect`] finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterFound {
    /// There is no data, and nothing runs.
    Absent,
    /// There is data, and nothing runs.
    Stopped {
        /// The release that last used the data.
        version: String,
    },
    /// The cluster runs, supervised by this driver or left by an earlier one.
    Running {
        /// The release that runs.
        version: String,
    },
}

impl ClusterFound {
    /// The running release, or the one that last used the data.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Absent => None,
            Self::Stopped { version } | Self::Running { version } => Some(version),
        }
    }

    /// Whether the cluster runs.
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running { .. })
    }
}

/// The certificate authority of a cluster's data. K3s creates it at the first start and keeps it as long as the data exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foundation {
    /// The certificate of the authority that signs server certificates, in PEM.
    pub authority: String,
    /// Whether no user can have used the data: a start created it, and [`Cluster::confirm`] was never called.
    pub is_new: bool,
}

/// Where a cluster's API server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Upstream {
    /// An address of the host.
    Tcp(SocketAddr),
    /// A socket of the host that Lima forwards to the guest's port.
    Unix(PathBuf),
}

impl Upstream {
    /// An upstream at a Unix socket.
    pub fn unix(path: impl AsRef<Path>) -> Self {
        Self::Unix(path.as_ref().to_owned())
    }
}

impl std::fmt::Display for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}
