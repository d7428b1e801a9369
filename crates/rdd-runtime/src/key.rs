//! What a kind is to this crate, and the name of one object of it.

use std::fmt;

use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// A kind that is known when the program is compiled: one of `k8s-openapi`'s, or one that `kube::CustomResource` derived.
pub trait Kind: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + Sync + 'static {}

impl<K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + Sync + 'static> Kind for K {}

/// Namespace and name of an object; which kind it is of goes without saying where it is used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// `None` for a kind without namespaces.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl Key {
    /// An object of a kind that has no namespaces.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self { namespace: None, name: name.into() }
    }

    /// An object in a namespace.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), name: name.into() }
    }

    /// The key of this object.
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
