//! Restores the manager's entry and its webhook configurations whenever other clients change them.
//!
//! It watches both and writes only on a difference. Two managers never fight: a manager that finds its controllers with another one ends.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::ConfigMap,
};
use kube::Client;
use rdd_stdx::{
    backoff::{Backoff, Delays},
    chain::Chain,
};
use tokio::{
    sync::{Mutex as AsyncMutex, MutexGuard, Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{Role, hooks::Served};
use crate::{
    Declaration, Error, Key,
    admission::{Configuration, Configurations, HookKind, Webhook},
    cache::Caches,
    discovery::{self, Entry, Registry, Snapshot, amendment, claiming},
    worker::Tools,
};

/// The delay after a restore. It grows with repeated restores, so that a client that keeps making the opposite change costs little.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(30));
/// After this time without a restore, the delay starts again with the first value.
const CALM: Duration = Duration::from_mins(1);

/// What the manager keeps in place.
pub(super) struct Upkeep {
    manager: String,
    is_embedded: bool,
    client: Client,
    caches: Caches,
    stopping: CancellationToken,
    hooks: Served,
    registered: OnceLock<(Registry, Entry)>,
    /// The declarations of the controllers that run here.
    ours: Mutex<Vec<Arc<Declaration>>>,
    /// Held during every write to the entry or the configurations.
    writing: AsyncMutex<()>,
    woken: Arc<Notify>,
    lost: watch::Sender<Option<String>>,
}

impl Upkeep {
    pub(super) fn new(manager: &str, role: &Role, tools: &Tools, hooks: Served) -> Arc<Self> {
        Arc::new(Self {
            manager: manager.to_owned(),
            is_embedded: matches!(role, Role::Embedded(_)),
            client: tools.client.clone(),
            caches: tools.caches.clone(),
            stopping: tools.stopping.clone(),
            hooks,
            registered: OnceLock::new(),
            ours: Mutex::default(),
            writing: AsyncMutex::default(),
            woken: Arc::default(),
            lost: watch::Sender::new(None),
        })
    }

    /// Records the manager's registration.
    pub(super) fn set_registered(&self, registry: Registry, entry: Entry) {
        // It is set once, at the start.
        let _ = self.registered.set((registry, entry));
    }

    /// The registration, if the manager has registered.
    pub(super) fn registered(&self) -> Option<&(Registry, Entry)> {
        self.registered.get()
    }

    pub(super) fn hooks(&self) -> &Served {
        &self.hooks
    }

    /// Adds controllers that run here from now on.
    pub(super) fn add(&self, declarations: impl IntoIterator<Item = Arc<Declaration>>) {
        self.ours.lock().unwrap_or_else(PoisonError::into_inner).extend(declarations);
    }

    fn ours(&self) -> Vec<Arc<Declaration>> {
        self.ours.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Prevents restores until the guard is dropped; waits for a restore that is under way.
    pub(super) async fn pause(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().await
    }

    /// Waits until another manager runs the same controllers; returns the reason.
    pub(super) async fn lost(&self) -> String {
        let mut lost = self.lost.subscribe();
        match lost.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            // The sender lives as long as `self`.
            Err(_) => std::future::pending().await,
        }
    }

    /// Starts the task if there is an entry or a webhook to keep.
    pub(super) fn start(self: &Arc<Self>, tools: &Tools) {
        if self.registered().is_none() && self.hooks.reachable().is_none() {
            return;
        }
        let upkeep = Arc::clone(self);
        tools.supervisor.start("upkeep".to_owned(), move || Box::pin(Arc::clone(&upkeep).run()));
    }

    async fn run(self: Arc<Self>) -> Result<(), Error> {
        self.listen().await;
        let (mut pace, mut told) = (Pace::default(), String::new());
        loop {
            match self.look().await {
                Ok(false) => {
                    told.clear();
                    self.woken.notified().await;
                    continue;
                }
                Ok(true) => {}
                Err(error) => {
                    let why = Chain(&error).to_string();
                    // Log a lasting failure once: only a change of the error is logged again.
                    if why != told {
                        tracing::warn!(error = why, "cannot restore what others have changed; trying again");
                        told = why;
                    }
                }
            }
            tokio::time::sleep(pace.next()).await;
        }
    }

    /// Subscribes to the entry and the configurations; returns when their caches are synced.
    async fn listen(&self) {
        if self.registered().is_some() {
            let (list, woken) = (discovery::list(&self.caches), Arc::clone(&self.woken));
            list.subscribe(move |_: &ConfigMap| woken.notify_one());
            list.synced().await;
        }
        if self.hooks.reachable().is_some() {
            self.listen_to::<ValidatingWebhookConfiguration>().await;
            self.listen_to::<MutatingWebhookConfiguration>().await;
        }
    }

    async fn listen_to<K: Configuration>(&self) {
        let cache = self.caches.get::<K>();
        let woken = Arc::clone(&self.woken);
        cache.subscribe(move |_: &K| woken.notify_one());
        cache.synced().await;
    }

    /// Restores what differs; returns whether anything was written.
    async fn look(&self) -> Result<bool, Error> {
        let _writing = self.writing.lock().await;
        // A manager that is ending must not restore its entry, which it is about to remove.
        if self.stopping.is_cancelled() || self.lost.borrow().is_some() {
            return Ok(false);
        }
        let ours = self.ours();
        let mut wrote = self.keep_registered(&ours).await?;
        if self.lost.borrow().is_some() {
            return Ok(false);
        }
        // One configuration that cannot be restored must not keep the others from it.
        let mut failed = None;
        for webhook in ours.iter().flat_map(|one| &one.webhooks) {
            let kept = match webhook.kind {
                HookKind::Validating => self.keep_configured::<ValidatingWebhookConfiguration>(webhook).await,
                HookKind::Mutating => self.keep_configured::<MutatingWebhookConfiguration>(webhook).await,
            };
            match kept {
                Ok(restored) => wrote |= restored,
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(wrote), Err)
    }

    /// Restores the entry. In a separate process it claims the controllers again; if another manager has one of them, this manager is
    /// lost.
    async fn keep_registered(&self, ours: &[Arc<Declaration>]) -> Result<bool, Error> {
        let Some((registry, entry)) = self.registered() else { return Ok(false) };
        let list = discovery::list(&self.caches).get(&discovery::key());
        let list = list.as_deref();
        if self.is_embedded {
            // While the cached ConfigMap shows no difference, no request is needed.
            if let Some(list) = list
                && amendment(list, &self.manager, entry)?.is_none()
            {
                return Ok(false);
            }
            let restored = registry.restore(&self.manager, entry).await?;
            if restored {
                tracing::info!("the list of managers was changed by others and is restored");
            }
            return Ok(restored);
        }
        let running: BTreeSet<String> = ours.iter().map(|one| one.name.to_owned()).collect();
        // The entry must name what runs now; waiting controllers are claimed elsewhere.
        let wanted = claiming(entry, &running);
        if list.is_some_and(|list| Snapshot::of(list).entries.get(&self.manager) == Some(&wanted)) {
            return Ok(false);
        }
        let names: Vec<_> = running.iter().map(String::as_str).collect();
        let claimed = registry.claim(&self.manager, entry, &names).await?;
        if claimed.own != running {
            self.lost.send_replace(Some(format!("other managers run what ran here: {:?}", claimed.others)));
            return Ok(false);
        }
        tracing::info!("our entry in the list of managers was changed by others and is restored");
        Ok(true)
    }

    async fn keep_configured<K: Configuration>(&self, webhook: &Webhook) -> Result<bool, Error> {
        let Some(reachable) = self.hooks.reachable() else { return Ok(false) };
        let cache = self.caches.get::<K>();
        let found = cache.get(&Key::cluster(&webhook.configuration));
        let configurations = Configurations { client: &self.client, manager: &self.manager };
        let Some(restored) = configurations.restore(webhook, reachable, found.as_deref()).await? else {
            return Ok(false);
        };
        tracing::info!(
            configuration = webhook.configuration,
            "a webhook configuration was changed by others and is restored"
        );
        cache.offer(&restored);
        Ok(true)
    }
}

/// The delays between restores.
struct Pace {
    last: Instant,
    delays: Delays,
}

impl Default for Pace {
    fn default() -> Self {
        Self { last: Instant::now(), delays: BACKOFF.delays() }
    }
}

impl Pace {
    fn next(&mut self) -> Duration {
        if self.last.elapsed() > CALM {
            self.delays.reset();
        }
        self.last = Instant::now();
        self.delays.advance()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_insists_on_the_opposite_is_answered_less_and_less_often() {
        let mut pace = Pace::default();
        let mut spent = Duration::ZERO;
        let mut looks = 0;
        while spent < Duration::from_mins(10) {
            let delay = pace.next();
            tokio::time::sleep(delay).await;
            (spent, looks) = (spent + delay, looks + 1);
        }
        assert!(looks < 40, "{looks} looks in ten minutes");
        tokio::time::sleep(CALM * 2).await;
        assert_eq!(pace.next(), BACKOFF.first, "after some calm it is quick again");
    }
}
