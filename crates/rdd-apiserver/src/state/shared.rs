//! The tables of all resources and the applied revision, shared by readers, watches and the follower.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, RwLock},
    time::Duration,
};

use rdd_stdx::clock::SharedClock;
use rdd_store::Revision;
use tokio::{sync::watch, time::timeout};

use super::{
    Error, Key, Limits, Object, Resource,
    event::Event,
    handover::Handover,
    horizon::Horizon,
    observe::Observers,
    owners::Owners,
    table::{Gone, Table},
    tree::Tree,
};

/// State that readers, watches and the follower share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) limits: Limits,
    clock: SharedClock,
    tables: RwLock<Tables>,
    owners: RwLock<Owners>,
    applied: watch::Sender<Applied>,
    horizon: Mutex<Horizon>,
    pub(super) observers: Observers,
    pub(super) handover: Handover,
}

#[derive(Debug)]
struct Tables {
    /// The revision of the last full load. A resource without a table has had no object since then.
    loaded: Revision,
    by_resource: HashMap<Resource, Arc<Table>, foldhash::fast::RandomState>,
}

/// How far the follower has applied the store's commits.
#[derive(Debug, Clone, Copy)]
struct Applied {
    /// Everything up to this revision is visible, in all tables.
    revision: Revision,
    /// The follower has ended; no further change will come.
    ended: bool,
}

impl Shared {
    pub(super) fn new(limits: Limits, clock: SharedClock) -> Self {
        Self {
            horizon: Mutex::new(Horizon::new(limits.history_age)),
            limits,
            clock,
            tables: RwLock::new(Tables { loaded: Revision(0), by_resource: HashMap::default() }),
            owners: RwLock::default(),
            applied: watch::Sender::new(Applied { revision: Revision(0), ended: false }),
            observers: Observers::default(),
            handover: Handover::default(),
        }
    }

    /// Everything up to this revision is visible.
    pub(super) fn applied(&self) -> Revision {
        self.applied.borrow().revision
    }

    /// Whether the follower has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.applied.borrow().ended
    }

    /// Waits until everything up to a revision is visible.
    pub(super) async fn reach(&self, wanted: Revision, wait: Duration) -> Result<(), Error> {
        if self.applied() >= wanted {
            return Ok(());
        }
        let mut applied = self.applied.subscribe();
        let reached = async {
            let now = applied.wait_for(|now| now.revision >= wanted || now.ended).await;
            now.is_ok_and(|now| now.revision >= wanted)
        };
        match timeout(wait, reached).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::Closed),
            Err(_) => Err(Error::TooLarge { wanted, current: self.applied() }),
        }
    }

    /// The table of a resource; `None` if it never had objects or watches.
    pub(super) fn table(&self, prefix: &str) -> Option<Arc<Table>> {
        self.tables.read().expect("nothing panics while holding the tables").by_resource.get(prefix).cloned()
    }

    /// The table of a resource, created if it does not exist.
    pub(super) fn table_or_new(&self, prefix: &str, resource: impl FnOnce() -> Resource) -> Arc<Table> {
        if let Some(table) = self.table(prefix) {
            return table;
        }
        let mut tables = self.tables.write().expect("nothing panics while holding the tables");
        let loaded = tables.loaded;
        let made = tables.by_resource.entry(resource());
        Arc::clone(made.or_insert_with(|| Arc::new(Table::new(loaded, Tree::default()))))
    }

    /// The current objects of a resource, and a revision that they are consistent with.
    pub(super) fn now(&self, resource: &Resource) -> (Revision, Tree) {
        // The order matters: everything up to `applied` is in a head that is read after it.
        let applied = self.applied();
        let head = self.table(resource.prefix()).map(|table| table.head());
        head.map_or((applied, Tree::default()), |head| (applied.max(head.revision), head.objects))
    }

    /// The objects of a resource at a revision that is already visible.
    pub(super) fn at(&self, resource: &Resource, wanted: Revision) -> Result<Tree, Error> {
        let past = self.past();
        if wanted < past {
            return Err(Error::Expired { wanted, oldest: past });
        }
        let found = match self.table(resource.prefix()) {
            Some(table) => table.at(wanted),
            None => {
                let loaded = self.tables.read().expect("nothing panics while holding the tables").loaded;
                if wanted < loaded { Err(Gone(loaded)) } else { Ok(Tree::default()) }
            }
        };
        found.map_err(|Gone(oldest)| Error::Expired { wanted, oldest })
    }

    /// The current object of a key.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.table(key.resource_prefix())?.get(key.as_str())
    }

    /// The objects that have an owner reference to a uid.
    pub(super) fn dependents(&self, uid: &str) -> Vec<Arc<Object>> {
        // The owner index is updated before the tables, so a reference found there may not be in the current object.
        let keys = self.owners.read().expect("nothing panics while holding the owners").dependents(uid);
        let objects = keys.iter().filter_map(|key| self.get(key));
        objects.filter(|object| object.owners().iter().any(|owner| **owner == *uid)).collect()
    }

    /// How many objects have an owner reference to a uid.
    pub(super) fn count_dependents(&self, uid: &str) -> usize {
        self.owners.read().expect("nothing panics while holding the owners").count(uid)
    }

    /// Makes all changes of one revision visible. Without changes it only advances the applied revision.
    pub(super) fn publish(&self, revision: Revision, changes: Vec<(Arc<Table>, Vec<Arc<Event>>)>) {
        let past = {
            let mut horizon = self.horizon.lock().expect("nothing panics while holding the horizon");
            let now = self.clock.steady();
            horizon.note(now, revision);
            horizon.at(now)
        };
        {
            let mut owners = self.owners.write().expect("nothing panics while holding the owners");
            changes.iter().flat_map(|(_, events)| events).for_each(|event| owners.apply(event));
        }
        let touched: Vec<Arc<Table>> = changes.iter().map(|(table, _)| Arc::clone(table)).collect();
        let published: Vec<Arc<Event>> = changes.iter().flat_map(|(_, events)| events).cloned().collect();
        for (table, events) in changes {
            table.publish(revision, events, past, &self.limits);
        }
        // Before the writers that wait for this revision wake: they may rely on observers having seen it.
        self.observers.tell(&published);
        self.advance(revision);
        touched.iter().for_each(|table| table.wake());
    }

    /// Replaces everything by a full load at a revision. All watches expire.
    pub(super) fn replace(&self, revision: Revision, objects: HashMap<Resource, Vec<Arc<Object>>>) {
        let mut owners = Owners::default();
        objects.values().flatten().for_each(|object| owners.add(object));
        let mut loaded: HashMap<Resource, Tree> =
            objects.into_iter().map(|(resource, objects)| (resource, sorted(objects))).collect();
        let tables = {
            let mut tables = self.tables.write().expect("nothing panics while holding the tables");
            tables.loaded = revision;
            for (resource, table) in &tables.by_resource {
                table.replace(revision, loaded.remove(resource).unwrap_or_default());
            }
            let added = loaded.into_iter().map(|(name, objects)| (name, Arc::new(Table::new(revision, objects))));
            tables.by_resource.extend(added);
            tables.by_resource.values().cloned().collect::<Vec<_>>()
        };
        *self.owners.write().expect("nothing panics while holding the owners") = owners;
        self.observers.renew();
        self.advance(revision);
        tables.iter().for_each(|table| table.wake());
    }

    /// Drops history that the limits no longer keep.
    pub(super) fn trim(&self) {
        let past = self.past();
        self.all_tables().iter().for_each(|table| table.trim(past, &self.limits));
    }

    /// Marks the state as ended and wakes every waiter.
    pub(super) fn end(&self) {
        self.applied.send_modify(|applied| applied.ended = true);
        self.all_tables().iter().for_each(|table| table.wake());
    }

    fn advance(&self, revision: Revision) {
        self.applied.send_modify(|applied| applied.revision = applied.revision.max(revision));
    }

    fn past(&self) -> Revision {
        self.horizon.lock().expect("nothing panics while holding the horizon").at(self.clock.steady())
    }

    fn all_tables(&self) -> Vec<Arc<Table>> {
        self.tables.read().expect("nothing panics while holding the tables").by_resource.values().cloned().collect()
    }
}

fn sorted(mut objects: Vec<Arc<Object>>) -> Tree {
    objects.sort_by(|one, other| one.key().cmp(other.key()));
    Tree::from_sorted(&objects)
}
