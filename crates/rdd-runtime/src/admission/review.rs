//! The admission request that a controller reviews.

use rdd_meta::{GroupVersionKind, GroupVersionResource};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// The operation of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// The object is created.
    Create,
    /// The object is updated.
    Update,
    /// The object is deleted.
    Delete,
    /// A client connects to a subresource of the object, such as `exec`.
    Connect,
}

impl Operation {
    /// The word in the API, as in `CREATE`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// The user who sent the write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct User {
    /// The user name.
    pub username: String,
    /// The user's groups.
    pub groups: Vec<String>,
}

/// A write that the server asks about, as in the `request` of an AdmissionReview.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Identifies the review; the response repeats it.
    pub uid: String,
    /// The operation.
    pub operation: Operation,
    /// The kind of the object.
    pub kind: Named,
    /// The resource that the write goes to.
    pub resource: Served,
    /// The subresource, as in `status`; empty for the object itself.
    #[serde(default)]
    pub sub_resource: String,
    /// The object's name; empty if the server is yet to generate it.
    #[serde(default)]
    pub name: String,
    /// The object's namespace; empty for a cluster-scoped kind.
    #[serde(default)]
    pub namespace: String,
    /// The new object; `None` for a deletion.
    #[serde(default)]
    pub object: Option<Value>,
    /// The stored object; `None` for a creation.
    #[serde(default)]
    pub old_object: Option<Value>,
    /// Whether this is a dry run: the server stores nothing, and the handler must not have side effects.
    #[serde(default)]
    pub dry_run: bool,
    /// The user who sent the write.
    #[serde(default)]
    pub user_info: User,
}

/// Group, version and kind on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Named {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind, as in `ConfigMap`.
    pub kind: String,
}

/// Group, version and resource on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Served {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name, as in `configmaps`.
    pub resource: String,
}

impl Request {
    /// The new object, parsed into its type; `None` for a deletion.
    pub fn new_as<K: DeserializeOwned>(&self) -> Option<Result<K, serde_json::Error>> {
        self.object.as_ref().map(K::deserialize)
    }

    /// The stored object, parsed into its type; `None` for a creation.
    pub fn old_as<K: DeserializeOwned>(&self) -> Option<Result<K, serde_json::Error>> {
        self.old_object.as_ref().map(K::deserialize)
    }

    /// The object that the write is about: the new one, or the stored one for a deletion.
    pub fn subject(&self) -> Option<&Value> {
        self.object.as_ref().or(self.old_object.as_ref())
    }

    /// Group, version and kind of the object.
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::new(&self.kind.group, &self.kind.version, &self.kind.kind)
    }

    /// Group, version and resource of the write.
    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource::new(&self.resource.group, &self.resource.version, &self.resource.resource)
    }
}
