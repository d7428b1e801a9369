//! The verbs, one file each, over the resource that a request names.

mod apply;
mod create;
mod decode;
mod delete;
mod delete_collection;
mod error;
pub mod get;
pub mod handler;
pub mod list;
pub mod local;
mod patch;
mod rescale;
pub mod resolve;
pub mod scale;
mod selection;
mod update;
pub mod watch;
mod writing;

use std::sync::Arc;

use rdd_meta::{Status, options::WriteOptions, time::Timestamp};
use rdd_stdx::clock::SharedClock;
use tokio::time::Instant;

use crate::{
    admission::{Chain, Warnings},
    auth::Identity,
    registry::{Registry, ResourceDef, SubresourceDef, VersionDef},
    state::{self, State},
};

pub use self::{
    create::create,
    delete::{Deleted, delete},
    delete_collection::delete_collection,
    get::get,
    list::list,
    patch::{PatchType, patch},
    update::update,
    watch::watch,
    writing::{Content, Written},
};

/// What all handlers share.
#[derive(Debug)]
pub struct Api {
    /// The objects.
    pub state: Arc<State>,
    /// The resources.
    pub registry: Arc<Registry>,
    /// The admission chain for writes.
    pub admission: Chain,
    /// The clock.
    pub clock: SharedClock,
    /// Orders writes that affect how other writes are validated.
    pub order: Order,
}

/// Orders writes against changes of what they are validated against: a namespace that ends, a definition that changes. A commit
/// of a Namespace or definition takes the lock for writing and waits for other commits, which take it for reading and recheck
/// their namespace and definition under it. Each holds the lock only until the store has committed, so no write falls between
/// the check and the change.
#[derive(Debug, Default)]
pub struct Order(pub(crate) tokio::sync::RwLock<()>);

impl Api {
    /// The current time, as objects carry it.
    pub fn now(&self) -> Timestamp {
        Timestamp::from(self.clock.wall())
    }
}

/// The target of a request: a resource in a version, and optionally a namespace, an object and a subresource.
#[derive(Debug, Clone)]
pub struct Target {
    /// The resource.
    pub def: Arc<ResourceDef>,
    /// Index of the version in the versions of the resource.
    pub version: usize,
    /// `None` for a cluster-scoped resource, and for all namespaces.
    pub namespace: Option<String>,
    /// `None` for a collection.
    pub name: Option<String>,
    /// Index of the subresource in the subresources of the version.
    pub subresource: Option<usize>,
}

/// The user and the options of a write.
#[derive(Debug)]
pub struct Context {
    /// The authenticated user.
    pub user: Arc<Identity>,
    /// The field manager: `fieldManager`, or else the beginning of the user agent.
    pub manager: String,
    /// The options of the request.
    pub options: WriteOptions,
    /// When the client stops waiting.
    pub deadline: Instant,
    /// Warnings for the client.
    pub warnings: Warnings,
}

impl Target {
    /// The version.
    pub fn version(&self) -> &VersionDef {
        &self.def.versions[self.version]
    }

    /// The subresource.
    pub fn subresource(&self) -> Option<&SubresourceDef> {
        self.subresource.map(|at| &self.version().subresources[at])
    }

    /// The name of the subresource; empty if there is none.
    pub fn subresource_name(&self) -> &'static str {
        self.subresource().map_or("", |subresource| subresource.name)
    }

    /// The key of the object. A name that cannot be a key is 404.
    pub fn key(&self) -> Result<state::Key, Status> {
        let name = self.name.as_deref().unwrap_or_default();
        let not_found = || Status::not_found(&self.def.group_resource(), name);
        let storage = self.def.storage().ok_or_else(not_found)?;
        storage.key(self.namespace.as_deref(), name).map_err(|_| not_found())
    }

    /// The current object, or 404.
    pub fn object(&self, state: &State) -> Result<Arc<state::Object>, Status> {
        let name = self.name.as_deref().unwrap_or_default();
        let found = self.def.storage().and_then(|storage| state.find(storage, self.namespace.as_deref(), name));
        found.ok_or_else(|| Status::not_found(&self.def.group_resource(), name))
    }

    /// The keys of the collection: one namespace, or all objects.
    pub fn scope(&self) -> Result<state::Scope, Status> {
        let not_found = || Status::not_found(&self.def.group_resource(), "");
        let storage = self.def.storage().ok_or_else(not_found)?;
        match &self.namespace {
            Some(namespace) => storage.within(namespace).map_err(|_| not_found()),
            None => Ok(storage.all()),
        }
    }
}
