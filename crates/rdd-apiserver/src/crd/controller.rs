//! The controller of CustomResourceDefinitions: cleans up deleted definitions and accepts names that become free.

use std::{collections::BTreeSet, sync::Arc};

use rdd_stdx::{
    chain::Chain,
    clock::SharedClock,
    task::{Failure, Group},
};
use tracing::{error, warn};

use super::{
    amend::Amender,
    cleanup::{self, Deleter},
    definitions::Definitions,
    head::Head,
    names,
    strategy::now,
};
use crate::state::{self, Item, Object, Watch, WatchFrom};

/// The controller of definitions. It watches them until the state is closed.
#[derive(Debug)]
pub struct Controller {
    definitions: Arc<Definitions>,
    amender: Amender,
    deleter: Arc<dyn Deleter>,
    clock: SharedClock,
    /// The names of the definitions with a running cleanup.
    cleaning: BTreeSet<String>,
    cleanups: Group<String>,
}

impl Controller {
    /// Creates the controller; [`run`](Self::run) starts it.
    pub fn new(definitions: Arc<Definitions>, deleter: Arc<dyn Deleter>, clock: SharedClock) -> Self {
        let amender = Amender::new(Arc::clone(&definitions));
        Self { definitions, amender, deleter, clock, cleaning: BTreeSet::new(), cleanups: Group::default() }
    }

    /// Runs the controller as a task of a [`Group`].
    ///
    /// # Flow
    /// It synchronizes the registry with definitions that were not written by this server's handlers, deletes the objects of
    /// terminating definitions, and accepts names that become free.
    ///
    /// # Guarantees
    /// Dropping the future stops all work at its next await; the next run continues from the stored state.
    ///
    /// # Errors
    /// An error of the state that a new watch cannot repair. When the state is closed, it returns `Ok`.
    pub async fn run(mut self) -> Result<(), state::Error> {
        loop {
            let scope = self.definitions.resource().all();
            let mut watch = self.definitions.state().watch(&scope, WatchFrom::Now, None)?;
            match self.follow(&mut watch).await {
                // The watch fell behind the writes: start again with a new one.
                state::Error::Expired { .. } => {}
                state::Error::Closed => return Ok(()),
                error => return Err(error),
            }
        }
    }

    async fn follow(&mut self, watch: &mut Watch) -> state::Error {
        let mut is_synced = false;
        loop {
            tokio::select! {
                item = watch.next() => match item {
                    Ok(Item::Change(change)) => self.changed(&change.object, is_synced).await,
                    Ok(Item::Synced(_)) => {
                        is_synced = true;
                        self.synced().await;
                    }
                    Err(error) => return error,
                },
                Some(ended) = self.cleanups.next() => self.cleaned_up(ended.outcome),
            }
        }
    }

    async fn synced(&mut self) {
        self.definitions.sync_missing();
        for group in self.definitions.groups() {
            self.settle_group(&group).await;
        }
    }

    async fn changed(&mut self, object: &Object, is_synced: bool) {
        // The handler of the write has usually synchronized it already; then this does nothing.
        self.definitions.sync(object.name());
        self.clean_up(object.name());
        // The initial definitions settle their names together, in `synced`.
        if is_synced && let Ok(head) = Head::read(object.wire()) {
            self.settle_group(&head.spec.group).await;
        }
    }

    /// Starts the cleanup of a definition if it awaits one and none is running.
    fn clean_up(&mut self, name: &str) {
        let head = self.amender.get(name).and_then(|object| Head::read(object.wire()).ok());
        if head.is_some_and(|head| head.awaits_cleanup()) && self.cleaning.insert(name.to_owned()) {
            let (amender, deleter) = (self.amender.clone(), Arc::clone(&self.deleter));
            let task = cleanup::run(name.to_owned(), amender, deleter, Arc::clone(&self.clock));
            self.cleanups.spawn("clean up behind a CustomResourceDefinition", task);
        }
    }

    fn cleaned_up(&mut self, outcome: Result<String, Failure>) {
        match outcome {
            Ok(name) => {
                self.cleaning.remove(&name);
                // A definition of the same name may have been created and deleted meanwhile.
                self.clean_up(&name);
            }
            Err(failure) => {
                // The failure does not show which cleanup ended. A second cleanup of the same definition does no harm.
                error!(error = %failure, "the clean-up behind a CustomResourceDefinition ended");
                for name in std::mem::take(&mut self.cleaning) {
                    self.clean_up(&name);
                }
            }
        }
    }

    /// Updates the accepted names of all definitions in a group whose names are pending or contested.
    async fn settle_group(&self, group: &str) {
        for unsettled in self.definitions.unsettled(group) {
            let ledger = self.definitions.ledger();
            let taken = if unsettled.is_contested {
                ledger.taken_before(group, &unsettled.name)
            } else {
                ledger.taken(group, &unsettled.name)
            };
            let settled = self.amender.amend(&unsettled.name, |definition| {
                if unsettled.is_contested {
                    names::unsettle(definition);
                }
                names::settle(definition, &taken, now(&self.clock));
            });
            if let Err(error) = settled.await {
                // The next change in the group tries again.
                warn!(object = unsettled.name, error = %Chain(&error), "the names of a CustomResourceDefinition cannot be settled");
            }
        }
    }
}
