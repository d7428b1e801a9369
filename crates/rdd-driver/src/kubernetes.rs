//! Kubernetes under a machine: the seam by which a driver runs K3s beside its engine, whatever the machine is.
//!
//! A driver that can do it returns a [`Cluster`] from [`Driver::kubernetes`](crate::Driver::kubernetes). Starting and stopping
//! it touches neither the machine nor its engine. Who listens on the published port is not the driver's affair: it only says
//! where its cluster can be reached ([`Cluster::upstream`]).

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{Error, Pending, Run, Stopped};

/// Runs one Kubernetes cluster in each machine of a driver.
///
/// What holds for [`Driver`](crate::Driver) holds here: every method may be repeated, changes of one machine happen one after
/// the other, dropping it stops nothing, and no truth is kept in memory. A machine that ends takes its cluster with it; the
/// cluster's data stays, and goes with the machine's.
pub trait Cluster: std::fmt::Debug + Send + Sync {
    /// Whether the machine can have a cluster, and whether it has what this program needs, once there is one; if not, the error says what to do
    /// about it.
    fn check<'a>(&'a self, vm: &'a str, program: Option<&'a Path>) -> Pending<'a, Result<(), Error>>;

    /// The release that used the data of the machine's cluster last, as far as it is known without asking the machine; `None` if there is no data.
    fn used_release(&self, vm: &str) -> Option<String>;

    /// What a person should know of running this release here, though it runs.
    fn warning(&self, _version: &str) -> Option<String> {
        None
    }

    /// When the cluster that runs was started, since the epoch, by the clock of the machine that it runs in; `None` if that is not known. What a
    /// cluster says of itself with an earlier time is what an earlier start left in its data.
    fn started_at<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<Duration>, Error>>;

    /// Looks at the cluster. Changes nothing, and waits for no other method.
    fn inspect<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<ClusterFound, Error>>;

    /// Starts a cluster in a machine that runs, and returns as soon as there is something to watch. One that runs as wanted is
    /// taken over; one that runs otherwise is stopped first, and nothing else is.
    ///
    /// A machine whose clock is its own gets ours first: K3s makes certificates by it, and those of another time are of no use
    /// here. Where that fails, and matters, so does the start.
    ///
    /// [`State::Running`](crate::State::Running) means that the process lives and has written its kubeconfig: whether it
    /// answers is asked through the port that people use.
    fn start<'a>(&'a self, vm: &'a str, wanted: &'a Wanted) -> Pending<'a, Result<Run, Error>>;

    /// Stops a cluster, and the containers of its pods: asks it to end, and ends it by force when `grace` is over.
    fn stop<'a>(&'a self, vm: &'a str, grace: Duration) -> Pending<'a, Result<Stopped, Error>>;

    /// The kubeconfig that a running cluster wrote. Its server address is that of the cluster itself, not the published one.
    fn kubeconfig<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<String>, Error>>;

    /// Where a running cluster's API can be reached from this process; `None` if none runs.
    fn upstream<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<Upstream>, Error>>;

    /// What the data of a cluster stands on, whether it runs or not; `None` if there is no data, or it has not come so far.
    fn foundation<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<Foundation>, Error>>;

    /// From now on the data is somebody's: the way into the cluster is about to be told.
    fn confirm<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<(), Error>>;

    /// Forgets a cluster: stops it, and removes its data and the containers of its pods. Every other container stays. What is on a disk
    /// that cannot be reached while the machine does not run is gone before the next cluster starts.
    fn reset<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<(), Error>>;
}

/// What is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The release, in full: `v1.34.6+k3s1`.
    pub version: String,
    /// The program, on this machine. A driver whose machines have their own disks copies it there.
    pub program: PathBuf,
    /// Archives of container images that need not be downloaded then; may be empty.
    pub images: Vec<PathBuf>,
    /// The port of this machine's loopback at which people reach the cluster. It is named in certificates and nowhere bound.
    pub port: u16,
}

/// What there is of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterFound {
    /// Nothing.
    Absent,
    /// Its data; nothing of it runs.
    Stopped {
        /// The release that used the data last.
        version: String,
    },
    /// It runs, watched by this driver or left by an earlier one.
    Running {
        /// The release that runs.
        version: String,
    },
}

impl ClusterFound {
    /// The release that runs, or used the data last.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Absent => None,
            Self::Stopped { version } | Self::Running { version } => Some(version),
        }
    }

    /// Whether something of it runs.
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running { .. })
    }
}

/// What the data of a cluster stands on. K3s makes it at the first start, once for as long as the data lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foundation {
    /// The certificate of who signs those of its servers: PEM.
    pub authority: String,
    /// Whether nobody can have used it: a start made the data, and [`Cluster::confirm`] was never called.
    pub is_new: bool,
}

/// Where a cluster's API is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Upstream {
    /// An address of this machine.
    Tcp(SocketAddr),
    /// A socket of this machine, which something forwards to the guest's port.
    Unix(PathBuf),
}

impl Upstream {
    /// A socket.
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
