//! Roles and bindings: validates rules and subjects, and keeps the role reference immutable.

use rdd_meta::{
    FieldError,
    names::{NameRule, dns_1123_subdomain, path_segment_name},
};
use serde_json::{Value, json};

use super::{
    common::{
        created_by_rule, invalid_each, items_mut, list, metadata_errors, metadata_update_errors, named, object_at,
        set_default_text, structure, text, updated,
    },
    selector::{Leniency, label_selector_errors},
};
use crate::strategy::Strategy;

const GROUP: &str = "rbac.authorization.k8s.io";

const NAMED: Strategy = Strategy { name_rule: NameRule::PathSegment, create_on_update: true, ..Strategy::NAMESPACED };

pub(crate) static ROLE: Strategy = Strategy {
    validate_create: |object| created_by_rule(object, true, role_errors(object)),
    validate_update: |_, new, old| {
        updated(new, old, true, [role_errors(new), metadata_update_errors(new, old)].concat())
    },
    ..NAMED
};

pub(crate) static CLUSTER_ROLE: Strategy = Strategy {
    validate_create: |object| created_by_rule(object, false, cluster_role_errors(object, Leniency::default())),
    validate_update: |_, new, old| {
        let leniency = Leniency { invalid_values: has_invalid_selector(old), ..Leniency::default() };
        updated(new, old, false, [cluster_role_errors(new, leniency), metadata_update_errors(new, old)].concat())
    },
    ..NAMED
};

pub(crate) static ROLE_BINDING: Strategy = Strategy {
    default: default_binding,
    validate_create: |object| created_by_rule(object, true, binding_errors(object, true)),
    validate_update: |_, new, old| updated(new, old, true, binding_update_errors(new, old, true)),
    ..NAMED
};

pub(crate) static CLUSTER_ROLE_BINDING: Strategy = Strategy {
    default: default_binding,
    validate_create: |object| created_by_rule(object, false, binding_errors(object, false)),
    validate_update: |_, new, old| updated(new, old, false, binding_update_errors(new, old, false)),
    ..NAMED
};

fn default_binding(object: &mut Value) {
    if object_at(object, "roleRef").is_some() {
        set_default_text(&mut object["roleRef"], "apiGroup", GROUP);
    }
    for subject in items_mut(object, "subjects") {
        if matches!(text(&subject["kind"]), "User" | "Group") {
            set_default_text(subject, "apiGroup", GROUP);
        }
    }
}

fn rules_errors(object: &Value, namespaced: bool) -> Vec<FieldError> {
    let rules = list(&object["rules"]).iter().enumerate();
    rules.flat_map(|(index, rule)| rule_errors(&format!("rules[{index}]"), rule, namespaced)).collect()
}

fn rule_errors(path: &str, rule: &Value, namespaced: bool) -> Vec<FieldError> {
    let empty = |field: &str| list(&rule[field]).is_empty();
    let mut errors = Vec::new();
    if empty("verbs") {
        errors.push(FieldError::required(format!("{path}.verbs"), "verbs must contain at least one value"));
    }
    if !empty("nonResourceURLs") {
        let refused = |why: &str| FieldError::invalid(format!("{path}.nonResourceURLs"), &rule["nonResourceURLs"], why);
        if namespaced {
            errors.push(refused("namespaced rules cannot apply to non-resource URLs"));
        }
        if !empty("apiGroups") || !empty("resources") || !empty("resourceNames") {
            errors.push(refused("rules cannot apply to both regular resources and non-resource URLs"));
        }
        return errors;
    }
    if empty("apiGroups") {
        let why = "resource rules must supply at least one api group";
        errors.push(FieldError::required(format!("{path}.apiGroups"), why));
    }
    if empty("resources") {
        let why = "resource rules must supply at least one resource";
        errors.push(FieldError::required(format!("{path}.resources"), why));
    }
    errors
}

fn role_errors(object: &Value) -> Vec<FieldError> {
    [metadata_errors(object, true, NameRule::PathSegment), rules_errors(object, true)].concat()
}

fn cluster_role_errors(object: &Value, leniency: Leniency) -> Vec<FieldError> {
    let mut errors = metadata_errors(object, false, NameRule::PathSegment);
    errors.extend(rules_errors(object, false));
    if object["aggregationRule"].is_null() {
        return errors;
    }
    let path = "aggregationRule.clusterRoleSelectors";
    let selectors = list(&object["aggregationRule"]["clusterRoleSelectors"]);
    if selectors.is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(path, why));
    }
    for (index, selector) in selectors.iter().enumerate() {
        let path = format!("{path}[{index}]");
        errors.extend(label_selector_errors(&path, selector, leniency));
        if !label_selector_errors(&path, selector, Leniency::default()).is_empty() {
            // Upstream prints the selector that it could not build, which is nil.
            errors.push(FieldError::invalid(path, &Value::Null, "invalid label selector."));
        }
    }
    errors
}

fn has_invalid_selector(object: &Value) -> bool {
    let selectors = list(&object["aggregationRule"]["clusterRoleSelectors"]);
    selectors.iter().any(|selector| !label_selector_errors("", selector, Leniency::default()).is_empty())
}

fn binding_errors(object: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = metadata_errors(object, namespaced, NameRule::PathSegment);
    let role = &object["roleRef"];
    let [group, kind, name] = ["apiGroup", "kind", "name"].map(|field| text(&role[field]));
    if group != GROUP {
        errors.push(FieldError::not_supported("roleRef.apiGroup", &json!(group), &[GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported("roleRef.kind", &json!(kind), kinds));
    }
    if name.is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    } else {
        errors.extend(invalid_each("roleRef.name", name, path_segment_name(name)));
    }
    for (index, subject) in list(&object["subjects"]).iter().enumerate() {
        errors.extend(subject_errors(&format!("subjects[{index}]"), subject, namespaced));
    }
    errors
}

fn subject_errors(path: &str, subject: &Value, namespaced: bool) -> Vec<FieldError> {
    let [kind, group, name] = ["kind", "apiGroup", "name"].map(|field| text(&subject[field]));
    let wrong_group = |known: &str| FieldError::not_supported(format!("{path}.apiGroup"), &json!(group), &[known]);
    let mut errors = Vec::new();
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.extend(invalid_each(&format!("{path}.name"), name, dns_1123_subdomain(name)));
            }
            if !group.is_empty() {
                errors.push(wrong_group(""));
            }
            if !namespaced && text(&subject["namespace"]).is_empty() {
                errors.push(FieldError::required(format!("{path}.namespace"), ""));
            }
        }
        "User" | "Group" if group != GROUP => errors.push(wrong_group(GROUP)),
        "User" | "Group" => {}
        other => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(format!("{path}.kind"), &json!(other), &kinds));
        }
    }
    errors
}

fn binding_update_errors(new: &Value, old: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = binding_errors(new, namespaced);
    errors.extend(metadata_update_errors(new, old));
    let fields = [("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name")];
    let role =
        |object: &Value| structure(&fields.map(|(shown, field)| (shown, named(text(&object["roleRef"][field])))));
    if role(new) != role(old) {
        errors.push(FieldError::invalid_text("roleRef", role(new), "cannot change roleRef"));
    }
    errors
}
