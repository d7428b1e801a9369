//! The table of built-in resources: their names, verbs and subresources, as in upstream's discovery.

use crate::registry::{ALL_VERBS, CREATE_VERBS, READ_VERBS, Verbs};

/// The definition of one built-in resource.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) group: &'static str,
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespaced: bool,
    pub(super) verbs: Verbs,
    pub(super) short_names: &'static [&'static str],
    pub(super) categories: &'static [&'static str],
    /// Whether a delete responds with the deleted object instead of a Status.
    pub(super) returns_deleted: bool,
    /// Subresources that are views of the object, with their verbs.
    pub(super) views: &'static [(&'static str, Verbs)],
}

/// The verbs of a status subresource.
pub(super) const VIEW_VERBS: Verbs = &["get", "patch", "update"];
/// Without `deletecollection`: namespaces can only be deleted one by one.
const NAMESPACE_VERBS: Verbs = &["create", "delete", "get", "list", "patch", "update", "watch"];
const STATUS: &[(&str, Verbs)] = &[("status", VIEW_VERBS)];
const EXTENSIONS: &[&str] = &["api-extensions"];

const fn stored(group: &'static str, plural: &'static str, kind: &'static str) -> Row {
    Row {
        group,
        plural,
        kind,
        namespaced: true,
        verbs: ALL_VERBS,
        short_names: &[],
        categories: &[],
        returns_deleted: false,
        views: &[],
    }
}

const fn cluster(group: &'static str, plural: &'static str, kind: &'static str) -> Row {
    Row { namespaced: false, ..stored(group, plural, kind) }
}

const fn question(group: &'static str, plural: &'static str, kind: &'static str) -> Row {
    Row { verbs: CREATE_VERBS, ..cluster(group, plural, kind) }
}

const fn extension(group: &'static str, plural: &'static str, kind: &'static str) -> Row {
    Row { categories: EXTENSIONS, ..cluster(group, plural, kind) }
}

const ADMISSION: &str = "admissionregistration.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

/// All built-in resources.
pub(super) const RESOURCES: &[Row] = &[
    Row { short_names: &["cm"], ..stored("", "configmaps", "ConfigMap") },
    Row { short_names: &["ev"], ..stored("", "events", "Event") },
    Row {
        short_names: &["ns"],
        verbs: NAMESPACE_VERBS,
        returns_deleted: true,
        views: &[("finalize", &["update"]), ("status", VIEW_VERBS)],
        ..cluster("", "namespaces", "Namespace")
    },
    Row {
        short_names: &["quota"],
        returns_deleted: true,
        views: STATUS,
        ..stored("", "resourcequotas", "ResourceQuota")
    },
    stored("", "secrets", "Secret"),
    Row { short_names: &["sa"], returns_deleted: true, ..stored("", "serviceaccounts", "ServiceAccount") },
    Row {
        short_names: &["svc"],
        categories: &["all"],
        returns_deleted: true,
        views: STATUS,
        ..stored("", "services", "Service")
    },
    extension(ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    Row { views: STATUS, ..extension(ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy") },
    extension(ADMISSION, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
    extension(ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
    Row {
        short_names: &["crd", "crds"],
        views: STATUS,
        ..extension("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition")
    },
    // There is no aggregation layer: the server itself maintains these objects, and clients can only read them.
    Row {
        verbs: READ_VERBS,
        views: &[("status", &["get"])],
        ..extension("apiregistration.k8s.io", "apiservices", "APIService")
    },
    question(AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview"),
    question(AUTHENTICATION, "tokenreviews", "TokenReview"),
    Row { namespaced: true, ..question(AUTHORIZATION, "localsubjectaccessreviews", "LocalSubjectAccessReview") },
    question(AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    question(AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    question(AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview"),
    stored("coordination.k8s.io", "leases", "Lease"),
    Row { short_names: &["ev"], ..stored("events.k8s.io", "events", "Event") },
    cluster(RBAC, "clusterrolebindings", "ClusterRoleBinding"),
    cluster(RBAC, "clusterroles", "ClusterRole"),
    stored(RBAC, "rolebindings", "RoleBinding"),
    stored(RBAC, "roles", "Role"),
];
