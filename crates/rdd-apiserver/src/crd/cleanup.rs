//! The cleanup of a terminating CustomResourceDefinition: deletes all its objects, then releases the definition.

use std::{fmt::Debug, future::Future, pin::Pin, sync::Arc, time::Duration};

use rdd_meta::Status;
use rdd_stdx::{backoff::Backoff, chain::Chain, clock::SharedClock};
use serde_json::Value;
use tracing::warn;

use super::{
    amend::{AmendError, Amender},
    head::Head,
    names::{self, Condition},
    resource::DefinitionError,
    strategy::now,
};
use crate::{
    registry::ResourceDef,
    state::{self, Item, Kind, Scope, WatchFrom},
};

/// The future of [`Deleter::delete_all`].
pub type Deletion<'f> = Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'f>>;

/// Deletes the objects of a resource like a client: with admission and finalizers.
pub trait Deleter: Debug + Send + Sync {
    /// Requests the deletion of all objects of a resource in all namespaces; it need not wait until they are gone. The resource may
    /// be one that the registry does not serve, because its definition may serve no version any more.
    ///
    /// # Errors
    /// When an object could not be deleted. The cleanup reports the message in a condition and tries again.
    fn delete_all<'f>(&'f self, def: &'f Arc<ResourceDef>) -> Deletion<'f>;
}

/// Why an attempt to clean up failed. Each attempt is retried with backoff.
#[derive(Debug, thiserror::Error)]
enum CleanupError {
    #[error("write the definition")]
    Amend(#[from] AmendError),
    #[error("read the definition")]
    Definition(#[from] DefinitionError),
    #[error("watch the objects")]
    Watch(#[source] state::Error),
    #[error("delete the objects: {0}")]
    Delete(String),
    #[error("wait for the objects to go")]
    Remaining,
}

/// How long the cleanup waits for the objects to go before it reports in a condition that it still waits.
const REMOVAL_WAIT: Duration = Duration::from_secs(60);
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(60));

/// Cleans up a terminating definition, with retries until it succeeds. Returns the name of the definition.
pub(super) async fn run(name: String, amender: Amender, deleter: Arc<dyn Deleter>, clock: SharedClock) -> String {
    let cleanup = Cleanup { name: &name, amender: &amender, deleter: &*deleter, clock: &clock };
    let (mut delays, mut said) = (BACKOFF.delays(), String::new());
    while let Err(error) = cleanup.attempt().await {
        let (text, delay) = (Chain(&error).to_string(), delays.advance());
        // Log each distinct error once, not once per attempt.
        if text != said {
            warn!(object = name, error = text, ?delay, "objects of a deleted CustomResourceDefinition remain");
            said = text;
        }
        tokio::time::sleep(delay).await;
    }
    name
}

struct Cleanup<'a> {
    name: &'a str,
    amender: &'a Amender,
    deleter: &'a dyn Deleter,
    clock: &'a SharedClock,
}

impl Cleanup<'_> {
    /// Makes one attempt. All steps are idempotent, so an attempt continues where the last one stopped.
    async fn attempt(&self) -> Result<(), CleanupError> {
        let Some(object) = self.amender.get(self.name) else { return Ok(()) };
        let head = Head::read(object.wire()).map_err(DefinitionError::Read)?;
        if !head.awaits_cleanup() {
            return Ok(());
        }
        let message = "CustomResource deletion is in progress";
        self.say(&terminating("True", "InstanceDeletionInProgress", message)).await?;
        // Without ever being established, a definition cannot have objects.
        let last = if head.is_true("Established") {
            let def = Arc::new(self.amender.definitions().whole(&object)?);
            self.delete_objects(&def).await?;
            terminating("False", "InstanceDeletionCompleted", "removed all instances")
        } else {
            terminating("False", "NeverEstablished", "resource was never established")
        };
        // One write changes the condition and the finalizer, so the last condition is never missing.
        self.amender.release(self.name, self.setting(&last)).await?;
        Ok(())
    }

    /// Deletes all objects, including those created meanwhile, and waits until none are left.
    async fn delete_objects(&self, def: &Arc<ResourceDef>) -> Result<(), CleanupError> {
        let Some(storage) = def.storage() else { return Ok(()) };
        let deadline = tokio::time::Instant::now() + REMOVAL_WAIT;
        loop {
            if let Err(status) = self.deleter.delete_all(def).await {
                let message = format!("could not issue all deletes: {}", status.message);
                self.say(&terminating("True", "InstanceDeletionFailed", message)).await?;
                return Err(CleanupError::Delete(status.message));
            }
            match tokio::time::timeout_at(deadline, self.wait_until_gone(&storage.all())).await {
                Ok(Ok(true)) => return Ok(()),
                // An object was created meanwhile, or the watch expired: list and delete again.
                Ok(Ok(false)) => {}
                Ok(Err(error)) => return Err(CleanupError::Watch(error)),
                Err(_) => {
                    let message = "could not confirm zero CustomResources remaining: context deadline exceeded";
                    self.say(&terminating("True", "InstanceDeletionCheck", message)).await?;
                    return Err(CleanupError::Remaining);
                }
            }
        }
    }

    /// Waits until the watch shows no objects. Returns `false` if an object was created after the initial events, or if the watch
    /// expired; the caller then starts again.
    async fn wait_until_gone(&self, scope: &Scope) -> Result<bool, state::Error> {
        let mut watch = self.amender.state().watch(scope, WatchFrom::Now, None)?;
        let (mut left, mut is_synced) = (0_usize, false);
        loop {
            match watch.next().await {
                Ok(Item::Change(change)) => match change.kind {
                    Kind::Added if is_synced => return Ok(false),
                    // Before the watch is synced, these events list the existing objects.
                    Kind::Added => left += 1,
                    Kind::Modified => {}
                    Kind::Deleted => left = left.saturating_sub(1),
                },
                Ok(Item::Synced(_)) => is_synced = true,
                Err(state::Error::Expired { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
            if is_synced && left == 0 {
                return Ok(true);
            }
        }
    }

    async fn say(&self, condition: &Condition) -> Result<(), AmendError> {
        self.amender.amend(self.name, self.setting(condition)).await
    }

    fn setting<'c>(&'c self, condition: &'c Condition) -> impl Fn(&mut Value) + 'c {
        move |definition| names::set_condition(definition, condition, now(self.clock))
    }
}

fn terminating(status: &'static str, reason: &'static str, message: impl Into<String>) -> Condition {
    Condition::new("Terminating", status, reason, message)
}
