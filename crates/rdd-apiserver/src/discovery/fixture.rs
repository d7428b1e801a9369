//! Test fixture: a small table of served resources for tests of discovery and OpenAPI.

use std::sync::Arc;

use rdd_meta::{FieldError, GroupVersionKind, Status, names::NameRule, time::Timestamp};
use rdd_patch::{shape::Shape, ssa};
use rdd_schema::crd::Scale;
use rdd_store::Revision;
use serde_json::Value;

use crate::{
    auth::Identity,
    registry::{
        ALL_VERBS, Answerer, Backing, CREATE_VERBS, Column, Custom, Finding, Kind, Manners, Origin, Part, Question,
        Registry, ResourceDef, Served, Stored, SubresourceDef, VersionDef,
    },
    state,
};

/// A kind whose methods panic, except the one that documents use.
#[derive(Debug)]
struct Silent {
    built_in: bool,
}

const NOT_ASKED: &str = "documents ask nothing of a kind's objects";

impl Kind for Silent {
    fn decode(&self, _: &mut Value, _: Origin) -> Result<Vec<Finding>, Status> {
        unreachable!("{NOT_ASKED}")
    }
    fn default(&self, _: &mut Value) {
        unreachable!("{NOT_ASKED}")
    }
    fn shape(&self) -> Shape {
        unreachable!("{NOT_ASKED}")
    }
    fn strategic(&self) -> bool {
        self.built_in
    }
    fn empty(&self) -> std::borrow::Cow<'_, Value> {
        unreachable!("{NOT_ASKED}")
    }
    fn reset_fields(&self, _: &str) -> &ssa::Filter {
        unreachable!("{NOT_ASKED}")
    }
    fn name_rule(&self) -> NameRule {
        unreachable!("{NOT_ASKED}")
    }
    fn prepare_for_create(&self, _: &mut Value) {
        unreachable!("{NOT_ASKED}")
    }
    fn prepare_for_update(&self, _: &str, _: &mut Value, _: &Value) {
        unreachable!("{NOT_ASKED}")
    }
    fn validate_create(&self, _: &Value) -> Vec<FieldError> {
        unreachable!("{NOT_ASKED}")
    }
    fn validate_update(&self, _: &str, _: &Value, _: &Value) -> Vec<FieldError> {
        unreachable!("{NOT_ASKED}")
    }
    fn columns(&self) -> &[Column] {
        unreachable!("{NOT_ASKED}")
    }
    fn cells(&self, _: &Value, _: Timestamp) -> Vec<Value> {
        unreachable!("{NOT_ASKED}")
    }
}

#[derive(Debug)]
struct Token;

impl Question for Token {
    fn kind(&self) -> GroupVersionKind {
        GroupVersionKind::new("authentication.k8s.io", "v1", "TokenRequest")
    }
    fn answer(&self, _: Value, _: &Value, _: &Identity) -> Result<Value, Status> {
        unreachable!("{NOT_ASKED}")
    }
}

#[derive(Debug)]
struct Review;

impl Answerer for Review {
    fn answer(&self, _: Value, _: &Identity, _: Option<&str>) -> Result<Value, Status> {
        unreachable!("{NOT_ASKED}")
    }
}

/// A built-in resource with version `v1`.
pub(crate) fn mk_builtin(group: &str, plural: &str, kind: &str, namespaced: bool) -> ResourceDef {
    mk_resource(group, plural, kind, namespaced, &[("v1", true)], "v1")
}

/// A custom resource with these versions, the preferred one first, which is also the storage version.
pub(crate) fn mk_custom(group: &str, plural: &str, kind: &str, versions: &[&str]) -> ResourceDef {
    let named: Vec<_> = versions.iter().map(|name| (*name, false)).collect();
    let mut def = mk_resource(group, plural, kind, true, &named, versions[0]);
    def.custom = Some(Custom::new("1".to_owned(), Revision(7), false));
    def
}

fn mk_resource(
    group: &str,
    plural: &str,
    kind: &str,
    namespaced: bool,
    versions: &[(&str, bool)],
    storage_version: &str,
) -> ResourceDef {
    let version = |(name, built_in): &(&str, bool)| VersionDef {
        name: (*name).to_owned(),
        kind: Arc::new(Silent { built_in: *built_in }),
        deprecation: None,
        stored: if *name == storage_version { Stored::Same } else { Stored::Renamed },
        subresources: Vec::new(),
    };
    ResourceDef {
        group: group.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced,
        verbs: ALL_VERBS,
        backing: Backing::Stored(state::Resource::new(group, plural).unwrap()),
        versions: versions.iter().map(version).collect(),
        storage_version: storage_version.to_owned(),
        manners: Manners::default(),
        custom: None,
    }
}

/// A status subresource.
pub(crate) fn mk_status() -> SubresourceDef {
    SubresourceDef { name: "status", verbs: &["get", "patch", "update"], part: Part::View }
}

/// A scale subresource.
pub(crate) fn mk_scale() -> SubresourceDef {
    let scale = Scale {
        spec_replicas_path: ".spec.replicas".to_owned(),
        status_replicas_path: ".status.replicas".to_owned(),
        label_selector_path: None,
    };
    SubresourceDef { name: "scale", verbs: &["get", "patch", "update"], part: Part::Scale(Arc::new(scale)) }
}

/// The core group, two kinds of Events with one storage, a review, and custom resources in several groups and versions.
pub(crate) fn mk_served() -> Arc<Served> {
    let mut namespaces = mk_builtin("", "namespaces", "Namespace", false);
    namespaces.short_names = vec!["ns".to_owned()];
    namespaces.verbs = &["create", "delete", "get", "list", "patch", "update", "watch"];
    namespaces.versions[0].subresources =
        vec![mk_status(), SubresourceDef { name: "finalize", verbs: &["update"], part: Part::View }];
    let mut accounts = mk_builtin("", "serviceaccounts", "ServiceAccount", true);
    accounts.versions[0].subresources =
        vec![SubresourceDef { name: "token", verbs: CREATE_VERBS, part: Part::Question(Arc::new(Token)) }];
    let mut new_events = mk_builtin("events.k8s.io", "events", "Event", true);
    new_events.backing = Backing::Stored(state::Resource::new("", "events").unwrap());
    new_events.versions[0].stored = Stored::Renamed;
    let mut review = mk_builtin("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", false);
    review.verbs = CREATE_VERBS;
    review.backing = Backing::Answered(Box::new(Review));
    let mut definitions =
        mk_builtin("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", false);
    definitions.manners.told_storage_version = Some("v1beta1");
    let registry = Registry::new([
        namespaces,
        accounts,
        review,
        new_events,
        mk_builtin("", "configmaps", "ConfigMap", true),
        mk_builtin("", "events", "Event", true),
        definitions,
        mk_builtin("admissionregistration.k8s.io", "validatingwebhookconfigurations", "V", false),
        mk_builtin("apiregistration.k8s.io", "apiservices", "APIService", false),
    ]);
    let mut foos = mk_custom("stable.example.com", "foos", "Foo", &["v1", "v1beta1", "v1alpha1"]);
    foos.short_names = vec!["fo".to_owned()];
    foos.categories = vec!["all".to_owned()];
    foos.versions[0].subresources = vec![mk_status(), mk_scale()];
    registry.put(foos);
    registry.put(mk_custom("stable.example.com", "bars", "Bar", &["v2alpha1"]));
    registry.put(mk_custom("a.example.com", "things", "Thing", &["v1beta1"]));
    registry.served()
}
