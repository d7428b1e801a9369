//! What a controller has at hand while it works on one object.

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

/// What a controller has at hand. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The API.
    pub client: Client,
    /// Where time comes from.
    pub clock: SharedClock,
    /// Tells people what happened.
    pub events: Events,
    /// Cancelled when the process begins to end.
    pub shutdown: CancellationToken,
    pub(crate) controller: Arc<Identity>,
    pub(crate) caches: Caches,
    pub(crate) queue: Arc<Queue>,
    pub(crate) key: Option<Key>,
    pub(crate) points: Points,
}

/// Who the controller is to others.
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
    /// The shared cache of a kind. One that no declaration names begins to fill only now.
    pub fn cached<K: Kind>(&self) -> Cached<K> {
        self.caches.get::<K>()
    }

    /// Wakes the object that is worked on, from anywhere and at any time: what a driver's events are connected to.
    /// Outside of a reconcile there is no such object, and the trigger does nothing.
    pub fn trigger(&self) -> Trigger {
        Trigger { queue: Arc::clone(&self.queue), key: self.key.clone() }
    }

    /// Wakes an object of this controller.
    pub fn wake(&self, key: Key) {
        self.queue.wake(key);
    }

    /// Takes a step of this name, one of [`Step::ALL`](crate::Step::ALL): with a place before and after it at which tests let the process die, and
    /// with its name in the error. The steps of a plan are taken like this; a task of the controller that works beside the reconciles calls it itself.
    pub async fn step<T>(&self, step: &'static str, doing: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        // In a box: each future around another would hold it twice.
        let doing = Box::pin(doing);
        let named = async { doing.await.map_err(|source| Error::Step { step, source: Box::new(source) }) };
        self.points.around(self.controller.name, step, named).await
    }

    /// The field manager of what this controller applies.
    pub fn field_manager(&self) -> &str {
        &self.controller.field_manager
    }

    /// Applies a status as the controller's own field owner: what it applied before and leaves out now goes, what others apply
    /// stays. It fails if the object was deleted and made anew meanwhile.
    pub async fn apply_status<K: Kind>(&self, object: &K, status: &impl Serialize) -> Result<K, Error> {
        let applied = apply::status(&self.client, self.field_manager(), object, status).await?;
        self.caches.get::<K>().offer(&applied);
        Ok(applied)
    }

    /// Applies an object as the controller's own field owner, over what others say about the same fields.
    pub async fn apply<K: Kind + Serialize>(&self, object: &K) -> Result<K, Error> {
        let applied = apply::object(&self.client, self.field_manager(), object).await?;
        self.caches.get::<K>().offer(&applied);
        Ok(applied)
    }

    /// Takes the declared finalizer off an object, which is then free to go. Nothing happens if it is off already.
    pub async fn release<K: Kind>(&self, object: &K) -> Result<(), Error> {
        match self.controller.finalizer {
            Some(finalizer) => finalizer::release(&self.client, object, finalizer).await.map(drop),
            None => Ok(()),
        }
    }

    /// A reference by which `owner` owns what it creates: as its controller, holding up the owner's deletion in the foreground.
    pub fn owner_reference<K: Resource<DynamicType = ()>>(
        owner: &K,
    ) -> Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference> {
        let mut reference = owner.controller_owner_ref(&())?;
        reference.block_owner_deletion = Some(true);
        Some(reference)
    }
}

/// Wakes one object. Cheap to clone; a wake-up is never lost, and a thousand before the next look are one.
#[derive(Debug, Clone)]
pub struct Trigger {
    queue: Arc<Queue>,
    key: Option<Key>,
}

impl Trigger {
    /// Wakes it.
    pub fn wake(&self) {
        if let Some(key) = &self.key {
            self.queue.wake(key.clone());
        }
    }
}
