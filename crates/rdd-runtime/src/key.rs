//! The trait bound for kinds that controllers use, and the key of one object.

use std::fmt;

use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// A kind that is known at compile time: a type of `k8s-openapi`, or a type that derives `kube::CustomResource`.
///
/// The blanket implementation covers every type that fits; nothing implements this trait by hand.
pub trait Kind: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + Sync + 'static {}

impl<K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + Sync + 'static> Kind for K {}

/// Namespace and name of an object. The kind is not part of the key: the queue or cache that holds the key implies it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// `None` for a cluster-scoped kind.
    pub namespace: Option<String>,
    /// `metadata.name` of the object.
    pub name: String,
}

impl Key {
    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self { namespace: None, name: name.into() }
    }

    /// The key of a namespaced object.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), name: name.into() }
    }

    /// The key of `object`. An object without a name gets an empty one.
    pub fn of(object: &impl ResourceExt) -> Self {
        Self { namespace: object.namespace(), name: object.name_any() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}
