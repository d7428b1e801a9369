//! The verbs, one file each, over whatever resource a request names.

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
    /// Who has a say in writes.
    pub admission: Chain,
    /// The time.
    pub clock: SharedClock,
    /// Which writes must not meet.
    pub order: Order,
}

/// Keeps apart what must not meet: the end of a namespace or a change of a definition, and the storing of what was judged by
/// how they were before. The former waits for the latter, which is over as soon as the store has it; then nobody is in
/// between.
#[derive(Debug, Default)]
pub struct Order(pub(crate) tokio::sync::RwLock<()>);

impl Api {
    /// The time, as objects carry it.
    pub fn now(&self) -> Timestamp {
        Timestamp::from(self.clock.wall())
    }
}

/// What a request is about: a resource in a version, and perhaps a namespace, an object, a part of it.
#[derive(Debug, Clone)]
pub struct Target {
    /// The resource.
    pub def: Arc<ResourceDef>,
    /// Which of the resource's served versions.
    pub version: usize,
    /// None for what is in no namespace, and for all namespaces.
    pub namespace: Option<String>,
    /// None for a collection.
    pub name: Option<String>,
    /// Which of the version's subresources, if any.
    pub subresource: Option<usize>,
}

/// Who asks for a write, and how.
#[derive(Debug)]
pub struct Context {
    /// Who asks.
    pub user: Arc<Identity>,
    /// What owns the fields it sets: `fieldManager`, or else the beginning of the user agent.
    pub manager: String,
    /// The options of the request.
    pub options: WriteOptions,
    /// When the client stops waiting.
    pub deadline: Instant,
    /// What to tell the client beside the answer.
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

    /// The name of the subresource, or nothing.
    pub fn subresource_name(&self) -> &'static str {
        self.subresource().map_or("", |subresource| subresource.name)
    }

    /// The key of the object, or why there can be none.
    pub fn key(&self) -> Result<state::Key, Status> {
        let name = self.name.as_deref().unwrap_or_default();
        let not_found = || Status::not_found(&self.def.group_resource(), name);
        let storage = self.def.storage().ok_or_else(not_found)?;
        storage.key(self.namespace.as_deref(), name).map_err(|_| not_found())
    }

    /// The object as it is now, or that there is none.
    pub fn object(&self, state: &State) -> Result<Arc<state::Object>, Status> {
        let name = self.name.as_deref().unwrap_or_default();
        let found = self.def.storage().and_then(|storage| state.find(storage, self.namespace.as_deref(), name));
        found.ok_or_else(|| Status::not_found(&self.def.group_resource(), name))
    }

    /// The objects of the collection.
    pub fn scope(&self) -> Result<state::Scope, Status> {
        let not_found = || Status::not_found(&self.def.group_resource(), "");
        let storage = self.def.storage().ok_or_else(not_found)?;
        match &self.namespace {
            Some(namespace) => storage.within(namespace).map_err(|_| not_found()),
            None => Ok(storage.all()),
        }
    }
}
