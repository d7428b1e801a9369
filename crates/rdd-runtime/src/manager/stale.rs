//! Removes the webhooks of managers that are gone, so that the objects that they matched can be written again.
//!
//! A webhook whose manager is away fails closed, because the manager may come back. A manager that has unregistered, or has not
//! registered since the daemon started, has a short time to come back; one that disappeared without unregistering has longer. A manager
//! that comes back later configures its webhooks again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::ConfigMap,
};
use kube::Client;
use rdd_stdx::chain::Chain;
use tokio::{sync::Notify, time::Instant};

use crate::{
    Error,
    admission::{Configuration, manager_of, remove_if_unchanged},
    cache::Caches,
    discovery::{self, Entry, Snapshot, is_alive},
    worker::Tools,
};

/// How often managers are checked while any other manager has webhooks.
const LOOK: Duration = Duration::from_secs(5);
/// How long a manager without an entry may be away.
const LEFT: Duration = Duration::from_secs(10);
/// How long a manager with an entry may be silent.
const SILENT: Duration = Duration::from_mins(5);

/// The state of a manager that has webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is alive.
    Lives,
    /// It has no entry in the registry.
    Left,
    /// It has an entry, but it is not alive.
    Silent,
}

impl Standing {
    async fn of(entry: Option<&Entry>) -> Self {
        match entry {
            None => Self::Left,
            Some(entry) if is_alive(entry).await => Self::Lives,
            Some(_) => Self::Silent,
        }
    }

    /// Whether a manager in this state is gone after this time.
    fn is_gone(self, away: Duration) -> bool {
        match self {
            Self::Lives => false,
            Self::Left => away >= LEFT,
            Self::Silent => away >= SILENT,
        }
    }
}

/// The task that removes webhook configurations of other managers that are gone. It runs in the daemon's manager only.
pub(super) struct Stale {
    client: Client,
    caches: Caches,
    own: String,
    woken: Arc<Notify>,
}

impl Stale {
    /// Starts the task.
    pub(super) fn start(tools: &Tools, own: &str) {
        let stale = Arc::new(Self {
            client: tools.client.clone(),
            caches: tools.caches.clone(),
            own: own.to_owned(),
            woken: Arc::default(),
        });
        tools.supervisor.start("stale webhooks".to_owned(), move || Box::pin(Arc::clone(&stale).run()));
    }

    async fn run(self: Arc<Self>) -> Result<(), Error> {
        self.listen().await;
        let mut away = BTreeMap::<String, Instant>::new();
        loop {
            // Without webhooks of other managers there is nothing to check: wait for a change.
            let others = self.others();
            if others.is_empty() {
                away.clear();
                self.woken.notified().await;
                continue;
            }
            for gone in self.gone(&others, &mut away).await {
                tracing::warn!(manager = gone, "a manager is gone for good; its webhooks are no longer asked");
                // A failure is retried at the next check, because the webhooks are still there.
                let removed = async {
                    self.remove::<ValidatingWebhookConfiguration>(&gone).await?;
                    self.remove::<MutatingWebhookConfiguration>(&gone).await
                };
                if let Err(error) = removed.await {
                    tracing::warn!(error = %Chain(&error), "could not remove the webhooks of a manager that is gone");
                }
            }
            tokio::select! {
                () = self.woken.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    async fn listen(&self) {
        let (list, woken) = (discovery::list(&self.caches), Arc::clone(&self.woken));
        list.subscribe(move |_: &ConfigMap| woken.notify_one());
        // Before the first check: an empty cache would make every manager look absent.
        list.synced().await;
        self.listen_to::<ValidatingWebhookConfiguration>().await;
        self.listen_to::<MutatingWebhookConfiguration>().await;
    }

    async fn listen_to<K: Configuration>(&self) {
        let (cache, woken) = (self.caches.get::<K>(), Arc::clone(&self.woken));
        cache.subscribe(move |_: &K| woken.notify_one());
        cache.synced().await;
    }

    /// The names of the other managers that have webhook configurations.
    fn others(&self) -> BTreeSet<String> {
        let validating = self.caches.get::<ValidatingWebhookConfiguration>().list();
        let mutating = self.caches.get::<MutatingWebhookConfiguration>().list();
        let validating = validating.iter().filter_map(|one| manager_of(&**one));
        let all = validating.chain(mutating.iter().filter_map(|one| manager_of(&**one)));
        all.filter(|manager| *manager != self.own).map(str::to_owned).collect()
    }

    /// Which of these managers are gone. `away` holds the time at which each was first found absent.
    async fn gone(&self, others: &BTreeSet<String>, away: &mut BTreeMap<String, Instant>) -> Vec<String> {
        let list = discovery::list(&self.caches).get(&discovery::key());
        let entries = list.map(|list| Snapshot::of(&list).entries).unwrap_or_default();
        // A manager without webhooks has nothing to remove, and starts with a new time if it returns.
        away.retain(|manager, _| others.contains(manager));
        let mut gone = Vec::new();
        for manager in others {
            let standing = Standing::of(entries.get(manager)).await;
            if standing == Standing::Lives {
                away.remove(manager);
                continue;
            }
            // The time counts from the first check that missed the manager, not from its last sign of life.
            let since = *away.entry(manager.clone()).or_insert_with(Instant::now);
            if standing.is_gone(since.elapsed()) {
                gone.push(manager.clone());
            }
        }
        gone
    }

    async fn remove<K: Configuration>(&self, manager: &str) -> Result<(), Error> {
        for found in self.caches.get::<K>().list() {
            if manager_of(&*found) == Some(manager) {
                remove_if_unchanged::<K>(&self.client, found.meta()).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_that_may_come_back_is_waited_for_and_one_that_lives_for_ever() {
        let seconds = Duration::from_secs;
        for (standing, away, gone) in [
            (Standing::Lives, seconds(1_000_000), false),
            (Standing::Left, seconds(9), false),
            (Standing::Left, seconds(10), true),
            (Standing::Silent, seconds(299), false),
            (Standing::Silent, seconds(300), true),
        ] {
            assert_eq!(standing.is_gone(away), gone, "{standing:?} {away:?}");
        }
    }
}
