//! What a look at one thing has at hand: the engine, the mirrors, and how a mirror is brought up to date.

use std::sync::Arc;

use rdd_docker::Engine;
use rdd_runtime::{Context, Error, Key, cache::Cached};

use super::{
    link::Link,
    mirror::{self, Mirror, Mirrors, has_finalizer, is_deleting, is_removed},
    tags::Tags,
};

/// What a look at one thing has at hand, for as long as a connection stands.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) engine: Engine,
    pub(super) namespace: String,
    pub(super) cx: Context,
    pub(super) link: Link,
    pub(super) mirrors: Mirrors,
    pub(super) tags: Tags,
}

impl Desk {
    pub(super) fn key(&self, name: &str) -> Key {
        Key::namespaced(&self.namespace, name)
    }

    pub(super) fn known<K: Mirror>(&self, cache: &Cached<K>, name: &str) -> Option<Arc<K>> {
        cache.get(&self.key(name))
    }

    /// Makes the mirror of this name say this, and nothing if it does. One that is being deleted is left to its end.
    pub(super) async fn put<K: Mirror>(&self, name: &str, known: Option<&K>, status: &K::Status) -> Result<(), Error> {
        if known.is_some_and(is_deleting) {
            return Ok(());
        }
        if let Some(object) = known.filter(|object| is_removed(*object)) {
            // Somebody who died had begun to; when it is gone, there will be a new one.
            return self.remove(object).await;
        }
        let object = match known.filter(|object| has_finalizer(*object)) {
            Some(object) => object.clone(),
            None => {
                let key = self.key(name);
                let creation = mirror::create::<K>(&self.cx, &key, known.is_none());
                self.cx.step("create-mirror", creation).await?
            }
        };
        if object.says(status) {
            return Ok(());
        }
        self.cx.step("write-mirror", self.cx.apply_status(&object, status)).await.map(drop)
    }

    /// Removes the mirror of what is gone, if it is ours.
    pub(super) async fn remove<K: Mirror>(&self, known: &K) -> Result<(), Error> {
        if known.is_ours() || (is_deleting(known) && has_finalizer(known)) {
            mirror::remove(&self.cx, known).await?;
        }
        Ok(())
    }

    /// Lets go of a mirror that is being deleted, after what it stands for is gone.
    pub(super) async fn release<K: Mirror>(&self, known: &K) -> Result<(), Error> {
        self.cx.step("release-mirror", mirror::release(&self.cx, known)).await
    }

    /// Removes something from the engine, of which the error names kind and name.
    pub(super) async fn remove_thing(
        &self,
        removal: impl Future<Output = Result<(), rdd_docker::Error>>,
    ) -> Result<(), Error> {
        let removal = async { removal.await.map_err(|error| Error::because("delete it from the engine", error)) };
        self.cx.step("remove-thing", removal).await
    }
}

/// What the engine said, as an error of the runtime.
pub(super) fn engine_error(error: rdd_docker::Error) -> Error {
    Error::because("ask the engine", error)
}
