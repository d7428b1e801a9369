//! The follower: the one task that applies the store's commits to memory, in the order of their revisions.

use std::{collections::HashMap, sync::Arc, time::Duration};

use rdd_stdx::{backoff::Backoff, chain::Chain};
use rdd_store::{Batch, Change, Revision, Store, Subscription};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::{Extract, Key, Object, Resource, Symbols, event::Event, object::Reading, shared::Shared, table::Table};

/// If no batch arrives for this long, the follower asks the store for its revision.
const PROGRESS_AFTER: Duration = Duration::from_millis(50);
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

/// The follower. Dropping it, also by a panic, marks the state as ended and wakes every waiter.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) store: Arc<dyn Store>,
    pub(super) extract: Arc<dyn Extract>,
    pub(super) shared: Arc<Shared>,
    pub(super) symbols: Symbols,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl Follower {
    /// Loads all objects and subscribes to the commits after them.
    pub(super) async fn load(&mut self) -> Result<Subscription, rdd_store::Error> {
        let mut load = self.store.load().await?;
        let mut objects: HashMap<Resource, Vec<Arc<Object>>> = HashMap::new();
        loop {
            let entries = load.next().await?;
            if entries.is_empty() {
                break;
            }
            for entry in entries {
                let Some(key) = Key::parse(entry.key) else { continue };
                if let Some(object) = self.read(key, entry.revision, &entry.value) {
                    match objects.get_mut(object.key().resource_prefix()) {
                        Some(known) => known.push(object),
                        None => drop(objects.insert(object.key().resource(), vec![object])),
                    }
                }
            }
        }
        let subscription = self.store.events(load.revision()).await?;
        self.shared.replace(load.revision(), objects);
        Ok(subscription)
    }

    /// Applies batches until everything that was committed before the call is visible.
    pub(super) async fn catch_up(&mut self, subscription: &mut Subscription) -> Result<(), rdd_store::Error> {
        let head = self.store.head();
        while self.shared.applied() < head {
            match timeout(PROGRESS_AFTER, subscription.next()).await {
                Ok(batch) => self.apply(&*batch?),
                // A restored store begins at a higher revision without a batch for the gap; only `progress` reports
                // it.
                Err(_) => drop(self.store.progress().await?),
            }
        }
        Ok(())
    }

    /// Applies batches until the store is closed.
    pub(super) async fn run(mut self, mut subscription: Subscription) -> rdd_store::Error {
        let mut trim = interval(self.shared.limits.trim_every.max(Duration::from_millis(1)));
        trim.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let ended = tokio::select! {
                batch = subscription.next() => match batch {
                    Ok(batch) => {
                        self.apply(&batch);
                        continue;
                    }
                    Err(error) => error,
                },
                _ = trim.tick() => {
                    self.shared.trim();
                    continue;
                }
            };
            subscription = match self.resume(ended).await {
                Ok(resumed) => resumed,
                Err(closed) => return closed,
            };
        }
    }

    /// Subscribes again after a subscription has ended: from the applied revision if the store still has the changes
    /// since then, otherwise after a full reload. It fails only if the store is closed.
    async fn resume(&mut self, mut error: rdd_store::Error) -> Result<Subscription, rdd_store::Error> {
        let mut delays = BACKOFF.delays();
        loop {
            if matches!(error, rdd_store::Error::Closed) {
                return Err(error);
            }
            let applied = self.shared.applied();
            let resumed = match self.store.events(applied).await {
                // The gap cannot be replayed, so watches must not continue as if nothing was missed.
                Err(gone @ (rdd_store::Error::Compacted { .. } | rdd_store::Error::FutureRevision { .. })) => {
                    tracing::warn!(rv = applied.0, error = %Chain(&gone), "reloading the state from the store; all watches expire");
                    self.load().await
                }
                other => other,
            };
            match resumed {
                Ok(subscription) => return Ok(subscription),
                Err(failed) => error = failed,
            }
            let delay = delays.advance();
            tracing::warn!(rv = applied.0, error = %Chain(&error), ?delay, "cannot follow the store; will retry");
            sleep(delay).await;
        }
    }

    fn apply(&mut self, batch: &Batch) {
        // A reload may already include batches that the subscription delivers again.
        if batch.revision <= self.shared.applied() {
            return;
        }
        let mut changes: Vec<(Arc<Table>, Vec<Arc<Event>>)> = Vec::new();
        for stored in &batch.events {
            let Some(key) = Key::parse(Arc::clone(&stored.key)) else { continue };
            let table = self.shared.table_or_new(key.resource_prefix(), || key.resource());
            let previous = table.get(key.as_str());
            let current = match &stored.change {
                // Reuse the key that is already in memory instead of keeping one more copy of it.
                Change::Put(value) => {
                    let key = previous.as_ref().map_or(key, |previous| previous.key().clone());
                    self.see(key, batch.revision, value)
                }
                Change::Delete => None,
            };
            let Some(event) = Event::new(batch.revision, previous, current) else { continue };
            match changes.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &table)) {
                Some((_, events)) => events.push(event),
                None => changes.push((table, vec![event])),
            }
        }
        self.shared.publish(batch.revision, changes);
    }

    /// The object for a committed value. Uses the parse result of the write if this process made it.
    fn see(&mut self, key: Key, revision: Revision, json: &[u8]) -> Option<Arc<Object>> {
        match self.shared.handover.take(&key, json) {
            Some(reading) => {
                let reading = reading.shared_through(&mut self.symbols);
                Some(Arc::new(Object::new(key, revision, json, reading)))
            }
            None => self.read(key, revision, json),
        }
    }

    /// Parses an object from its stored bytes. Bytes that are not an object come from another program: the follower
    /// logs and skips them, so that one bad value does not keep all others from being served.
    fn read(&mut self, key: Key, revision: Revision, json: &[u8]) -> Option<Arc<Object>> {
        match Reading::of(&key, json, &*self.extract, &mut self.symbols) {
            Ok(reading) => Some(Arc::new(Object::new(key, revision, json, reading))),
            Err(error) => {
                tracing::error!(rv = revision.0, error = %Chain(&error), "skipped a stored value that is not an object");
                None
            }
        }
    }
}
