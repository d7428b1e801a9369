//! Shared rules of webhook configurations and admission policies: rules, match conditions, resource selectors.

use std::collections::HashSet;

use rdd_meta::{FieldError, names::path_segment_name};
use serde_json::{Value, json};

use super::{
    common::{
        duplicate_named, invalid_each, items_mut, list, object_at, qualified_name_errors, set_default,
        set_default_text, shown_list, text, texts, unsupported_named,
    },
    selector::{Leniency, label_selector_errors},
};

/// Compiles the expression of a match condition; the returned text is the detail of an Invalid error.
pub type Compile<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Accepts every expression, for callers that compile elsewhere.
pub(crate) const TAKE_ALL: Compile<'static> = &|_| None;

const CONDITIONS_MAX: usize = 64;
pub(crate) const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
pub(crate) const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];

/// Defaults the scope of each rule in a list.
pub(crate) fn default_rules(owner: &mut Value, field: &str) {
    for rule in items_mut(owner, field) {
        set_default(rule, "scope", json!("*"));
    }
}

/// Defaults the match policy and selectors of a webhook or `MatchResources`.
pub(crate) fn default_matching(owner: &mut Value) {
    set_default(owner, "matchPolicy", json!("Equivalent"));
    set_default(owner, "namespaceSelector", json!({}));
    set_default(owner, "objectSelector", json!({}));
}

/// Defaults a `MatchResources` field of the spec, if present.
pub(crate) fn default_match_resources(object: &mut Value, field: &str) {
    if object_at(object, "spec").is_none() {
        return;
    }
    if let Some(matching) = object["spec"].get_mut(field).filter(|matching| matching.is_object()) {
        default_matching(matching);
        default_rules(matching, "resourceRules");
        default_rules(matching, "excludeResourceRules");
    }
}

/// Checks an enum value. An absent one is valid.
pub(crate) fn known_error(path: String, value: &Value, known: &[&str]) -> Option<FieldError> {
    value.as_str().filter(|value| !known.contains(value)).map(|value| unsupported_named(path, value, known))
}

fn operations_errors(path: &str, rule: &Value) -> Vec<FieldError> {
    let path = format!("{path}.operations");
    let operations = texts(&rule["operations"]);
    let mut errors = Vec::new();
    if operations.is_empty() {
        errors.push(FieldError::required(&path, ""));
    }
    errors.extend(wildcard_error(&path, &rule["operations"], "if '*' is present, must not specify other operations"));
    for (index, operation) in operations.into_iter().enumerate() {
        let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
        if !known.contains(&operation) {
            errors.push(unsupported_named(format!("{path}[{index}]"), operation, &known));
        }
    }
    errors
}

fn wildcard_error(path: &str, values: &Value, why: &str) -> Option<FieldError> {
    let texts = texts(values);
    (texts.len() > 1 && texts.contains(&"*")).then(|| FieldError::invalid_text(path, shown_list(values), why))
}

/// Validates a rule with operations.
pub(crate) fn rule_errors(path: &str, rule: &Value) -> Vec<FieldError> {
    let mut errors = operations_errors(path, rule);
    for (field, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let path = format!("{path}.{field}");
        if list(&rule[field]).is_empty() {
            errors.push(FieldError::required(&path, ""));
        }
        let why = format!("if '*' is present, must not specify other {what}");
        errors.extend(wildcard_error(&path, &rule[field], &why));
    }
    for (index, version) in texts(&rule["apiVersions"]).into_iter().enumerate() {
        if version.is_empty() {
            errors.push(FieldError::required(format!("{path}.apiVersions[{index}]"), ""));
        }
    }
    errors.extend(resources_errors(&format!("{path}.resources"), &rule["resources"]));
    errors.extend(known_error(format!("{path}.scope"), &rule["scope"], &["*", "Cluster", "Namespaced"]));
    errors
}

fn resources_errors(path: &str, resources: &Value) -> Vec<FieldError> {
    let names = texts(resources);
    let mut errors = Vec::new();
    if names.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut all_parts, mut all_resources) = (HashSet::new(), HashSet::new());
    // Upstream only considers the last resource without a subresource.
    let mut last_is_plain = false;
    for (index, name) in names.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if name.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        let Some((resource, part)) = name.split_once('/') else {
            last_is_plain = *name != "*";
            continue;
        };
        if all_parts.contains(resource) {
            let why = format!("if '{resource}/*' is present, must not specify {name}");
            errors.push(FieldError::invalid_string(&path, name, why));
        }
        if all_resources.contains(part) {
            let why = format!("if '*/{part}' is present, must not specify {name}");
            errors.push(FieldError::invalid_string(&path, name, why));
        }
        if part == "*" {
            all_parts.insert(resource);
        }
        if resource == "*" {
            all_resources.insert(part);
        }
    }
    let refused = |why: &str| FieldError::invalid_text(path, shown_list(resources), why);
    if names.len() > 1 && names.contains(&"*/*") {
        errors.push(refused("if '*/*' is present, must not specify other resources"));
    }
    if names.contains(&"*") && last_is_plain {
        errors.push(refused("if '*' is present, must not specify other resources without subresources"));
    }
    errors
}

/// Validates a `MatchResources`, if present.
pub(crate) fn match_resources_errors(path: &str, matching: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if matching.is_null() {
        return errors;
    }
    if matching["matchPolicy"].is_null() {
        errors.push(FieldError::required(format!("{path}.matchPolicy"), ""));
    }
    errors.extend(known_error(format!("{path}.matchPolicy"), &matching["matchPolicy"], &MATCH_POLICIES));
    for field in ["namespaceSelector", "objectSelector"] {
        let path = format!("{path}.{field}");
        if matching[field].is_null() {
            errors.push(FieldError::required(path, ""));
        } else {
            errors.extend(label_selector_errors(&path, &matching[field], Leniency::default()));
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in list(&matching[field]).iter().enumerate() {
            errors.extend(named_rule_errors(&format!("{path}.{field}[{index}]"), rule));
        }
    }
    errors
}

fn named_rule_errors(path: &str, rule: &Value) -> Vec<FieldError> {
    let names = texts(&rule["resourceNames"]);
    let mut errors = Vec::new();
    let mut seen = HashSet::new();
    for (index, name) in names.iter().enumerate() {
        let path = format!("{path}.resourceNames[{index}]");
        errors.extend(invalid_each(&path, name, path_segment_name(name)));
        if !seen.insert(*name) {
            errors.push(FieldError::duplicate(path, &json!(name)));
        }
    }
    errors.extend(rule_errors(path, rule));
    errors
}

/// Validates match conditions.
pub(crate) fn match_conditions_errors(path: &str, conditions: &Value, compile: Compile<'_>) -> Vec<FieldError> {
    let conditions = list(conditions);
    let mut errors = Vec::new();
    if conditions.len() > CONDITIONS_MAX {
        errors.push(FieldError::too_many(path, conditions.len(), CONDITIONS_MAX));
    }
    let mut names = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let expression = text(&condition["expression"]).trim();
        if expression.is_empty() {
            errors.push(FieldError::required(format!("{path}.expression"), ""));
        } else if let Some(why) = compile(expression) {
            errors.push(FieldError::invalid_string(format!("{path}.expression"), expression, why));
        }
        let name = text(&condition["name"]);
        let path = format!("{path}.name");
        if name.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        errors.extend(qualified_name_errors(&path, name));
        if !names.insert(name) {
            errors.push(FieldError::duplicate(path, &json!(name)));
        }
    }
    errors
}

/// Validates the validation actions of a binding.
pub(crate) fn actions_errors(path: &str, actions: &Value) -> Vec<FieldError> {
    let known = ["Audit", "Deny", "Warn"];
    let names = texts(actions);
    let mut errors = Vec::new();
    let mut seen = HashSet::new();
    for (index, action) in names.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if !known.contains(action) {
            errors.push(unsupported_named(&path, action, &known));
        }
        if !seen.insert(*action) {
            errors.push(duplicate_named(path, action));
        }
    }
    if names.contains(&"Deny") && names.contains(&"Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                   response and headers serves no purpose)";
        errors.push(FieldError::invalid_text(path, shown_list(actions), why));
    }
    if names.is_empty() {
        errors.push(FieldError::required(path, "at least one validation action is required"));
    }
    errors
}

/// Defaults the required failure policy of a policy.
pub(crate) fn default_failure_policy(object: &mut Value) {
    if object_at(object, "spec").is_some() {
        set_default_text(&mut object["spec"], "failurePolicy", "Fail");
    }
}
