//! The definition of a resource, as the generic handlers see it.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use rdd_meta::gvk::{GroupKind, GroupResource, GroupVersionKind, GroupVersionResource};
use rdd_schema::crd::Scale;
use rdd_store::Revision;
use serde_json::Value;

use super::Kind;
use crate::state;

/// A resource: its names, its versions and its options. It is immutable: a change of the resource replaces the whole value.
#[derive(Debug)]
pub struct ResourceDef {
    /// The group; empty for the core API.
    pub group: String,
    /// The plural, as in paths.
    pub plural: String,
    /// The singular.
    pub singular: String,
    /// The kind of its objects, such as `Pod`.
    pub kind: String,
    /// The kind of its lists.
    pub list_kind: String,
    /// Short names for users, such as `po`.
    pub short_names: Vec<String>,
    /// Groups of resources for users, such as `all`.
    pub categories: Vec<String>,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// The verbs of the resource, sorted: `create`, `delete`, `deletecollection`, …
    pub verbs: Verbs,
    /// Where its objects come from.
    pub backing: Backing,
    /// The served versions, the preferred one first.
    pub versions: Vec<VersionDef>,
    /// The version in which objects are stored. It need not be served.
    pub storage_version: String,
    /// How the handlers treat its objects.
    pub manners: Manners,
    /// What its CustomResourceDefinition adds; `None` for a built-in resource.
    pub custom: Option<Custom>,
}

/// Names of verbs, sorted.
pub type Verbs = &'static [&'static str];

/// The verbs of a stored resource.
pub const ALL_VERBS: Verbs = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// The verbs of a resource that only the server writes.
pub const READ_VERBS: Verbs = &["get", "list", "watch"];
/// The verbs of a virtual resource.
pub const CREATE_VERBS: Verbs = &["create"];

/// Where objects come from.
#[derive(Debug)]
pub enum Backing {
    /// The store, under the prefix of this resource.
    Stored(state::Resource),
    /// A virtual resource: nothing is stored. A create answers with the same object, its status filled in.
    Answered(Box<dyn Answerer>),
}

/// A resource without stored objects, such as an access review.
pub trait Answerer: std::fmt::Debug + Send + Sync {
    /// Returns `object` with its status, or the error for the client. The caller has decoded and validated the object, and
    /// admission has accepted it. `asker` is the authenticated user.
    fn answer(
        &self,
        question: Value,
        asker: &crate::auth::Identity,
        namespace: Option<&str>,
    ) -> Result<Value, rdd_meta::Status>;
}

/// How the handlers treat the objects of a resource. The default is the behavior of custom resources.
#[derive(Debug, Clone, Default)]
pub struct Manners {
    /// An update creates the object if it does not exist.
    pub create_on_update: bool,
    /// An update without a resourceVersion replaces the current object unconditionally.
    pub unconditional_update: bool,
    /// A delete answers with the deleted object instead of a Status.
    pub returns_deleted: bool,
    /// The store deletes objects after this time.
    pub ttl: Option<Duration>,
    /// Items of lists carry no apiVersion and kind, as items of Go's typed lists.
    pub untyped_items: bool,
    /// A delete marks the object before it checks anything else, and words failed preconditions differently (namespaces,
    /// definitions).
    pub own_deletion: bool,
    /// A delete orphans dependents unless the client asks for something else.
    pub orphan_by_default: bool,
    /// A delete ignores propagation policies and dependents, and removes the object at once.
    pub no_dependents: bool,
    /// The storage version that discovery advertises in its hash, where it differs from `storage_version`.
    pub told_storage_version: Option<&'static str>,
}

/// What the definition of a custom resource adds to its [`ResourceDef`].
#[derive(Debug, Clone)]
pub struct Custom {
    /// The uid of the definition.
    pub uid: String,
    /// The revision of the definition. Objects of an earlier revision may follow an older schema; reads decode them again.
    pub revision: Revision,
    /// The revision at which this server began to serve the definition. An object that is not newer may come from a release
    /// that did not store all defaults; reads fill these in if the kind has such defaults.
    pub loaded_at: Revision,
    /// Whether the definition is being deleted: creates are refused.
    pub terminating: bool,
    /// The revision at which the definition was withdrawn, once it is. Later changes under its prefix belong to another
    /// definition. All tables that held the definition share this cell, so that a watch that lags far behind still finds where
    /// it ends.
    pub(super) withdrawn: Arc<OnceLock<Revision>>,
}

impl Custom {
    /// A served definition. `loaded_at` is 0: every object is newer.
    pub fn new(uid: String, revision: Revision, terminating: bool) -> Self {
        Self { uid, revision, loaded_at: Revision(0), terminating, withdrawn: Arc::default() }
    }

    /// The same definition for a server that began to serve it at this revision, with objects already in the store.
    pub fn loaded_at(self, revision: Revision) -> Self {
        Self { loaded_at: revision, ..self }
    }

    /// The last revision whose objects belong to this definition; `None` while it is served.
    pub fn withdrawn(&self) -> Option<Revision> {
        self.withdrawn.get().copied()
    }
}

/// A served version of a resource.
#[derive(Debug)]
pub struct VersionDef {
    /// Its name.
    pub name: String,
    /// How its objects are decoded, defaulted and validated.
    pub kind: Arc<dyn Kind>,
    /// The deprecation warning for clients of this version.
    pub deprecation: Option<String>,
    /// How its objects differ from the stored form.
    pub stored: Stored,
    /// Its subresources.
    pub subresources: Vec<SubresourceDef>,
}

/// How the objects of a version differ from the stored form.
#[derive(Debug)]
pub enum Stored {
    /// They do not differ.
    Same,
    /// Only in their apiVersion.
    Renamed,
    /// In more than that; the conversion translates.
    Converted(Box<dyn Conversion>),
}

/// Converts objects between a version and the stored form. Both directions are infallible: their input is decoded.
pub trait Conversion: std::fmt::Debug + Send + Sync {
    /// Converts a decoded object of the stored form to this version. Sets the apiVersion.
    fn shown(&self, object: Value) -> Value;
    /// Converts an object of this version to the stored form. Sets the apiVersion.
    fn stored(&self, object: Value) -> Value;
}

/// A subresource of a version.
#[derive(Debug, Clone)]
pub struct SubresourceDef {
    /// The last part of its path: `status`, `scale`, `finalize`, `token`.
    pub name: &'static str,
    /// The verbs of the subresource.
    pub verbs: Verbs,
    /// What the subresource is.
    pub part: Part,
}

/// What a subresource is.
#[derive(Debug, Clone)]
pub enum Part {
    /// The object itself, of which this endpoint writes only some fields ([`Kind::prepare_for_update`]).
    View,
    /// An `autoscaling/v1` Scale that maps to some fields of the object.
    Scale(Arc<Scale>),
    /// A virtual subresource: `create` answers without storing anything.
    Question(Arc<dyn Question>),
}

/// A subresource without stored objects, such as the token of a service account.
pub trait Question: std::fmt::Debug + Send + Sync {
    /// Group, version and kind of the request body.
    fn kind(&self) -> GroupVersionKind;
    /// Answers the request `question` about `object`, the stored object that the path names.
    fn answer(&self, question: Value, object: &Value, asker: &crate::auth::Identity)
    -> Result<Value, rdd_meta::Status>;
}

impl ResourceDef {
    /// Group and plural, as error messages name the resource.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.plural)
    }

    /// Group and kind, as messages about invalid objects name it.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(&self.group, &self.kind)
    }

    /// Group, version and plural.
    pub fn group_version_resource(&self, version: &str) -> GroupVersionResource {
        GroupVersionResource::new(&self.group, version, &self.plural)
    }

    /// Group, version and kind.
    pub fn group_version_kind(&self, version: &str) -> GroupVersionKind {
        GroupVersionKind::new(&self.group, version, &self.kind)
    }

    /// The apiVersion: `apps/v1`, or `v1` for the core API.
    pub fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    /// A served version by its name.
    pub fn version(&self, name: &str) -> Option<&VersionDef> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// Whether the resource has this verb.
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Where its objects are stored; `None` for a virtual resource.
    pub fn storage(&self) -> Option<&state::Resource> {
        match &self.backing {
            Backing::Stored(resource) => Some(resource),
            Backing::Answered(_) => None,
        }
    }
}

impl VersionDef {
    /// A subresource by its name.
    pub fn subresource(&self, name: &str) -> Option<&SubresourceDef> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }
}
