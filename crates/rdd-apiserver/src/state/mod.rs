//! The server's in-memory view of the store: the current objects, their recent history, and watches.
//!
//! One task, the follower, applies the store's batches to memory, revision by revision. Nothing else does, so it does
//! not matter which process wrote. Reads never wait for the follower and never parse: a list shares a snapshot, a
//! watch is a cursor in the history of its resource, and all of them share the objects and their bytes.
//!
//! All resources share the store's revision. A read at revision R returns everything up to R of its resource and
//! nothing after it.

mod error;
mod event;
mod extract;
mod follow;
mod handover;
mod horizon;
mod key;
mod layout;
mod limits;
mod list;
mod object;
mod observe;
mod owners;
mod shared;
mod table;
mod tree;
mod watch;
mod write;

use std::{sync::Arc, time::Duration};

use rdd_stdx::{
    clock::SharedClock,
    task::{Ended, Group},
};
use rdd_store::{Action, Expect, Revision, Store};
use tokio::sync::Mutex;

pub use error::{Cause, Error};
pub use event::{Change, Filter, Kind};
pub use extract::{Extract, MetadataExtract, Parts, Symbol, Symbols};
pub use key::{Key, Resource, Scope};
pub use layout::{Layout, LayoutError, layout};
pub use limits::Limits;
pub use list::{ListOptions, Page, RevisionWant};
pub use object::Object;
pub use observe::Observe;
pub use watch::{Item, Watch, WatchFrom};
pub use write::{Committed, Write};

use follow::Follower;
use handover::Offer;
use object::Reading;
use shared::Shared;

/// The server's in-memory state over a [`Store`]. Dropping it ends its follower and all watches; the store stays
/// open.
#[derive(Debug)]
pub struct State {
    store: Arc<dyn Store>,
    extract: Arc<dyn Extract>,
    shared: Arc<Shared>,
    tasks: Mutex<Group<rdd_store::Error>>,
}

impl State {
    /// Loads all objects and the history that the store has kept, then follows the store. When it returns, everything
    /// that was committed before the call is visible, and a watch can resume after any revision from the store's
    /// compaction horizon on.
    pub async fn open(
        store: Arc<dyn Store>,
        extract: Arc<dyn Extract>,
        clock: SharedClock,
        limits: Limits,
    ) -> Result<Self, Error> {
        let shared = Arc::new(Shared::new(limits, clock));
        let mut follower = Follower {
            store: Arc::clone(&store),
            extract: Arc::clone(&extract),
            shared: Arc::clone(&shared),
            symbols: Symbols::default(),
        };
        let mut subscription = follower.load().await.map_err(|source| Error::Load { source })?;
        follower.catch_up(&mut subscription).await.map_err(|source| Error::Load { source })?;
        let mut tasks = Group::default();
        tasks.spawn("follow the store", follower.run(subscription));
        Ok(Self { store, extract, shared, tasks: Mutex::new(tasks) })
    }

    /// The newest visible revision.
    pub fn revision(&self) -> Revision {
        self.shared.applied()
    }

    /// Waits until everything up to a revision is visible. Returns [`Error::TooLarge`] if that takes longer than
    /// `wait`.
    pub async fn reach(&self, revision: Revision, wait: Duration) -> Result<(), Error> {
        self.shared.reach(revision, wait).await
    }

    /// Waits until everything that is committed by now, by any process, is visible. Returns the revision up to which
    /// it is.
    pub async fn catch_up(&self, wait: Duration) -> Result<Revision, Error> {
        let head = self.store.head();
        self.shared.reach(head, wait).await?;
        Ok(head)
    }

    /// The current object of a key. It includes at least every write that was committed through this state.
    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.shared.get(key)
    }

    /// The object of a resource by its namespace and name: [`get`](Self::get) without building a key.
    pub fn find(&self, resource: &Resource, namespace: Option<&str>, name: &str) -> Option<Arc<Object>> {
        let key = resource.key_text(namespace, name).ok()?;
        self.shared.table(resource.prefix())?.get(&key)
    }

    /// The visible objects of a scope.
    pub fn now(&self, scope: &Scope) -> Vec<Arc<Object>> {
        let (revision, objects) = self.shared.now(scope.resource());
        list::page(&objects, revision, scope, &ListOptions::default()).objects
    }

    /// The objects of a scope, in the order of their keys.
    ///
    /// [`Error::TooLarge`] if the requested revision does not become visible in time; [`Error::Expired`] if
    /// exactly that revision is no longer kept.
    pub async fn list(&self, scope: &Scope, options: ListOptions<'_>) -> Result<Page, Error> {
        let resource = scope.resource();
        let (revision, objects) = match options.want {
            RevisionWant::Any => self.shared.now(resource),
            RevisionWant::Latest => {
                self.catch_up(options.wait).await?;
                self.shared.now(resource)
            }
            RevisionWant::NotOlderThan(wanted) => {
                self.shared.reach(wanted, options.wait).await?;
                self.shared.now(resource)
            }
            RevisionWant::Exact(wanted) => {
                self.shared.reach(wanted, options.wait).await?;
                (wanted, self.shared.at(resource, wanted)?)
            }
        };
        Ok(list::page(&objects, revision, scope, &options))
    }

    /// The objects of a resource in key order and the revision of its last change; `None` if that is the revision
    /// that the caller has already seen. For callers that derive something from all objects of a resource and cache
    /// it until one changes: while none does, the call costs almost nothing.
    pub fn if_changed(&self, resource: &Resource, seen: Option<Revision>) -> Option<(Revision, Vec<Arc<Object>>)> {
        let head = self.shared.table(resource.prefix()).map(|table| table.head());
        let revision = head.as_ref().map_or(Revision(0), |head| head.revision);
        let objects = || head.iter().flat_map(|head| head.objects.from("")).cloned().collect();
        (seen != Some(revision)).then(|| (revision, objects()))
    }

    /// Watches a scope. A filter selects some of its objects: an object that begins to match is reported as added,
    /// one that stops matching as deleted. [`Error::Expired`] if changes after the revision are no longer kept.
    pub fn watch(&self, scope: &Scope, from: WatchFrom, filter: Option<Filter>) -> Result<Watch, Error> {
        Watch::new(&self.shared, scope, from, filter)
    }

    /// Calls the observer for every change from now on. The state holds it weakly: dropping the last other `Arc`
    /// unregisters it.
    pub fn observe<O: Observe + 'static>(&self, observer: &Arc<O>) {
        let observer: Arc<dyn Observe> = Arc::clone(observer) as _;
        self.shared.observers.add(Arc::downgrade(&observer));
    }

    /// How many objects have an owner reference to this uid.
    pub fn count_dependents(&self, uid: &str) -> usize {
        self.shared.count_dependents(uid)
    }

    /// The objects of all resources that have an owner reference to this uid.
    pub fn dependents(&self, uid: &str) -> Vec<Arc<Object>> {
        self.shared.dependents(uid)
    }

    /// Makes one write durable. Returns when every read sees it and every watch can deliver it.
    ///
    /// [`Error::Conflict`] if the object is not as expected, [`Error::Unreadable`] if the value is not an
    /// object; in both cases nothing has changed. After [`Error::Unseen`] and [`Error::Closed`] it may
    /// have. Dropping the future does not undo the write.
    pub async fn commit(&self, write: Write) -> Result<Committed, Error> {
        // Parsed before the commit: a value that cannot be served must not reach the store, and the follower need not
        // parse it again.
        let before = self.get(&write.key);
        let _guard = self.check(&write)?;
        let committed = self.store.commit(write.to_txn()).await;
        let revision = committed.map_err(|error| refused(&write.key, error))?;
        match self.shared.reach(revision, self.shared.limits.commit_wait).await {
            Err(Error::TooLarge { .. }) => return Err(Error::Unseen { revision }),
            reached => reached?,
        }
        let event = self.shared.table(write.key.resource_prefix()).and_then(|table| table.find(&write.key, revision));
        let object = match (event, &write.action) {
            (Some(event), _) => event.current.clone().or_else(|| event.departed()),
            // History is bounded: later writes have already pushed this change out of it.
            (None, Action::Put { value, .. }) => {
                // The same bytes parsed before the commit, so this fails only if the extractor is not deterministic.
                let reading = self.read(&write.key, value).map_err(|_| Error::Unseen { revision })?;
                Some(Arc::new(Object::new(write.key.clone(), revision, value, reading)))
            }
            (None, Action::Delete) => {
                let deleted = before.filter(|object| write.expect == Expect::Revision(object.revision()));
                deleted.map(|object| Arc::new(object.at_revision(revision)))
            }
        };
        Ok(Committed { revision, object })
    }

    /// Waits until the follower has ended, which it does when the store is closed, and returns its outcome. From then
    /// on nothing changes here. `None` if an earlier call has already returned the outcome.
    pub async fn ended(&self) -> Option<Ended<rdd_store::Error>> {
        self.tasks.lock().await.next().await
    }

    /// Parses the value of a put before it is committed, and caches the result for the follower.
    fn check<'a>(&'a self, write: &'a Write) -> Result<Option<Offer<'a>>, Error> {
        let Action::Put { value, .. } = &write.action else { return Ok(None) };
        let reading = self.read(&write.key, value)?;
        Ok(Some(self.shared.handover.offer(&write.key, value, reading)))
    }

    fn read(&self, key: &Key, json: &[u8]) -> Result<Reading, Error> {
        Reading::of(key, json, &*self.extract, &mut Symbols::default())
    }
}

fn refused(key: &Key, error: rdd_store::Error) -> Error {
    match error {
        rdd_store::Error::Conflict { actual, .. } => Error::Conflict { key: key.as_str().to_owned(), actual },
        rdd_store::Error::Closed => Error::Closed,
        source => Error::Store { source },
    }
}
