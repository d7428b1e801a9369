//! What a manager in a process of its own does beside its controllers: it sees that it is still registered, and takes over
//! from those that are gone.

use std::time::Duration;

use rdd_stdx::chain::Chain;
use tokio::time::timeout;

use super::Manager;
use crate::Error;

/// How often it looks, and how long a look may take.
const PAUSE: Duration = Duration::from_secs(2);
/// After so many looks in a row that did not find it, it is no longer wanted.
const MISSES_MAX: u32 = 3;

/// Why a manager is no longer wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// What the last look found.
    pub why: String,
}

impl Manager {
    /// Looks every 2 s whether it is still registered, and whether controllers that others ran are free by now. It returns after
    /// three looks in a row that found no registration of this run (the daemon is gone, or has started anew), and at once when
    /// another manager has what runs here. An entry that somebody takes away meanwhile comes back by itself.
    pub async fn keep(&self) -> Lost {
        let mut misses = 0;
        loop {
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                why = self.upkeep.lost() => return Lost { why },
            }
            match timeout(PAUSE, self.is_registered()).await {
                Ok(Ok(())) => {
                    misses = 0;
                    if let Err(error) = self.take_over().await {
                        // What is claimed and does not run would be nobody's: to end leaves it to the next.
                        return Lost { why: Chain(&error).to_string() };
                    }
                }
                Ok(Err(error)) => {
                    misses += 1;
                    let why = Chain(&error).to_string();
                    tracing::debug!(misses, error = why, "not registered");
                    if misses >= MISSES_MAX {
                        return Lost { why };
                    }
                }
                Err(_) => {
                    misses += 1;
                    if misses >= MISSES_MAX {
                        return Lost { why: "the API does not answer".to_owned() };
                    }
                }
            }
        }
    }

    async fn is_registered(&self) -> Result<(), Error> {
        let Some((registry, entry)) = self.upkeep.registered() else { return Ok(()) };
        let found = registry.read().await?.ok_or_else(|| Error::message("the list of managers is gone"))?;
        match found.entries.get(&self.name) {
            Some(found) if found.id == entry.id => Ok(()),
            Some(_) => Err(Error::message("another run of this manager has registered")),
            None => Err(Error::message("our registration is gone")),
        }
    }

    /// Starts what others ran and nobody runs any more.
    async fn take_over(&self) -> Result<(), Error> {
        let mut waiting = self.waiting.lock().await;
        let Some((registry, entry)) = self.upkeep.registered().filter(|_| !waiting.is_empty()) else { return Ok(()) };
        // Between the claim and the start the entry names more than runs.
        let _paused = self.upkeep.pause().await;
        let running = self.controllers();
        let wanted: Vec<_> = running.iter().copied().chain(waiting.iter().map(|one| one.declaration().name)).collect();
        let claimed = match registry.claim(&self.name, entry, &wanted).await {
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::debug!(error = %Chain(&error), "could not ask for the controllers of others");
                return Ok(());
            }
        };
        let free = waiting.extract_if(.., |one| claimed.own.contains(one.declaration().name)).collect::<Vec<_>>();
        if free.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = free.iter().map(|one| one.declaration().name).collect();
        tracing::info!(controllers = ?names, "taking over from a manager that is gone");
        self.run(free).await.map_err(|error| error.context(format!("take over {}", names.join(", "))))
    }
}
