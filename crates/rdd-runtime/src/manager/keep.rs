//! What a separate manager does while it runs: it checks its registration, and takes over controllers of managers that are gone.

use std::time::Duration;

use rdd_stdx::chain::Chain;
use tokio::time::timeout;

use super::Manager;
use crate::Error;

/// The interval of the checks, and the timeout of one check.
const PAUSE: Duration = Duration::from_secs(2);
/// After this many failed checks in a row, the manager is lost.
const MISSES_MAX: u32 = 3;

/// Why a manager must end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The result of the last check.
    pub why: String,
}

impl Manager {
    /// Checks every 2 s that this run is registered, and takes over controllers that other managers have left.
    ///
    /// Returns after three checks in a row without a registration of this run, because the daemon is gone or has restarted; and at once
    /// when another manager runs the same controllers. An entry that another client removes in between is restored.
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
                        // A claimed controller that does not run would block others. Ending releases the claim.
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

    /// Starts the waiting controllers that no living manager runs any more.
    async fn take_over(&self) -> Result<(), Error> {
        let mut waiting = self.waiting.lock().await;
        let Some((registry, entry)) = self.upkeep.registered().filter(|_| !waiting.is_empty()) else { return Ok(()) };
        // Between claim and start, the entry names controllers that do not run yet: the upkeep must not correct it.
        let _paused = self.upkeep.pause().await;
        let running = self.controllers();
        // The claim replaces the whole entry, so it names the running controllers again.
        let wanted: Vec<_> = running.iter().copied().chain(waiting.iter().map(|one| one.declaration().name)).collect();
        let claimed = match registry.claim(&self.name, entry, &wanted).await {
            Ok(claimed) => claimed,
            Err(error) => {
                // The claim is tried again at the next check.
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
