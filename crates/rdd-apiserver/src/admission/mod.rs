//! Who may change or refuse a write before it is stored: a chain of plug-ins, webhooks among them.

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

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Made.
    Create,
    /// Changed.
    Update,
    /// Deleted.
    Delete,
    /// Connected to.
    Connect,
}

impl Operation {
    /// The word that rules and reviews have for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A write on its way to the store, as plug-ins see it.
#[derive(Debug)]
pub struct Attributes<'a> {
    /// What is being done.
    pub operation: Operation,
    /// The kind of the object in the version of the request; for a subresource with a kind of its own, that kind.
    pub kind: &'a GroupVersionKind,
    /// The resource in the version of the request.
    pub resource: &'a GroupVersionResource,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty if a name is still to be generated, and for a delete of many.
    pub name: &'a str,
    /// None for what is in no namespace.
    pub namespace: Option<&'a str>,
    /// As it would be stored; none for a delete. With its resourceVersion where it has one.
    pub object: Option<Value>,
    /// As it is stored; none for a create.
    pub old: Option<Arc<Value>>,
    /// CreateOptions, UpdateOptions, PatchOptions or DeleteOptions, with their type.
    pub options: &'a Value,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// Who asks.
    pub user: &'a Identity,
    /// When the client stops waiting.
    pub deadline: Instant,
    /// What to tell the client beside the answer.
    pub warnings: &'a Warnings,
}

impl Attributes<'_> {
    /// 403 about the object; `why` completes "… is forbidden: …". Mirrors `admission.NewForbidden`: an object whose name is
    /// still to be generated is named by what its name will begin with.
    pub fn forbidden(&self, why: &str) -> Status {
        let metadata = self.object.as_ref().map(Metadata::of);
        let named = metadata.map(|metadata| [metadata.name(), metadata.generate_name()]);
        let names = [self.name].into_iter().chain(named.into_iter().flatten());
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        Status::forbidden_resource(&self.resource.group_resource(), name, why)
    }

    /// The namespace as requests have it: that of a Namespace is its own name, once it has one. Empty if there is none.
    pub fn request_namespace(&self) -> &str {
        let is_namespace = self.resource.group.is_empty() && self.resource.resource == "namespaces";
        match self.namespace {
            Some(namespace) => namespace,
            None if is_namespace && self.operation != Operation::Create => self.name,
            None => "",
        }
    }
}

/// What awaits a plug-in.
pub type Judgement<'f> = Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'f>>;

/// Puts an object that a plug-in changed back into form: [`Kind::decode`](crate::registry::Kind::decode) of its version.
pub type Reform<'f> = &'f (dyn Fn(&mut Value) -> Result<(), Status> + Send + Sync);

/// A plug-in. Its error is the answer to the client.
pub trait Admit: Debug + Send + Sync {
    /// Whether it has a say at all. Must be quick: every write asks.
    fn handles(&self, attributes: &Attributes<'_>) -> bool;

    /// Whether it never changes an object, so that nobody need remember what an object was like before.
    fn only_judges(&self) -> bool {
        false
    }

    /// May change `attributes.object`. What was changed goes through `reform` before anyone else sees it.
    fn mutate<'f>(&'f self, _attributes: &'f mut Attributes<'_>, _reform: Reform<'f>) -> Judgement<'f> {
        Box::pin(async { Ok(()) })
    }

    /// Looks once more at what decides about a new object, at the moment in which it is stored: none of it can change now. The
    /// object itself is not shown. Must be quick, and is asked only of what it handles.
    fn confirm(&self, _attributes: &Attributes<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Has the last word on what will be stored.
    fn validate<'f>(&'f self, _attributes: &'f Attributes<'_>) -> Judgement<'f> {
        Box::pin(async { Ok(()) })
    }
}

/// The plug-ins, in order.
#[derive(Debug, Default)]
pub struct Chain {
    plugins: Vec<Arc<dyn Admit>>,
}

/// How long a write may spend here at most, webhooks included.
pub const TIME_MAX: Duration = Duration::from_secs(34);

impl Chain {
    /// A chain of these.
    pub fn new(plugins: Vec<Arc<dyn Admit>>) -> Self {
        Self { plugins }
    }

    /// Whether nobody has a say.
    pub fn is_empty(&self) -> bool {
        self.plugins.is_empty()
    }

    /// Lets every plug-in change the object, in order. Each time that one is about to be asked that may do so, `before_change`
    /// has a look at it.
    pub async fn mutate(
        &self,
        attributes: &mut Attributes<'_>,
        reform: Reform<'_>,
        before_change: &mut (dyn FnMut(&Attributes<'_>) + Send),
    ) -> Result<(), Status> {
        for plugin in &self.plugins {
            if plugin.handles(attributes) {
                if !plugin.only_judges() {
                    before_change(attributes);
                }
                plugin.mutate(attributes, reform).await?;
            }
        }
        Ok(())
    }

    /// Asks every plug-in, in order, whether what it judged by still holds.
    pub fn confirm(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let mut asked = self.plugins.iter().filter(|plugin| plugin.handles(attributes));
        asked.try_for_each(|plugin| plugin.confirm(attributes))
    }

    /// Asks every plug-in, in order, whether it agrees.
    pub async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        for plugin in &self.plugins {
            if plugin.handles(attributes) {
                plugin.validate(attributes).await?;
            }
        }
        Ok(())
    }
}
