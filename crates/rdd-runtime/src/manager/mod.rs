//! Runs a set of controllers over one API, in the daemon or in a separate process.

mod beside;
mod hooks;
mod keep;
mod stale;
mod start;
mod upkeep;

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use kube::Client;
use rdd_stdx::{chain::Chain, clock::SharedClock};
use tokio_util::sync::CancellationToken;

use self::upkeep::Upkeep;
pub use self::{beside::Beside, keep::Lost, start::Started};
use crate::{
    Registered,
    cache::Sync,
    health::Health,
    hooks::Hooks,
    metrics::Metrics,
    probe::Probe,
    worker::{Running, Tools},
};

/// The name of the manager in kill points, where the steps of a controller have the name of the controller.
pub const MANAGER: &str = "manager";
/// The steps in the start of the daemon's manager. `configure` and `define` occur once for each webhook and definition, concurrently.
pub const STEPS: &[&str] = &[REGISTER, DISCARD, CONFIGURE, DEFINE, ANNOUNCE];
/// Writes the manager's entry.
const REGISTER: &str = "register";
/// Removes webhook configurations that the manager no longer answers.
const DISCARD: &str = "discard";
/// Applies one webhook configuration.
const CONFIGURE: &str = "configure";
/// Installs one CRD.
const DEFINE: &str = "define";
/// Announces that all controllers are ready.
const ANNOUNCE: &str = "announce";

/// How long running reconciles may take to end.
const DRAIN: Duration = Duration::from_secs(15);
/// How long the removal of the registration may take, and then the end of the tasks.
const FAREWELL: Duration = Duration::from_secs(5);

/// The phase of a start, for progress reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The manager registers and serves its webhooks.
    Registering,
    /// The manager installs CRDs and fills its caches.
    Defining,
}

/// How a manager relates to other managers.
#[derive(Debug, Clone)]
pub enum Role {
    /// A manager for tests: it neither registers nor has a health endpoint.
    Alone,
    /// The daemon's manager: it creates a new registry, and takes precedence over other managers.
    Embedded(Place),
    /// A manager in a separate process: it runs only controllers that no other manager runs.
    External(Place),
}

/// The ports and URLs of a manager.
#[derive(Debug, Clone)]
pub struct Place {
    /// The preferred port of the health endpoint; 0 for any.
    pub health_port: u16,
    /// The port of the metrics.
    pub metrics_port: u16,
    /// The URL of the metrics.
    pub metrics_endpoint: String,
    /// The URL of the passthroughs.
    pub passthrough_endpoint: String,
    /// The Unix socket on which the API server reaches the passthroughs; only for a separate process.
    pub passthrough_socket: Option<PathBuf>,
}

/// The options of [`Manager::start`].
pub struct Options {
    /// The manager's name, which is its key in the registry.
    pub name: String,
    /// How it relates to other managers.
    pub role: Role,
    /// The client of the API.
    pub client: Client,
    /// The clock; tests use a manual one.
    pub clock: SharedClock,
    /// How its webhooks are served.
    pub hooks: Arc<dyn Hooks>,
    /// Decides at each kill point; outside of tests it is [`Unhurt`](crate::probe::Unhurt).
    pub probe: Arc<dyn Probe>,
    /// The metrics that its controllers update.
    pub metrics: Metrics,
    /// Called when the start enters a phase.
    pub progress: Arc<dyn Fn(Phase) + Send + std::marker::Sync>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

/// A running manager.
///
/// [`stop`](Self::stop) ends it gracefully. [`kill`](Self::kill) cancels everything and waits until it has ended; dropping the manager
/// cancels without waiting.
pub struct Manager {
    name: String,
    tools: Tools,
    /// Cancels the supervised tasks.
    ending: CancellationToken,
    health: Option<Health>,
    /// Keeps the registration and the webhook configurations in place.
    upkeep: Arc<Upkeep>,
    running: Mutex<Vec<Running>>,
    /// Controllers that another manager runs; they start when that manager is gone.
    waiting: tokio::sync::Mutex<Vec<Registered>>,
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager")
            .field("name", &self.name)
            .field("controllers", &self.controllers())
            .finish_non_exhaustive()
    }
}

impl Manager {
    /// The names of the controllers that run in this manager.
    pub fn controllers(&self) -> Vec<&'static str> {
        self.with_running(|running| running.iter().map(|one| one.declaration.name).collect())
    }

    fn with_running<T>(&self, look: impl FnOnce(&mut Vec<Running>) -> T) -> T {
        look(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the manager is ready and all its tasks run.
    pub fn is_well(&self) -> bool {
        self.health.as_ref().is_none_or(Health::is_well) && self.tools.supervisor.down().is_empty()
    }

    /// The kinds that controllers wait for because the server does not serve them, each with the controller's name.
    pub fn missing(&self) -> Vec<(&'static str, String)> {
        let of = |one: &Running| {
            let missing = one.needs.iter().filter(|view| view.sync() == Sync::NotServed);
            missing.map(|view| (one.declaration.name, view.kind())).collect::<Vec<_>>()
        };
        self.with_running(|running| running.iter().flat_map(of).collect())
    }

    /// Waits until a [`Probe`] decides to end everything, then cancels all tasks, as a killed process would.
    pub async fn killed(&self) {
        self.tools.points.dead().await;
        self.tools.supervisor.cut();
    }

    /// Cancels everything, as the end of its process would. When this returns, no task runs and no webhook is answered.
    pub async fn kill(self) {
        self.tools.supervisor.cut();
        self.tools.supervisor.ended().await;
    }

    /// Whether the manager is idle: the queues hold no objects to reconcile now and none that failed, and the caches equal the server's
    /// objects. Objects with a planned requeue do not count.
    pub async fn is_quiet(&self) -> bool {
        let standing = || {
            self.with_running(|running| {
                let all = running.iter().map(|one| one.queue.standing());
                all.map(|one| (one.ready + one.running + one.failing, one.handed_out)).collect::<Vec<_>>()
            })
        };
        // Work may begin and end while the caches are compared; the counters show that afterwards.
        let before = standing();
        if before.iter().any(|(busy, _)| *busy > 0) {
            return false;
        }
        for view in self.tools.caches.views() {
            if !view.is_current(self.tools.client.clone()).await.unwrap_or(false) {
                return false;
            }
        }
        // The counters show reconciles that began and ended while the caches were compared.
        standing() == before
    }

    /// Stops gracefully: no new reconcile starts, running ones end, each controller stops (all within `at_most`), and the registration is
    /// removed. The API must answer until this returns.
    ///
    /// What does not end in time is cancelled with a warning.
    pub async fn stop(self, at_most: Duration) {
        if let Some(health) = &self.health {
            // Probes see the end first, while everything still runs.
            health.set_ready(false);
        }
        // From here on no reconcile starts; background tasks see the same token as `shutdown`.
        self.tools.stopping.cancel();
        let running = self.with_running(std::mem::take);
        let drained = join_all(running.iter().map(|one| one.drained.cancelled()));
        if tokio::time::timeout(DRAIN.min(at_most), drained).await.is_err() {
            let busy = running.iter().filter(|one| !one.drained.is_cancelled()).map(|one| one.declaration.name);
            tracing::warn!(controllers = ?busy.collect::<Vec<_>>(), "reconciles do not end and are cut off");
        }
        let stops = join_all(running.iter().map(|one| (one.stop)()));
        if tokio::time::timeout(at_most, stops).await.is_err() {
            tracing::warn!(?at_most, "controllers did not stop in time");
        }
        if let Some((registry, entry)) = self.upkeep.registered() {
            let removal = tokio::time::timeout(FAREWELL, async {
                // The pause waits for a restore that is under way, and prevents another one after the removal.
                let _paused = self.upkeep.pause().await;
                registry.remove(&self.name, &entry.id).await
            });
            let removal = removal.await;
            match removal {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(error = %Chain(&error), "could not remove our registration"),
                Err(_) => tracing::warn!("could not remove our registration in time"),
            }
        }
        // Only now: until here, the controllers' background tasks and event writers had to run.
        self.ending.cancel();
        if tokio::time::timeout(FAREWELL, self.tools.supervisor.ended()).await.is_err() {
            tracing::warn!("tasks do not end and are cut off");
        }
        tracing::info!(manager = self.name, "controllers have stopped");
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // The tasks own handles of the supervisor, which owns the tasks. Without this, the cycle would keep them alive.
        self.tools.supervisor.cut();
    }
}
