//! The strategies of the built-in kinds, one file each: defaulting, validation, preparation.
//!
//! The reference is Kubernetes v1.35.4, including the texts of its errors. Where upstream iterates over a map in random order,
//! the order here is sorted.

mod admission;
mod apiservice;
pub(crate) mod common;
mod condition;
mod configmap;
pub mod event;
mod gojson;
mod lease;
pub mod namespace;
mod policy;
mod quantity;
mod rbac;
mod resourcequota;
mod review;
mod secret;
mod selector;
mod service;
mod serviceaccount;
pub mod webhook;
mod weburl;

use crate::strategy::Strategy;

/// The strategy of a built-in kind, or of the TokenRequest subresource.
pub fn of(group: &str, kind: &str) -> Option<&'static Strategy> {
    Some(match (group, kind) {
        ("", "ConfigMap") => &configmap::STRATEGY,
        ("", "Event") => &event::CORE,
        ("", "Namespace") => &namespace::STRATEGY,
        ("", "ResourceQuota") => &resourcequota::STRATEGY,
        ("", "Secret") => &secret::STRATEGY,
        ("", "Service") => &service::STRATEGY,
        ("", "ServiceAccount") => &serviceaccount::STRATEGY,
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => &webhook::MUTATING,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => &policy::POLICY,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => &policy::BINDING,
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => &webhook::VALIDATING,
        ("apiregistration.k8s.io", "APIService") => &apiservice::STRATEGY,
        ("authentication.k8s.io", "SelfSubjectReview") => &review::SELF_SUBJECT,
        ("authentication.k8s.io", "TokenRequest") => &review::TOKEN_REQUEST,
        ("authentication.k8s.io", "TokenReview") => &review::TOKEN_REVIEW,
        ("authorization.k8s.io", "LocalSubjectAccessReview") => &review::LOCAL_SUBJECT_ACCESS,
        ("authorization.k8s.io", "SelfSubjectAccessReview") => &review::SELF_SUBJECT_ACCESS,
        ("authorization.k8s.io", "SelfSubjectRulesReview") => &review::SELF_SUBJECT_RULES,
        ("authorization.k8s.io", "SubjectAccessReview") => &review::SUBJECT_ACCESS,
        ("coordination.k8s.io", "Lease") => &lease::STRATEGY,
        ("events.k8s.io", "Event") => &event::EVENTS,
        ("rbac.authorization.k8s.io", "ClusterRole") => &rbac::CLUSTER_ROLE,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => &rbac::CLUSTER_ROLE_BINDING,
        ("rbac.authorization.k8s.io", "Role") => &rbac::ROLE,
        ("rbac.authorization.k8s.io", "RoleBinding") => &rbac::ROLE_BINDING,
        _ => return None,
    })
}
