//! ValidatingAdmissionPolicy and its binding: all validation except compiling expressions.

use std::collections::HashSet;

use rdd_meta::{
    FieldError,
    metadata::Metadata,
    names::{NameRule, dns_1035_label, dns_1123_subdomain, path_segment_name},
};
use rdd_schema::columns::JsonPath;
use serde_json::{Value, json};

use super::{
    admission::{
        FAILURE_POLICIES, TAKE_ALL, actions_errors, default_failure_policy, default_match_resources, known_error,
        match_conditions_errors, match_resources_errors,
    },
    common::{
        alike, count_generation, created, drop_field, invalid_each, keep, keep_metadata, list, named,
        qualified_name_errors, set_generation, structure, text, unsupported_named, updated,
    },
    condition::condition_errors,
    selector::{Leniency, label_selector_errors},
};
use crate::strategy::Strategy;

const ANNOTATIONS_MAX: usize = 20;
const VALUE_EXPRESSION_BYTES_MAX: usize = 5 * 1024;

pub(crate) static POLICY: Strategy = Strategy {
    default: |object| {
        default_failure_policy(object);
        default_match_resources(object, "matchConstraints");
    },
    prepare_for_create: |object| {
        drop_field("status", object);
        set_generation(object, 1);
    },
    prepare_for_update: |endpoint, new, old| {
        if endpoint == "status" {
            keep("spec", new, old);
            keep_metadata(new, old);
        } else {
            keep("status", new, old);
            count_generation("spec", new, old);
        }
    },
    reset_fields: |endpoint| if endpoint == "status" { &["spec", "metadata"] } else { &["status"] },
    validate_create: |object| created(object, false, policy_errors(object, true)),
    validate_update: |endpoint, new, old| {
        let found = if endpoint == "status" {
            status_errors(&new["status"])
        } else {
            let (new_spec, old_spec) = (&new["spec"], &old["spec"]);
            let same = new_spec["paramKind"] == old_spec["paramKind"]
                && alike(&new_spec["matchConditions"], &old_spec["matchConditions"]);
            policy_errors(new, !same)
        };
        updated(new, old, false, found)
    },
    unconditional_update: false,
    ..Strategy::CLUSTER
};

pub(crate) static BINDING: Strategy = Strategy {
    default: |object| default_match_resources(object, "matchResources"),
    prepare_for_create: |object| set_generation(object, 1),
    prepare_for_update: |_, new, old| count_generation("spec", new, old),
    validate_create: |object| created(object, false, binding_errors(object)),
    validate_update: |_, new, old| updated(new, old, false, binding_errors(new)),
    unconditional_update: false,
    ..Strategy::CLUSTER
};

fn policy_errors(object: &Value, match_conditions: bool) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Metadata::of(object).validate_create(false, NameRule::DnsSubdomain);
    if spec["failurePolicy"].is_null() {
        errors.push(FieldError::required("spec.failurePolicy", ""));
    }
    errors.extend(known_error("spec.failurePolicy".to_owned(), &spec["failurePolicy"], &FAILURE_POLICIES));
    if !spec["paramKind"].is_null() {
        errors.extend(param_kind_errors(&spec["paramKind"]));
    }
    let constraints = &spec["matchConstraints"];
    if constraints.is_null() {
        errors.push(FieldError::required("spec.matchConstraints", ""));
    } else {
        errors.extend(match_resources_errors("spec.matchConstraints", constraints));
        if list(&constraints["resourceRules"]).is_empty() {
            errors.push(FieldError::required("spec.matchConstraints.resourceRules", ""));
        }
    }
    if match_conditions {
        errors.extend(match_conditions_errors("spec.matchConditions", &spec["matchConditions"], TAKE_ALL));
    }
    for (index, variable) in list(&spec["variables"]).iter().enumerate() {
        errors.extend(variable_errors(&format!("spec.variables[{index}]"), variable));
    }
    errors.extend(checks_errors(object));
    errors
}

fn checks_errors(object: &Value) -> Vec<FieldError> {
    let validations = list(&object["spec"]["validations"]);
    let annotations = list(&object["spec"]["auditAnnotations"]);
    if validations.is_empty() && annotations.is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        return ["spec.validations", "spec.auditAnnotations"].map(|path| FieldError::required(path, why)).into();
    }
    let mut errors = Vec::new();
    for (index, validation) in validations.iter().enumerate() {
        errors.extend(validation_errors(&format!("spec.validations[{index}]"), validation));
    }
    if annotations.len() > ANNOTATIONS_MAX {
        let why = format!("must not have more than {ANNOTATIONS_MAX} auditAnnotations");
        errors.push(FieldError::invalid_text("spec.auditAnnotations", annotations_text(annotations), why));
    }
    let mut keys = HashSet::new();
    for (index, annotation) in annotations.iter().enumerate() {
        let path = format!("spec.auditAnnotations[{index}]");
        errors.extend(annotation_errors(&path, annotation, Metadata::of(object).name()));
        let key = text(&annotation["key"]);
        if !keys.insert(key) {
            errors.push(FieldError::duplicate(format!("{path}.key"), &json!(key)));
        }
    }
    errors
}

fn annotations_text(annotations: &[Value]) -> String {
    let of_annotation = |annotation: &Value| {
        let field = |name: &str| named(text(&annotation[name]));
        structure(&[("Key", field("key")), ("ValueExpression", field("valueExpression"))])
    };
    format!("[{}]", annotations.iter().map(of_annotation).collect::<Vec<_>>().join(","))
}

fn param_kind_errors(kind: &Value) -> Vec<FieldError> {
    let path = "spec.paramKind.apiVersion";
    let api_version = text(&kind["apiVersion"]);
    let refused = |value: &str, why: String| FieldError::invalid_string(path, value, why);
    let mut errors = Vec::new();
    let (group, version) = match api_version {
        "/" => ("", ""),
        _ => api_version.split_once('/').unwrap_or(("", api_version)),
    };
    if api_version.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if version.contains('/') {
        errors.push(refused(api_version, format!("unexpected GroupVersion string: {api_version}")));
    } else {
        let problems = dns_1123_subdomain(group);
        if !group.is_empty() && !problems.is_empty() {
            errors.push(refused(group, problems.join(",")));
        }
        let problems = dns_1035_label(version);
        if version.is_empty() {
            errors.push(refused(api_version, "version must be specified".to_owned()));
        } else if !problems.is_empty() {
            errors.push(refused(version, problems.join(",")));
        }
    }
    let kind = text(&kind["kind"]);
    let problems = dns_1035_label(&kind.to_lowercase());
    if kind.is_empty() {
        errors.push(FieldError::required("spec.paramKind.kind", ""));
    } else if !problems.is_empty() {
        let why = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
        errors.push(FieldError::invalid_string("spec.paramKind.kind", kind, why));
    }
    errors
}

fn variable_errors(path: &str, variable: &Value) -> Vec<FieldError> {
    let (name, expression) = (text(&variable["name"]), text(&variable["expression"]));
    let mut errors = Vec::new();
    if name.trim().is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), "name is not specified"));
    } else if !is_identifier(name) {
        errors.push(FieldError::invalid_string(format!("{path}.name"), name, "must be a valid CEL identifier"));
    }
    if expression.trim().is_empty() {
        errors.push(FieldError::required(format!("{path}.expression"), "expression is not specified"));
    }
    errors
}

fn is_identifier(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(is_word) && !name.starts_with(|first: char| first.is_ascii_digit()) && !rdd_cel::is_reserved(name)
}

fn validation_errors(path: &str, validation: &Value) -> Vec<FieldError> {
    let [expression, message_expression, message] =
        ["expression", "messageExpression", "message"].map(|field| text(&validation[field]));
    let blank = |value: &str| !value.is_empty() && value.trim().is_empty();
    let refused =
        |field: &str, value: &str, why: &str| FieldError::invalid_string(format!("{path}.{field}"), value, why);
    let mut errors = Vec::new();
    if expression.trim().is_empty() {
        errors.push(FieldError::required(format!("{path}.expression"), "expression is not specified"));
    }
    if blank(message_expression) {
        errors.push(refused("messageExpression", message_expression, "must be non-empty if specified"));
    }
    if blank(message) {
        errors.push(refused("message", message, "must be non-empty if specified"));
    } else if message.trim().contains(['\n', '\r']) {
        errors.push(refused("message", message, "must not contain line breaks"));
    }
    let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
    errors.extend(known_error(format!("{path}.reason"), &validation["reason"], &reasons));
    errors
}

fn annotation_errors(path: &str, annotation: &Value, policy: &str) -> Vec<FieldError> {
    let key = text(&annotation["key"]);
    let key_path = format!("{path}.key");
    let mut errors = if policy.is_empty() {
        vec![FieldError::invalid_string(key_path, key, "requires metadata.name be non-empty")]
    } else {
        qualified_name_errors(&key_path, &format!("{policy}/{key}"))
    };
    let expression = text(&annotation["valueExpression"]).trim();
    let path = format!("{path}.valueExpression");
    if expression.is_empty() {
        errors.push(FieldError::required(path, "valueExpression is not specified"));
    } else if expression.len() > VALUE_EXPRESSION_BYTES_MAX {
        let why = format!("must not exceed {VALUE_EXPRESSION_BYTES_MAX} bytes in length");
        errors.push(FieldError::required(path, why));
    }
    errors
}

fn status_errors(status: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, warning) in list(&status["typeChecking"]["expressionWarnings"]).iter().enumerate() {
        let path = format!("status.typeChecking.expressionWarnings[{index}]");
        if text(&warning["warning"]).is_empty() {
            errors.push(FieldError::required(format!("{path}.warning"), ""));
        }
        let path = format!("{path}.fieldRef");
        let reference = text(&warning["fieldRef"]).trim();
        if reference.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if let Err(problem) = JsonPath::parse(reference) {
            errors.push(FieldError::invalid_string(path, reference, format!("invalid JSONPath: {problem}")));
        }
    }
    errors.extend(condition_errors("status.conditions", &status["conditions"]));
    errors
}

fn binding_errors(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let policy = text(&spec["policyName"]);
    let mut errors = Metadata::of(object).validate_create(false, NameRule::DnsSubdomain);
    if policy.is_empty() {
        errors.push(FieldError::required("spec.policyName", ""));
    } else {
        errors.extend(invalid_each("spec.policyName", policy, dns_1123_subdomain(policy)));
    }
    if !spec["paramRef"].is_null() {
        errors.extend(param_ref_errors("spec.paramRef", &spec["paramRef"]));
    }
    errors.extend(match_resources_errors("spec.matchResources", &spec["matchResources"]));
    errors.extend(actions_errors("spec.validationActions", &spec["validationActions"]));
    errors
}

fn param_ref_errors(path: &str, reference: &Value) -> Vec<FieldError> {
    let (name, selector) = (text(&reference["name"]), &reference["selector"]);
    let both = !name.is_empty() && !selector.is_null();
    let why = "name and selector are mutually exclusive";
    let mut errors = invalid_each(&format!("{path}.name"), name, path_segment_name(name));
    if both {
        errors.push(FieldError::forbidden(format!("{path}.name"), why));
    }
    errors.extend(label_selector_errors(&format!("{path}.selector"), selector, Leniency::default()));
    if both {
        errors.push(FieldError::forbidden(format!("{path}.selector"), why));
    }
    if name.is_empty() && selector.is_null() {
        errors.push(FieldError::required(path, "one of name or selector must be specified"));
    }
    let path = format!("{path}.parameterNotFoundAction");
    match text(&reference["parameterNotFoundAction"]) {
        "" => errors.push(FieldError::required(path, "")),
        "Deny" | "Allow" => {}
        other => errors.push(unsupported_named(path, other, &["Deny", "Allow"])),
    }
    errors
}
