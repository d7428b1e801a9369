//! What takes longer than a write: the clean-up behind a deleted definition, and names that become free.

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

/// Follows the definitions until the state is closed.
#[derive(Debug)]
pub struct Controller {
    definitions: Arc<Definitions>,
    amender: Amender,
    deleter: Arc<dyn Deleter>,
    clock: SharedClock,
    /// Which definitions are being cleaned up.
    cleaning: BTreeSet<String>,
    cleanups: Group<String>,
}

impl Controller {
    /// See [`run`](Self::run).
    pub fn new(definitions: Arc<Definitions>, deleter: Arc<dyn Deleter>, clock: SharedClock) -> Self {
        let amender = Amender::new(Arc::clone(&definitions));
        Self { definitions, amender, deleter, clock, cleaning: BTreeSet::new(), cleanups: Group::default() }
    }

    /// Keeps the registry in step with definitions that others than this server's handlers wrote, deletes the objects of
    /// definitions that are being deleted, and accepts names that become free. Ends when the state is closed; to be run as a
    /// task of a [`Group`]. Dropping the future stops everything at its next await; the next run goes on from there.
    pub async fn run(mut self) -> Result<(), state::Error> {
        loop {
            let scope = self.definitions.resource().all();
            let mut watch = self.definitions.state().watch(&scope, WatchFrom::Now, None)?;
            match self.follow(&mut watch).await {
                // So much was written that this watch was left behind: everything is looked at again.
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
        self.definitions.sync(object.name());
        self.clean_up(object.name());
        // Of all that is there at first the names are looked at together.
        if is_synced && let Ok(head) = Head::read(object.wire()) {
            self.settle_group(&head.spec.group).await;
        }
    }

    /// Begins the clean-up behind a definition, if it waits for one and none is under way.
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
                // Another of the same name may have been made and deleted meanwhile.
                self.clean_up(&name);
            }
            Err(failure) => {
                // Which one it was is not known; a second clean-up of the same definition does no harm.
                error!(error = %failure, "the clean-up behind a CustomResourceDefinition ended");
                for name in std::mem::take(&mut self.cleaning) {
                    self.clean_up(&name);
                }
            }
        }
    }

    /// Gives the definitions of a group the names that they want and can have now.
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
                // Tried again with the next change in the group.
                warn!(object = unsettled.name, error = %Chain(&error), "the names of a CustomResourceDefinition cannot be settled");
            }
        }
    }
}
