//! Changes that the server itself makes to stored CustomResourceDefinitions, with retries against concurrent writers.

use std::sync::Arc;

use rdd_meta::metadata::{Metadata, MetadataMut};
use rdd_store::Expect;
use serde_json::Value;

use super::{definitions::Definitions, strategy::CLEANUP_FINALIZER};
use crate::{
    registry::form,
    state::{self, Object, State, Write},
};

/// Why a change to a definition failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum AmendError {
    #[error("read a stored CustomResourceDefinition")]
    Read(#[source] serde_json::Error),
    #[error("store a CustomResourceDefinition")]
    Store(#[source] state::Error),
}

/// Writes changes to definitions that only the server may make. When a method returns, the registry reflects the change.
#[derive(Debug, Clone)]
pub(super) struct Amender {
    definitions: Arc<Definitions>,
}

impl Amender {
    pub(super) fn new(definitions: Arc<Definitions>) -> Self {
        Self { definitions }
    }

    pub(super) fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// Reads the stored definition.
    pub(super) fn get(&self, name: &str) -> Option<Arc<Object>> {
        let key = self.definitions.resource().key(None, name).ok()?;
        self.state().get(&key)
    }

    /// Changes a definition. It calls `edit` again after a conflict with another writer, and writes nothing if `edit` changes nothing
    /// or the definition is gone.
    pub(super) async fn amend(&self, name: &str, edit: impl Fn(&mut Value)) -> Result<(), AmendError> {
        self.write(name, |definition| {
            edit(definition);
            true
        })
        .await
    }

    /// Applies a last change and removes the cleanup finalizer. A terminating definition without other finalizers is deleted.
    pub(super) async fn release(&self, name: &str, edit: impl Fn(&mut Value)) -> Result<(), AmendError> {
        self.write(name, |definition| {
            edit(definition);
            let metadata = Metadata::of(definition);
            let is_terminating = metadata.is_terminating();
            let finalizers: Vec<String> = metadata.finalizers().into_iter().map(str::to_owned).collect();
            let others: Vec<&String> = finalizers.iter().filter(|finalizer| *finalizer != CLEANUP_FINALIZER).collect();
            if let Some(mut metadata) = MetadataMut::of(definition) {
                metadata.set_finalizers(&others);
            }
            !(is_terminating && others.is_empty())
        })
        .await
    }

    /// Commits the result of `edit`, which returns whether the definition stays.
    async fn write(&self, name: &str, edit: impl Fn(&mut Value) -> bool) -> Result<(), AmendError> {
        loop {
            let Some(object) = self.get(name) else { return Ok(()) };
            let before: Value = serde_json::from_slice(object.wire()).map_err(AmendError::Read)?;
            let mut definition = before.clone();
            let stays = edit(&mut definition);
            if stays && definition == before {
                return Ok(());
            }
            // The commit fails if another writer changed the definition since it was read.
            let expect = Expect::Revision(object.revision());
            let write = if stays {
                // The state sets the new version itself; stored objects have none.
                if let Some(mut metadata) = MetadataMut::of(&mut definition) {
                    metadata.set_resource_version("");
                }
                Write::put(object.key().clone(), expect, form::write(&definition))
            } else {
                Write::delete(object.key().clone(), expect)
            };
            match self.state().commit(write).await {
                Ok(_) => {
                    self.definitions.sync(name);
                    return Ok(());
                }
                // A conflict means that another writer succeeded, so the writers together make progress and the loop ends.
                Err(state::Error::Conflict { .. }) => {}
                Err(error) => return Err(AmendError::Store(error)),
            }
        }
    }

    pub(super) fn state(&self) -> &State {
        self.definitions.state()
    }
}
