//! ResourceQuota: validates resource names, quantities and scopes.

use std::{cmp::Ordering, collections::HashMap};

use rdd_meta::{FieldError, field_error::Repeated, labels, names::NameRule};
use serde_json::{Value, json};

use super::{
    common::{
        IMMUTABLE, created_by_rule, drop_field, invalid_named, keep, list, members, metadata_errors,
        metadata_update_errors, named, shown_list, structure, text, texts, updated,
    },
    quantity::Quantity,
};
use crate::strategy::Strategy;

pub(crate) static STRATEGY: Strategy = Strategy {
    default: |object| {
        for (part, field) in [("spec", "hard"), ("status", "hard"), ("status", "used")] {
            default_quantities(object, part, field);
        }
    },
    prepare_for_create: |object| drop_field("status", object),
    prepare_for_update: |endpoint, new, old| keep(if endpoint == "status" { "spec" } else { "status" }, new, old),
    reset_fields: |endpoint| if endpoint == "status" { &["spec"] } else { &["status"] },
    validate_create: |object| {
        let mut errors = metadata_errors(object, true, NameRule::DnsSubdomain);
        errors.extend(spec_errors(&object["spec"]));
        errors.extend(status_errors(&object["status"]));
        created_by_rule(object, true, errors)
    },
    validate_update: |endpoint, new, old| updated(new, old, true, update_errors(endpoint, new, old)),
    warnings: |new, old| if old.is_none() { warnings(&new["spec"]["hard"]) } else { Vec::new() },
    ..Strategy::NAMESPACED
};

const COMPUTE: [&str; 6] = ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
const OTHER: [&str; 4] =
    ["ephemeral-storage", "requests.storage", "requests.ephemeral-storage", "limits.ephemeral-storage"];
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];

/// Rounds quantities up to thousandths; all others keep their text.
fn default_quantities(object: &mut Value, part: &str, field: &str) {
    let amounts = object.get_mut(part).and_then(|part| part.get_mut(field)).and_then(Value::as_object_mut);
    for amount in amounts.into_iter().flat_map(|amounts| amounts.values_mut()) {
        if let Some(quantity) = Quantity::parse(text(amount))
            && let Some(rounded) = quantity.round_up_to_milli()
        {
            *amount = json!(rounded.canonical());
        }
    }
}

fn update_errors(endpoint: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = metadata_update_errors(new, old);
    if endpoint == "status" {
        if text(&new["metadata"]["resourceVersion"]).is_empty() {
            errors.push(FieldError::required("resourceVersion", ""));
        }
        errors.extend(status_errors(&new["status"]));
        return errors;
    }
    errors.extend(spec_errors(&new["spec"]));
    let set = |quota: &Value| {
        let mut scopes: Vec<String> = texts(&quota["spec"]["scopes"]).into_iter().map(str::to_owned).collect();
        scopes.sort_unstable();
        scopes.dedup();
        scopes
    };
    if set(new) != set(old) {
        errors.push(FieldError::invalid_text("spec.scopes", shown_list(&new["spec"]["scopes"]), IMMUTABLE));
    }
    errors
}

fn status_errors(status: &Value) -> Vec<FieldError> {
    let mut errors = amount_errors("status.hard", &status["hard"]);
    errors.extend(amount_errors("status.used", &status["used"]));
    errors
}

fn spec_errors(spec: &Value) -> Vec<FieldError> {
    let mut errors = amount_errors("spec.hard", &spec["hard"]);
    errors.extend(scopes_errors(spec));
    if !spec["scopeSelector"].is_null() {
        errors.extend(scope_selector_errors(spec));
    }
    errors
}

fn amount_errors(path: &str, amounts: &Value) -> Vec<FieldError> {
    let of_amount = |(name, amount): (&str, &Value)| {
        let path = format!("{path}[{name}]");
        let mut errors = resource_name_errors(&path, name);
        let Some(quantity) = Quantity::parse(text(amount)) else { return errors };
        if quantity.is_negative() {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid_string(&path, text(amount), why));
        }
        if (COUNTED.contains(&name) || is_extended(name)) && !quantity.is_integer() {
            errors.push(FieldError::invalid_string(&path, text(amount), "must be an integer"));
        }
        errors
    };
    members(amounts).flat_map(of_amount).collect()
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-") || name.starts_with("requests.hugepages-")
}

fn is_standard_for_quota(name: &str) -> bool {
    COMPUTE.contains(&name) || OTHER.contains(&name) || COUNTED.contains(&name) || is_huge_pages(name)
}

/// Whether the resource is an extended resource, which is not defined by Kubernetes.
fn is_extended(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    !native && !name.starts_with("requests.") && labels::key_problems(&format!("requests.{name}")).is_empty()
}

fn resource_name_errors(path: &str, name: &str) -> Vec<FieldError> {
    let problems = labels::key_problems(name);
    let malformed = !problems.is_empty();
    let mut errors: Vec<FieldError> = problems.into_iter().map(|problem| invalid_named(path, name, problem)).collect();
    if name.contains('/') {
        return errors;
    }
    if !malformed && !is_standard_for_quota(name) && name != "storage" {
        errors.push(invalid_named(path, name, "must be a standard resource type or fully qualified"));
    }
    if !is_standard_for_quota(name) {
        errors.push(invalid_named(path, name, "must be a standard resource for quota"));
    }
    errors
}

fn is_valid_for(scope: &str, name: &str) -> bool {
    match scope {
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            name == "pods" || COMPUTE.contains(&name)
        }
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => name == "persistentvolumeclaims" || name == "requests.storage",
        _ => true,
    }
}

/// Counts the limits that each scope does not support. Duplicate scopes are evaluated once.
fn count_misplaced<'a>(spec: &Value, scopes: &[&'a str]) -> HashMap<&'a str, usize> {
    let mut counts = HashMap::new();
    for scope in scopes {
        counts.entry(*scope).or_insert_with(|| {
            let limits = members(&spec["hard"]).filter(|(name, _)| is_standard_for_quota(name));
            limits.filter(|(name, _)| !is_valid_for(scope, name)).count()
        });
    }
    counts
}

fn conflict_count(scopes: &[&str]) -> usize {
    let pairs = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];
    pairs.iter().filter(|pair| pair.iter().all(|scope| scopes.contains(scope))).count()
}

fn scopes_errors(spec: &Value) -> Vec<FieldError> {
    let scopes = texts(&spec["scopes"]);
    let mut shown = Repeated::new(|| shown_list(&spec["scopes"]));
    let mut refuse = |count: usize, why: &'static str| -> Vec<FieldError> {
        let texts = shown.by_ref().take(count);
        texts.map(|text| FieldError::invalid_text("spec.scopes", text, why)).collect()
    };
    let misplaced = count_misplaced(spec, &scopes);
    let mut errors = Vec::new();
    for scope in &scopes {
        errors.extend(refuse(usize::from(!SCOPES.contains(scope)), "unsupported scope"));
        errors.extend(refuse(misplaced[scope], "unsupported scope applied to resource"));
    }
    errors.extend(refuse(conflict_count(&scopes), "conflicting scopes"));
    errors
}

fn scope_selector_errors(spec: &Value) -> Vec<FieldError> {
    let path = "spec.scopeSelector.matchExpressions";
    let requirements = list(&spec["scopeSelector"]["matchExpressions"]);
    let scopes: Vec<&str> = requirements.iter().map(|requirement| text(&requirement["scopeName"])).collect();
    let misplaced = count_misplaced(spec, &scopes);
    let mut shown = Repeated::new(|| scope_selector_text(&spec["scopeSelector"]));
    let mut errors = Vec::new();
    for (requirement, scope) in requirements.iter().zip(scopes.iter().copied()) {
        if !SCOPES.contains(&scope) {
            errors.push(invalid_named(format!("{path}.scopeName"), scope, "unsupported scope"));
        }
        let why = "unsupported scope applied to resource";
        let texts = shown.by_ref().take(misplaced[scope]);
        errors.extend(texts.map(|text| FieldError::invalid_text(path, text, why)));
        errors.extend(operator_errors(path, requirement));
    }
    let conflict = FieldError::invalid_text(path, shown_list(&spec["scopes"]), "conflicting scopes");
    errors.extend(std::iter::repeat_n(conflict, conflict_count(&scopes)));
    errors
}

fn operator_errors(path: &str, requirement: &Value) -> Vec<FieldError> {
    const EXISTS_ONLY: [&str; 5] =
        ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];
    let (scope, operator) = (text(&requirement["scopeName"]), text(&requirement["operator"]));
    let values = list(&requirement["values"]);
    let mut errors = Vec::new();
    if EXISTS_ONLY.contains(&scope) && operator != "Exists" {
        let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
                   ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                   ResourceQuotaScopeCrossNamespacePodAffinity";
        errors.push(invalid_named(format!("{path}.operator"), operator, why));
    }
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.push(FieldError::required(format!("{path}.values"), why));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.push(FieldError::invalid(format!("{path}.values"), &requirement["values"], why));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.push(invalid_named(format!("{path}.operator"), other, "not a valid selector operator")),
    }
    errors
}

fn scope_selector_text(selector: &Value) -> String {
    let of_requirement = |requirement: &Value| {
        structure(&[
            ("ScopeName", named(text(&requirement["scopeName"]))),
            ("Operator", named(text(&requirement["operator"]))),
            ("Values", shown_list(&requirement["values"])),
        ])
    };
    let requirements: Vec<String> = list(&selector["matchExpressions"]).iter().map(of_requirement).collect();
    structure(&[("MatchExpressions", format!("[{}]", requirements.join(",")))])
}

fn warnings(hard: &Value) -> Vec<String> {
    let of_resource = |name: &str| {
        let find = |name: String| {
            let amount = text(&hard[&name]);
            Quantity::parse(amount).map(|quantity| (name, amount, quantity))
        };
        let plain = || matches!(name, "cpu" | "memory").then(|| find(name.to_owned())).flatten();
        let (request_name, request_text, request) = find(format!("requests.{name}")).or_else(plain)?;
        let (limit_name, limit_text, limit) = find(format!("limits.{name}"))?;
        (request.compare(limit) == Ordering::Greater).then(|| {
            format!("ResourceQuota {request_name} ({request_text}) should be less than {limit_name} ({limit_text})")
        })
    };
    ["cpu", "memory", "storage", "ephemeral-storage"].into_iter().filter_map(of_resource).collect()
}
