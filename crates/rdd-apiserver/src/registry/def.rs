//! A resource as the generic handlers know it.

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

/// A resource: its names, its versions, and how it departs from the rule. It never changes; a new one takes its place.
#[derive(Debug)]
pub struct ResourceDef {
    /// The group; empty for the core API.
    pub group: String,
    /// The plural, as in paths.
    pub plural: String,
    /// The singular.
    pub singular: String,
    /// The kind of its objects.
    pub kind: String,
    /// The kind of its lists.
    pub list_kind: String,
    /// Short forms for people.
    pub short_names: Vec<String>,
    /// Such as `all`.
    pub categories: Vec<String>,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// What can be done with its objects, in the order of the alphabet: `create`, `delete`, `deletecollection`, …
    pub verbs: Verbs,
    /// Where objects come from.
    pub backing: Backing,
    /// The served versions, the preferred one first.
    pub versions: Vec<VersionDef>,
    /// The version whose form is stored. It need not be served.
    pub storage_version: String,
    /// Departures from the rule.
    pub manners: Manners,
    /// The definition it comes from; none for a built-in one.
    pub custom: Option<Custom>,
}

/// The words of the verbs, sorted.
pub type Verbs = &'static [&'static str];

/// Everything that can be done with stored objects.
pub const ALL_VERBS: Verbs = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// What can be done with objects that only the server writes.
pub const READ_VERBS: Verbs = &["get", "list", "watch"];
/// What can be done with a question.
pub const CREATE_VERBS: Verbs = &["create"];

/// Where objects come from.
#[derive(Debug)]
pub enum Backing {
    /// The store, under this prefix.
    Stored(state::Resource),
    /// Nowhere: a create is a question, and the answer is the same object with its status filled in.
    Answered(Box<dyn Answerer>),
}

/// Who answers questions, such as access reviews.
pub trait Answerer: std::fmt::Debug + Send + Sync {
    /// The object with its status, or why there is none. The question has been decoded and validated.
    fn answer(
        &self,
        question: Value,
        asker: &crate::auth::Identity,
        namespace: Option<&str>,
    ) -> Result<Value, rdd_meta::Status>;
}

/// How a resource departs from the rule. The default is what custom resources do.
#[derive(Debug, Clone, Default)]
pub struct Manners {
    /// An update of what does not exist creates it.
    pub create_on_update: bool,
    /// An update without a resourceVersion replaces whatever is there.
    pub unconditional_update: bool,
    /// A delete answers with the object that is gone instead of a Status.
    pub returns_deleted: bool,
    /// Objects are deleted by themselves after this time.
    pub ttl: Option<Duration>,
    /// Items of lists come without their type, as those of Go's typed lists.
    pub untyped_items: bool,
    /// It is marked for deletion before anything else is looked at, and words failed preconditions in its own way.
    pub own_deletion: bool,
    /// Dependents of a deleted object are orphaned unless the client says otherwise.
    pub orphan_by_default: bool,
    /// Nobody asks what becomes of the dependents of a deleted object: it goes at once.
    pub no_dependents: bool,
    /// Discovery tells that this version is stored, which nobody else gets to see.
    pub told_storage_version: Option<&'static str>,
}

/// What a custom resource's definition adds.
#[derive(Debug, Clone)]
pub struct Custom {
    /// The uid of the definition.
    pub uid: String,
    /// The revision of the definition. Objects of an earlier revision may have been written under another schema, and are
    /// brought into form when they are read.
    pub revision: Revision,
    /// The revision at which this server began to serve it. An object that is not newer may come from a release that did not
    /// store all defaults, and is completed when it is read if its kind has such defaults.
    pub loaded_at: Revision,
    /// Set when the definition is being deleted: objects can no longer be created.
    pub terminating: bool,
    /// When it was withdrawn, once it is: no later change is one of its objects. All tables share it that the definition was
    /// in, so that a watch which is far behind still finds where it ends.
    pub(super) withdrawn: Arc<OnceLock<Revision>>,
}

impl Custom {
    /// Of a definition that is served.
    pub fn new(uid: String, revision: Revision, terminating: bool) -> Self {
        Self { uid, revision, loaded_at: Revision(0), terminating, withdrawn: Arc::default() }
    }

    /// The same of a server that began to serve it at this revision, with what its store held.
    pub fn loaded_at(self, revision: Revision) -> Self {
        Self { loaded_at: revision, ..self }
    }

    /// The last revision at which its objects were its objects; `None` while they are.
    pub fn withdrawn(&self) -> Option<Revision> {
        self.withdrawn.get().copied()
    }
}

/// A served version of a resource.
#[derive(Debug)]
pub struct VersionDef {
    /// Its name.
    pub name: String,
    /// How its objects are read, completed and checked.
    pub kind: Arc<dyn Kind>,
    /// What to warn users of it of.
    pub deprecation: Option<String>,
    /// How its objects differ from what is stored.
    pub stored: Stored,
    /// The parts that have their own path.
    pub subresources: Vec<SubresourceDef>,
}

/// How the objects of a version differ from what is stored.
#[derive(Debug)]
pub enum Stored {
    /// Not at all.
    Same,
    /// In their apiVersion alone.
    Renamed,
    /// In more.
    Converted(Box<dyn Conversion>),
}

/// Between a version and the stored form.
pub trait Conversion: std::fmt::Debug + Send + Sync {
    /// From the stored form, which is decoded, to this version, apiVersion included.
    fn shown(&self, object: Value) -> Value;
    /// From this version to the stored form, apiVersion included.
    fn stored(&self, object: Value) -> Value;
}

/// A part of an object that has its own path.
#[derive(Debug, Clone)]
pub struct SubresourceDef {
    /// `status`, `scale`, `finalize`, `token`.
    pub name: &'static str,
    /// What can be done with it.
    pub verbs: Verbs,
    /// What it is.
    pub part: Part,
}

/// What a subresource is.
#[derive(Debug, Clone)]
pub enum Part {
    /// A view of the object itself: the same kind, of which an endpoint writes only some fields ([`Kind::prepare_for_update`]).
    View,
    /// An `autoscaling/v1` Scale that stands for some fields of the object.
    Scale(Arc<Scale>),
    /// A question about the object: `create` answers it.
    Question(Arc<dyn Question>),
}

/// Who answers questions about one object, such as for a token.
pub trait Question: std::fmt::Debug + Send + Sync {
    /// Group, version and kind of the question.
    fn kind(&self) -> GroupVersionKind;
    /// The answer. `object` is the object that the path names.
    fn answer(&self, question: Value, object: &Value, asker: &crate::auth::Identity)
    -> Result<Value, rdd_meta::Status>;
}

impl ResourceDef {
    /// Group and plural, as messages name it.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.plural)
    }

    /// Group and kind, as messages about invalid objects name it.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(&self.group, &self.kind)
    }

    /// The resource in a version.
    pub fn group_version_resource(&self, version: &str) -> GroupVersionResource {
        GroupVersionResource::new(&self.group, version, &self.plural)
    }

    /// The kind in a version.
    pub fn group_version_kind(&self, version: &str) -> GroupVersionKind {
        GroupVersionKind::new(&self.group, version, &self.kind)
    }

    /// `apps/v1`, or `v1` for the core API.
    pub fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    /// A served version.
    pub fn version(&self, name: &str) -> Option<&VersionDef> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// Whether something can be done with its objects.
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Where its objects lie, if they are stored.
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
