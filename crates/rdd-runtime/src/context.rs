//! The context that a controller gets for each reconcile: client, caches, clock and events.

use std::{fmt, sync::Arc};

use kube::{Client, Resource};
use rdd_stdx::clock::SharedClock;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    Error, Key, Kind, apply,
    cache::{Cached, Caches},
    events::Events,
    finalizer,
    probe::Points,
    queue::Queue,
};

/// The services that the runtime gives to a controller, for reconciles and background tasks. Cheap to clone.
///
/// In a reconcile it also knows the key of the reconciled object ([`trigger`](Self::trigger)). Background tasks and
/// [`Controller::stop`](crate::Controller::stop) get a context without a key.
#[derive(Clone)]
pub struct Context {
    /// The client of the Kubernetes API.
    pub client: Client,
    /// The clock; tests use a manual one.
    pub clock: SharedClock,
    /// Publishes Kubernetes events.
    pub events: Events,
    /// Cancelled when the manager begins to stop.
    pub shutdown: CancellationToken,
    pub(crate) controller: Arc<Identity>,
    pub(crate) caches: Caches,
    pub(crate) queue: Arc<Queue>,
    pub(crate) key: Option<Key>,
    pub(crate) points: Points,
}

/// The controller's name, and the names that it leaves in objects.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) name: &'static str,
    pub(crate) field_manager: String,
    pub(crate) finalizer: Option<&'static str>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("controller", &self.controller.name).field("key", &self.key).finish()
    }
}

impl Context {
    /// The shared cache of a kind. If no declaration watches the kind, the first call starts its watch, and the cache is empty until the
    /// first list has arrived.
    pub fn cached<K: Kind>(&self) -> Cached<K> {
        self.caches.get::<K>()
    }

    /// A handle that enqueues the object of this reconcile from any task at any time, for example on an event of a driver.
    /// Outside of a reconcile there is no such object, and the trigger does nothing.
    pub fn trigger(&self) -> Trigger {
        Trigger { queue: Arc::clone(&self.queue), key: self.key.clone() }
    }

    /// Enqueues an object of this controller.
    pub fn wake(&self, key: Key) {
        self.queue.wake(key);
    }

    /// Runs a step with this name, one of [`Step::ALL`](crate::Step::ALL), with a kill point before and after it. An error gets the name
    /// of the step as context. The runtime runs the steps of a plan with it; a background task calls it itself.
    pub async fn step<T>(&self, step: &'static str, doing: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        // Boxed: each wrapping future would otherwise contain the inner one twice.
        let doing = Box::pin(doing);
        let named = async { doing.await.map_err(|source| Error::Step { step, source: Box::new(source) }) };
        self.points.around(self.controller.name, step, named).await
    }

    /// The field manager of this controller's server-side applies.
    pub fn field_manager(&self) -> &str {
        &self.controller.field_manager
    }

    /// Applies a status as the controller's field manager. Fields that it applied before and leaves out now are removed; fields of other
    /// managers stay. The cache sees the result at once.
    ///
    /// # Errors
    /// When the API refuses the write, or when the object was deleted and recreated meanwhile: the uid is part of the apply.
    pub async fn apply_status<K: Kind>(&self, object: &K, status: &impl Serialize) -> Result<K, Error> {
        let applied = apply::status(&self.client, self.field_manager(), object, status).await?;
        self.caches.get::<K>().offer(&applied);
        Ok(applied)
    }

    /// Applies an object as the controller's field manager, with force: it takes over fields that others own. The cache sees the result
    /// at once.
    pub async fn apply<K: Kind + Serialize>(&self, object: &K) -> Result<K, Error> {
        let applied = apply::object(&self.client, self.field_manager(), object).await?;
        self.caches.get::<K>().offer(&applied);
        Ok(applied)
    }

    /// Removes the declared finalizer from an object, so that the server can delete it. Does nothing if it is already removed.
    pub async fn release<K: Kind>(&self, object: &K) -> Result<(), Error> {
        match self.controller.finalizer {
            Some(finalizer) => finalizer::release(&self.client, object, finalizer).await.map(drop),
            None => Ok(()),
        }
    }

    /// An owner reference to `owner`, as the controller, with `blockOwnerDeletion`: it blocks the owner's foreground deletion.
    pub fn owner_reference<K: Resource<DynamicType = ()>>(
        owner: &K,
    ) -> Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference> {
        // `None` for an owner without a uid, which is not stored yet.
        let mut reference = owner.controller_owner_ref(&())?;
        reference.block_owner_deletion = Some(true);
        Some(reference)
    }
}

/// Enqueues one object. Cheap to clone. No call is lost, and any number of calls before the next reconcile cause only one.
#[derive(Debug, Clone)]
pub struct Trigger {
    queue: Arc<Queue>,
    key: Option<Key>,
}

impl Trigger {
    /// Enqueues the object; does nothing if the context had no object.
    pub fn wake(&self) {
        if let Some(key) = &self.key {
            self.queue.wake(key.clone());
        }
    }
}
