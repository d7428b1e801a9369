//! All tables, and how far they have come: what readers, watchers and the follower share.

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

/// What readers, watchers and the follower share.
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
    /// The revision as of which everything was loaded. A resource without a table has had no object since.
    loaded: Revision,
    by_resource: HashMap<Resource, Arc<Table>, foldhash::fast::RandomState>,
}

/// How far the tables have come.
#[derive(Debug, Clone, Copy)]
struct Applied {
    /// Everything up to here is visible, in all tables.
    revision: Revision,
    /// Nothing more will come.
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

    /// Whether nothing more will come.
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

    /// The table of a resource that has had objects, or watchers.
    pub(super) fn table(&self, prefix: &str) -> Option<Arc<Table>> {
        self.tables.read().expect("nothing panics while holding the tables").by_resource.get(prefix).cloned()
    }

    /// The table of a resource, which is made if there is none.
    pub(super) fn table_or_new(&self, prefix: &str, resource: impl FnOnce() -> Resource) -> Arc<Table> {
        if let Some(table) = self.table(prefix) {
            return table;
        }
        let mut tables = self.tables.write().expect("nothing panics while holding the tables");
        let loaded = tables.loaded;
        let made = tables.by_resource.entry(resource());
        Arc::clone(made.or_insert_with(|| Arc::new(Table::new(loaded, Tree::default()))))
    }

    /// The objects of a resource now, and the revision as of which they are what they are.
    pub(super) fn now(&self, resource: &Resource) -> (Revision, Tree) {
        // In this order: everything up to `applied` is in what is read after it.
        let applied = self.applied();
        let head = self.table(resource.prefix()).map(|table| table.head());
        head.map_or((applied, Tree::default()), |head| (applied.max(head.revision), head.objects))
    }

    /// The objects of a resource as of a revision that has happened.
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

    /// The object of a key now.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.table(key.resource_prefix())?.get(key.as_str())
    }

    /// The objects that refer to a uid as their owner's.
    pub(super) fn dependents(&self, uid: &str) -> Vec<Arc<Object>> {
        let keys = self.owners.read().expect("nothing panics while holding the owners").dependents(uid);
        let objects = keys.iter().filter_map(|key| self.get(key));
        objects.filter(|object| object.owners().iter().any(|owner| **owner == *uid)).collect()
    }

    /// How many objects refer to a uid as their owner's.
    pub(super) fn count_dependents(&self, uid: &str) -> usize {
        self.owners.read().expect("nothing panics while holding the owners").count(uid)
    }

    /// Makes all changes of one revision visible; without changes, notes that it has come.
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
        let told: Vec<Arc<Event>> = changes.iter().flat_map(|(_, events)| events).cloned().collect();
        for (table, events) in changes {
            table.publish(revision, events, past, &self.limits);
        }
        // Before those who wait for the revision: whoever made a change may count on it that observers know of it.
        self.observers.tell(&told);
        self.advance(revision);
        touched.iter().for_each(|table| table.wake());
    }

    /// Begins anew with everything as of a revision. All watchers have expired.
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

    /// Lets go of what has become too old.
    pub(super) fn trim(&self) {
        let past = self.past();
        self.all_tables().iter().for_each(|table| table.trim(past, &self.limits));
    }

    /// Nothing more will come: whoever waits is told.
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
