//! Controllers that install the kinds of the container engine, check writes to them, and set the conditions of containers. The engine
//! controller mirrors the engine into objects of these kinds.

mod admission;
mod container;

use std::{fmt, marker::PhantomData, sync::Arc};

use rdd_runtime::{Context, Declaration, Error, Kind, Plan, admission::Webhook};
use rdd_types::containers::{ContainerNamespace, Image, Volume};
use serde::Serialize;

pub use self::container::{Controller as Containers, NAME as CONTAINER, Step};

/// The controllers' group in `--controllers`.
pub const GROUP: &str = "containers";
/// The name of the controller of container namespaces.
pub const CONTAINER_NAMESPACE: &str = "containernamespace";
/// The name of the controller of images.
pub const IMAGE: &str = "image";
/// The name of the controller of volumes.
pub const VOLUME: &str = "volume";

/// A controller that only installs a kind, and its webhook, if any.
pub struct Defined<K> {
    name: &'static str,
    webhook: Option<fn() -> Webhook>,
    kind: PhantomData<fn() -> K>,
}

impl<K> fmt::Debug for Defined<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Defined").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Defined<ContainerNamespace> {
    /// Installs ContainerNamespace.
    pub fn container_namespaces() -> Self {
        Self { name: CONTAINER_NAMESPACE, webhook: Some(admission::container_namespace), kind: PhantomData }
    }
}

impl Defined<Image> {
    /// Installs Image and the kinds of requests about images.
    pub fn images() -> Self {
        Self { name: IMAGE, webhook: None, kind: PhantomData }
    }
}

impl Defined<Volume> {
    /// Installs Volume and the kind of requests for a new one.
    pub fn volumes() -> Self {
        Self { name: VOLUME, webhook: None, kind: PhantomData }
    }
}

/// The step type of a controller without steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nothing {}

impl rdd_runtime::Step for Nothing {
    const ALL: &'static [&'static str] = &[];

    fn name(&self) -> &'static str {
        match *self {}
    }
}

impl<K: Kind + Serialize> rdd_runtime::Controller for Defined<K> {
    type Object = K;
    type Observed = ();
    type Step = Nothing;

    fn declaration(&self) -> Declaration {
        let declaration = Declaration::new(self.name, GROUP).crds(rdd_types::crds_of(self.name));
        match self.webhook {
            Some(webhook) => declaration.webhook(webhook()),
            None => declaration,
        }
    }

    async fn observe(&self, _: Arc<K>, _: &Context) -> Result<(), Error> {
        Ok(())
    }

    fn plan(&self, (): &()) -> Plan<Nothing> {
        Plan::nothing()
    }

    async fn act(&self, step: &Nothing, (): &(), _: &Context) -> Result<(), Error> {
        match *step {}
    }
}
