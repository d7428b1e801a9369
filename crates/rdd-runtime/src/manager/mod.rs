//! Runs a set of controllers over one API: in the daemon, or in a process of its own.

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

/// The name under which the start of a manager has points at which tests let the process die, as controllers have under theirs.
pub const MANAGER: &str = "manager";
/// The steps of the start of a manager in the daemon. Webhooks are configured and kinds defined all at once, and each is a step.
pub const STEPS: &[&str] = &[REGISTER, DISCARD, CONFIGURE, DEFINE, ANNOUNCE];
/// Its entry in the list of managers.
const REGISTER: &str = "register";
/// Configurations of webhooks that nobody would answer go.
const DISCARD: &str = "discard";
/// One configuration of a webhook.
const CONFIGURE: &str = "configure";
/// One definition of a kind.
const DEFINE: &str = "define";
/// All can be used, and it says so.
const ANNOUNCE: &str = "announce";

/// How long reconciles that have begun may take to end.
const DRAIN: Duration = Duration::from_secs(15);
/// How long the removal of our registration may take.
const FAREWELL: Duration = Duration::from_secs(5);

/// How far a manager is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It registers and makes its webhooks reachable.
    Registering,
    /// Its definitions are being put in place, and its watches filled.
    Defining,
}

/// What a manager is among others.
#[derive(Debug, Clone)]
pub enum Role {
    /// It is alone: it neither registers nor says how it is. For tests.
    Alone,
    /// In the daemon: it begins the list of managers anew, and has what it wants.
    Embedded(Place),
    /// In another process: it has what nobody else has.
    External(Place),
}

/// Where others find a manager.
#[derive(Debug, Clone)]
pub struct Place {
    /// The port for its health that is tried first.
    pub health_port: u16,
    /// The port of its metrics.
    pub metrics_port: u16,
    /// Where its metrics are.
    pub metrics_endpoint: String,
    /// Where its passthroughs are.
    pub passthrough_endpoint: String,
    /// Where it listens for what the API server passes through to it, if that is in another process.
    pub passthrough_socket: Option<PathBuf>,
}

/// What a manager is made of.
pub struct Options {
    /// Its name, which is its key in the list of managers.
    pub name: String,
    /// What it is among others.
    pub role: Role,
    /// The API.
    pub client: Client,
    /// Where time comes from.
    pub clock: SharedClock,
    /// How its webhooks are reached.
    pub hooks: Arc<dyn Hooks>,
    /// Asked at every step.
    pub probe: Arc<dyn Probe>,
    /// Where it counts.
    pub metrics: Metrics,
    /// Told how far the start is.
    pub progress: Arc<dyn Fn(Phase) + Send + std::marker::Sync>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

/// A manager that runs. [`stop`](Self::stop) ends it well, [`kill`](Self::kill) cuts it off, and dropping it too, but without waiting.
pub struct Manager {
    name: String,
    tools: Tools,
    /// Ends what is supervised.
    ending: CancellationToken,
    health: Option<Health>,
    /// Its registration and its webhooks, and that both stay as they are.
    upkeep: Arc<Upkeep>,
    running: Mutex<Vec<Running>>,
    /// Controllers that another manager runs, until it is gone.
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
    /// The controllers that run here.
    pub fn controllers(&self) -> Vec<&'static str> {
        self.with_running(|running| running.iter().map(|one| one.declaration.name).collect())
    }

    fn with_running<T>(&self, look: impl FnOnce(&mut Vec<Running>) -> T) -> T {
        look(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether everything that has to run runs.
    pub fn is_well(&self) -> bool {
        self.health.as_ref().is_none_or(Health::is_well) && self.tools.supervisor.down().is_empty()
    }

    /// Kinds that controllers wait for because the server does not serve them, by controller.
    pub fn missing(&self) -> Vec<(&'static str, String)> {
        let of = |one: &Running| {
            let missing = one.needs.iter().filter(|view| view.sync() == Sync::NotServed);
            missing.map(|view| (one.declaration.name, view.kind())).collect::<Vec<_>>()
        };
        self.with_running(|running| running.iter().flat_map(of).collect())
    }

    /// Waits until a probe has said that all of it is to end as if it had been killed, and does that.
    pub async fn killed(&self) {
        self.tools.points.dead().await;
        self.tools.supervisor.cut();
    }

    /// Cuts everything off, as the end of its process would: when it returns, nothing of it runs, and nobody answers its webhooks.
    pub async fn kill(self) {
        self.tools.supervisor.cut();
        self.tools.supervisor.ended().await;
    }

    /// Whether nothing is left to do: nothing waits to be worked on, nothing fails, and the caches hold what the server has.
    /// Objects that asked to be looked at later do not count.
    pub async fn is_quiet(&self) -> bool {
        let standing = || {
            self.with_running(|running| {
                let all = running.iter().map(|one| one.queue.standing());
                all.map(|one| (one.ready + one.running + one.failing, one.handed_out)).collect::<Vec<_>>()
            })
        };
        let before = standing();
        if before.iter().any(|(busy, _)| *busy > 0) {
            return false;
        }
        for view in self.tools.caches.views() {
            if !view.is_current(self.tools.client.clone()).await.unwrap_or(false) {
                return false;
            }
        }
        standing() == before
    }

    /// Ends it well: nothing new begins, what has begun ends, each controller brings down what it runs (for at most `at_most`),
    /// and others learn that it is gone. The API has to answer meanwhile.
    pub async fn stop(self, at_most: Duration) {
        if let Some(health) = &self.health {
            health.set_ready(false);
        }
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
                // What is being restored at this moment is removed after it, and nothing is restored from now on.
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
        self.ending.cancel();
        if tokio::time::timeout(FAREWELL, self.tools.supervisor.ended()).await.is_err() {
            tracing::warn!("tasks do not end and are cut off");
        }
        tracing::info!(manager = self.name, "controllers have stopped");
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // Tasks hold what holds the tasks: without this they would keep each other alive.
        self.tools.supervisor.cut();
    }
}
