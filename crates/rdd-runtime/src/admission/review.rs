//! A request for admission, as a controller reads it.

use rdd_meta::{GroupVersionKind, GroupVersionResource};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// What is to be done to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// It is new.
    Create,
    /// It changes.
    Update,
    /// It goes.
    Delete,
    /// Something is connected to it.
    Connect,
}

impl Operation {
    /// As rules write it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct User {
    /// The name.
    pub username: String,
    /// The groups.
    pub groups: Vec<String>,
}

/// A write that is about to happen.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The request's own name.
    pub uid: String,
    /// What is done.
    pub operation: Operation,
    /// The kind of the object.
    pub kind: Named,
    /// What it is served as.
    pub resource: Served,
    /// As in `status`; empty for the object itself.
    #[serde(default)]
    pub sub_resource: String,
    /// The object's name; empty if the server has yet to make one.
    #[serde(default)]
    pub name: String,
    /// Its namespace; empty if its kind has none.
    #[serde(default)]
    pub namespace: String,
    /// As it would be; nothing when it is deleted.
    #[serde(default)]
    pub object: Option<Value>,
    /// As it is; nothing when it is created.
    #[serde(default)]
    pub old_object: Option<Value>,
    /// Nothing will be stored, and nothing may be done.
    #[serde(default)]
    pub dry_run: bool,
    /// Who asks.
    #[serde(default)]
    pub user_info: User,
}

/// A kind on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Named {
    /// Its group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its name.
    pub kind: String,
}

/// A resource on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Served {
    /// Its group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its name.
    pub resource: String,
}

impl Request {
    /// The object as it would be, as its type.
    pub fn new_as<K: DeserializeOwned>(&self) -> Option<Result<K, serde_json::Error>> {
        self.object.as_ref().map(K::deserialize)
    }

    /// The object as it is, as its type.
    pub fn old_as<K: DeserializeOwned>(&self) -> Option<Result<K, serde_json::Error>> {
        self.old_object.as_ref().map(K::deserialize)
    }

    /// The object that the request is about: as it would be, or, when it is deleted, as it is.
    pub fn subject(&self) -> Option<&Value> {
        self.object.as_ref().or(self.old_object.as_ref())
    }

    /// Group, version and kind.
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::new(&self.kind.group, &self.kind.version, &self.kind.kind)
    }

    /// Group, version and resource.
    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource::new(&self.resource.group, &self.resource.version, &self.resource.resource)
    }
}
