//! What a synchronization works with: the engine, the mirrors, and operations that update a mirror.

use std::sync::Arc;

use rdd_docker::Engine;
use rdd_runtime::{Context, Error, Key, cache::Cached};

use super::{
    link::Link,
    mirror::{self, Mirror, Mirrors, has_finalizer, is_deleting, is_removed},
    tags::Tags,
};

/// The context of all synchronizations of one connection.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) engine: Engine,
    pub(super) namespace: String,
    pub(super) cx: Context,
    pub(super) link: Link,
    pub(super) mirrors: Mirrors,
    pub(super) tags: Tags,
}

/// The key of the mirror with this name.
impl Desk {
    pub(super) fn key(&self, name: &str) -> Key {
        Key::namespaced(&self.namespace, name)
    }

    pub(super) fn known<K: Mirror>(&self, cache: &Cached<K>, name: &str) -> Option<Arc<K>> {
        cache.get(&self.key(name))
    }

    /// Creates or updates the mirror with this name so that it has this status. Writes nothing if it has; leaves a mirror alone that is
    /// being deleted.
    pub(super) async fn put<K: Mirror>(&self, name: &str, known: Option<&K>, status: &K::Status) -> Result<(), Error> {
        if known.is_some_and(is_deleting) {
            return Ok(());
        }
        if let Some(object) = known.filter(|object| is_removed(*object)) {
            // A process that died has started to remove it. A new mirror follows when it is gone.
            return self.remove(object).await;
        }
        // A mirror without our finalizer could disappear before its thing is deleted.
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

    /// Removes the mirror of a thing that no longer exists, if this controller owns the mirror.
    pub(super) async fn remove<K: Mirror>(&self, known: &K) -> Result<(), Error> {
        if known.is_ours() || (is_deleting(known) && has_finalizer(known)) {
            mirror::remove(&self.cx, known).await?;
        }
        Ok(())
    }

    /// Removes our finalizer from a mirror that is being deleted, after its thing is gone.
    pub(super) async fn release<K: Mirror>(&self, known: &K) -> Result<(), Error> {
        self.cx.step("release-mirror", mirror::release(&self.cx, known)).await
    }

    /// Deletes a thing from the engine. The engine's error names the kind and the name.
    pub(super) async fn remove_thing(
        &self,
        removal: impl Future<Output = Result<(), rdd_docker::Error>>,
    ) -> Result<(), Error> {
        let removal = async { removal.await.map_err(|error| Error::because("delete it from the engine", error)) };
        self.cx.step("remove-thing", removal).await
    }
}

/// Wraps an error of the engine.
pub(super) fn engine_error(error: rdd_docker::Error) -> Error {
    Error::because("ask the engine", error)
}
