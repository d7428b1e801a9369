//! Admission: a chain of plug-ins, webhooks among them, that may change or refuse a write before it is stored.

pub mod lifecycle;
#[cfg(test)]
mod testing;
mod warnings;
pub mod webhook;

use std::{fmt::Debug, future::Future, pin::Pin, sync::Arc, time::Duration};

use rdd_meta::{
    Status,
    gvk::{GroupVersionKind, GroupVersionResource},
    metadata::Metadata,
};
use serde_json::Value;
use tokio::time::Instant;

pub use self::warnings::Warnings;
use crate::auth::Identity;

/// The operation of a request, as admission sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// An object is created.
    Create,
    /// An object is changed.
    Update,
    /// An object is deleted.
    Delete,
    /// A client connects to a subresource.
    Connect,
}

impl Operation {
    /// The name of the operation in webhook rules and AdmissionReviews.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A write on its way to the store, as plug-ins see it. Mirrors upstream's `admission.Attributes`.
#[derive(Debug)]
pub struct Attributes<'a> {
    /// The operation.
    pub operation: Operation,
    /// The kind of the object in the version of the request; for a subresource with a kind of its own, that kind.
    pub kind: &'a GroupVersionKind,
    /// The resource in the version of the request.
    pub resource: &'a GroupVersionResource,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty if the server still has to generate a name, and for a delete of a collection.
    pub name: &'a str,
    /// `None` for cluster-scoped objects.
    pub namespace: Option<&'a str>,
    /// The new object as it would be stored, with its resourceVersion if it has one. `None` for a delete.
    pub object: Option<Value>,
    /// The stored object. `None` for a create.
    pub old: Option<Arc<Value>>,
    /// CreateOptions, UpdateOptions, PatchOptions or DeleteOptions, with their type.
    pub options: &'a Value,
    /// Whether this is a dry run, which stores nothing.
    pub dry_run: bool,
    /// The authenticated user.
    pub user: &'a Identity,
    /// When the client stops waiting.
    pub deadline: Instant,
    /// Warnings for the client.
    pub warnings: &'a Warnings,
}

impl Attributes<'_> {
    /// 403 about the object; `why` completes "… is forbidden: …". Mirrors `admission.NewForbidden`: an object without
    /// a name is named by its generateName.
    pub fn forbidden(&self, why: &str) -> Status {
        let metadata = self.object.as_ref().map(Metadata::of);
        let named = metadata.map(|metadata| [metadata.name(), metadata.generate_name()]);
        let names = [self.name].into_iter().chain(named.into_iter().flatten());
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        Status::forbidden_resource(&self.resource.group_resource(), name, why)
    }

    /// The namespace of the request. For a Namespace it is its own name, once it has one. Empty if there is none.
    pub fn request_namespace(&self) -> &str {
        let is_namespace = self.resource.group.is_empty() && self.resource.resource == "namespaces";
        match self.namespace {
            Some(namespace) => namespace,
            None if is_namespace && self.operation != Operation::Create => self.name,
            None => "",
        }
    }
}

/// The future that a plug-in's method returns.
pub type Judgement<'f> = Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'f>>;

/// Normalizes an object that a plug-in changed: [`Kind::decode`](crate::registry::Kind::decode) of
/// its version.
pub type Reform<'f> = &'f (dyn Fn(&mut Value) -> Result<(), Status> + Send + Sync);

/// An admission plug-in.
///
/// The chain calls [`mutate`](Self::mutate) of every plug-in that handles the request, in order, then
/// [`validate`](Self::validate) of each, and [`confirm`](Self::confirm) once more while the
/// object is stored. The first error ends the request: the client receives it as the response.
pub trait Admit: Debug + Send + Sync {
    /// Whether the plug-in handles this request at all. Must be fast: the chain calls it for every write.
    fn handles(&self, attributes: &Attributes<'_>) -> bool;

    /// Whether the plug-in never changes an object, so that the caller need not keep a copy from before it.
    fn only_judges(&self) -> bool {
        false
    }

    /// May change `attributes.object`. A plug-in passes what it changed through `normalize` before it returns.
    fn mutate<'f>(&'f self, _attributes: &'f mut Attributes<'_>, _normalize: Reform<'f>) -> Judgement<'f> {
        Box::pin(async { Ok(()) })
    }

    /// Checks again the state that a create depends on, at the moment in which the object is stored: that state
    /// cannot change any more. The object itself is not available. Must be fast; only called if
    /// [`handles`](Self::handles) returned true.
    fn confirm(&self, _attributes: &Attributes<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Checks the final object. Cannot change it.
    fn validate<'f>(&'f self, _attributes: &'f Attributes<'_>) -> Judgement<'f> {
        Box::pin(async { Ok(()) })
    }
}

/// The plug-ins, in order.
#[derive(Debug, Default)]
pub struct Chain {
    plugins: Vec<Arc<dyn Admit>>,
}

/// The maximum time that a write may spend in admission, webhooks included.
pub const TIME_MAX: Duration = Duration::from_secs(34);

impl Chain {
    /// A chain of these plug-ins.
    pub fn new(plugins: Vec<Arc<dyn Admit>>) -> Self {
        Self { plugins }
    }

    /// Whether there are no plug-ins.
    pub fn is_empty(&self) -> bool {
        self.plugins.is_empty()
    }

    /// Calls `mutate` of every plug-in that handles the request, in order. Before each plug-in that may change the
    /// object, `before_change` is called with the attributes.
    pub async fn mutate(
        &self,
        attributes: &mut Attributes<'_>,
        normalize: Reform<'_>,
        before_change: &mut (dyn FnMut(&Attributes<'_>) + Send),
    ) -> Result<(), Status> {
        for plugin in &self.plugins {
            if plugin.handles(attributes) {
                if !plugin.only_judges() {
                    before_change(attributes);
                }
                plugin.mutate(attributes, normalize).await?;
            }
        }
        Ok(())
    }

    /// Calls `confirm` of every plug-in that handles the request, in order.
    pub fn confirm(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let mut handling = self.plugins.iter().filter(|plugin| plugin.handles(attributes));
        handling.try_for_each(|plugin| plugin.confirm(attributes))
    }

    /// Calls `validate` of every plug-in that handles the request, in order.
    pub async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        for plugin in &self.plugins {
            if plugin.handles(attributes) {
                plugin.validate(attributes).await?;
            }
        }
        Ok(())
    }
}
