//! What the server keeps in memory over the store: the objects now, as they were, and what changed.
//!
//! One task follows the store's events and makes them visible, revision by revision; nothing else does, so it does not
//! matter who wrote. Reads never wait for it and never parse: a list shares a snapshot, a watch is a cursor in the
//! history of its resource, and all of them share the objects and their bytes.
//!
//! All resources share the store's revision. What is read together with revision R holds everything up to R of its
//! resource and nothing after.

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

/// The state of the server. Dropping it ends its task and all watches; the store stays open.
#[derive(Debug)]
pub struct State {
    store: Arc<dyn Store>,
    extract: Arc<dyn Extract>,
    shared: Arc<Shared>,
    tasks: Mutex<Group<rdd_store::Error>>,
}

impl State {
    /// Loads all objects and the history that the store has kept, and follows the store from then on. When it returns,
    /// everything is visible that had been committed when it was called, and a watch can resume after any revision from
    /// the store's compaction horizon on.
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

    /// The newest revision that is visible.
    pub fn revision(&self) -> Revision {
        self.shared.applied()
    }

    /// Waits until everything up to a revision is visible, or refuses it as [`Error::TooLarge`] when the time is over.
    pub async fn reach(&self, revision: Revision, wait: Duration) -> Result<(), Error> {
        self.shared.reach(revision, wait).await
    }

    /// Waits until everything is visible that has been committed by now, by whomever, and says up to which revision.
    pub async fn catch_up(&self, wait: Duration) -> Result<Revision, Error> {
        let head = self.store.head();
        self.shared.reach(head, wait).await?;
        Ok(head)
    }

    /// The object of a key, with at least everything that was committed through this state.
    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.shared.get(key)
    }

    /// The object of a resource by its namespace and name; the same as [`get`](Self::get) by its key, without making one.
    pub fn find(&self, resource: &Resource, namespace: Option<&str>, name: &str) -> Option<Arc<Object>> {
        let key = resource.key_text(namespace, name).ok()?;
        self.shared.table(resource.prefix())?.get(&key)
    }

    /// All objects of a scope that are visible now.
    pub fn now(&self, scope: &Scope) -> Vec<Arc<Object>> {
        let (revision, objects) = self.shared.now(scope.resource());
        list::page(&objects, revision, scope, &ListOptions::default()).objects
    }

    /// The objects of a scope, in the order of their keys.
    ///
    /// [`Error::TooLarge`] if the revision asked for does not happen in time; [`Error::Expired`] if exactly that revision
    /// is no longer kept.
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

    /// The objects of a resource in the order of their keys, and the revision of its last change, unless that is the one that
    /// the caller has seen. For those who derive something from all objects of a resource and keep it until one changes: it
    /// costs next to nothing while none does.
    pub fn if_changed(&self, resource: &Resource, seen: Option<Revision>) -> Option<(Revision, Vec<Arc<Object>>)> {
        let head = self.shared.table(resource.prefix()).map(|table| table.head());
        let revision = head.as_ref().map_or(Revision(0), |head| head.revision);
        let objects = || head.iter().flat_map(|head| head.objects.from("")).cloned().collect();
        (seen != Some(revision)).then(|| (revision, objects()))
    }

    /// Watches a scope. A filter sees only some of its objects: those that come into its view are added to it, those that
    /// leave it are deleted from it. [`Error::Expired`] if changes after the revision are no longer kept.
    pub fn watch(&self, scope: &Scope, from: WatchFrom, filter: Option<Filter>) -> Result<Watch, Error> {
        Watch::new(&self.shared, scope, from, filter)
    }

    /// Tells someone of every change from now on, as long as they are there.
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

    /// Makes one write durable, and returns when it is visible to every read and told to every watch.
    ///
    /// [`Error::Conflict`] if the object is not as expected, [`Error::Unreadable`] if the value is no object; then nothing
    /// has changed. After [`Error::Unseen`] and [`Error::Closed`] it may have. Dropping the future does not undo it.
    pub async fn commit(&self, write: Write) -> Result<Committed, Error> {
        let before = self.get(&write.key);
        let _offer = self.check(&write)?;
        let committed = self.store.commit(write.to_txn()).await;
        let revision = committed.map_err(|error| refused(&write.key, error))?;
        match self.shared.reach(revision, self.shared.limits.commit_wait).await {
            Err(Error::TooLarge { .. }) => return Err(Error::Unseen { revision }),
            reached => reached?,
        }
        let told = self.shared.table(write.key.resource_prefix()).and_then(|table| table.find(&write.key, revision));
        let object = match (told, &write.action) {
            (Some(event), _) => event.current.clone().or_else(|| event.departed()),
            // So much was written since that history has let go of it.
            (None, Action::Put { value, .. }) => {
                // It could be read before it was committed.
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

    /// Waits until the task that follows the store has ended, which it does when the store is closed, and says how.
    /// From then on nothing changes here. `None` if that was told before.
    pub async fn ended(&self) -> Option<Ended<rdd_store::Error>> {
        self.tasks.lock().await.next().await
    }

    /// Reads what a put would write before anything is written, and hands it to the follower.
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
