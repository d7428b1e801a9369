//! The virtual resources: access reviews, token reviews and token requests.

use rdd_meta::{FieldError, go_json};
use serde_json::{Value, json};

use super::{
    common::{list, named, number, object_at, ordered, set_default, structure, text},
    selector::{Leniency, field_requirement_errors, label_requirement_errors},
};
use crate::strategy::Strategy;

/// A review is not stored and has no name; its metadata is validated only where a rule requires it.
const QUESTION: Strategy =
    Strategy { validate_create: |_| Vec::new(), validate_update: |_, _, _| Vec::new(), ..Strategy::CLUSTER };

pub(crate) static SUBJECT_ACCESS: Strategy = Strategy {
    validate_create: |review| {
        let mut errors = spec_errors(&review["spec"], true);
        errors.extend(metadata_error(review, false));
        errors
    },
    ..QUESTION
};

pub(crate) static SELF_SUBJECT_ACCESS: Strategy = Strategy {
    validate_create: |review| {
        let mut errors = spec_errors(&review["spec"], false);
        errors.extend(metadata_error(review, false));
        errors
    },
    ..QUESTION
};

pub(crate) static LOCAL_SUBJECT_ACCESS: Strategy =
    Strategy { validate_create: |review| local_errors(review), ..QUESTION };

pub(crate) static SELF_SUBJECT_RULES: Strategy = Strategy {
    bad_request: |review| text(&review["spec"]["namespace"]).is_empty().then(|| "no namespace on request".to_owned()),
    ..QUESTION
};

pub(crate) static SELF_SUBJECT: Strategy = QUESTION;

pub(crate) static TOKEN_REVIEW: Strategy = Strategy {
    bad_request: |review| {
        let missing = text(&review["spec"]["token"]).is_empty();
        missing.then(|| "token is required for TokenReview in authentication".to_owned())
    },
    ..QUESTION
};

pub(crate) static TOKEN_REQUEST: Strategy = Strategy {
    default: |request| {
        if object_at(request, "spec").is_some() {
            set_default(&mut request["spec"], "expirationSeconds", json!(3600));
        }
    },
    validate_create: |request| expiration_error(&request["spec"]).into_iter().collect(),
    ..QUESTION
};

fn expiration_error(spec: &Value) -> Option<FieldError> {
    let seconds = number(&spec["expirationSeconds"]);
    let why = match seconds {
        ..600 => "may not specify a duration less than 10 minutes",
        600..=0x1_0000_0000 => return None,
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    Some(FieldError::invalid("spec.expirationSeconds", &json!(seconds), why))
}

fn spec_errors(spec: &Value, needs_subject: bool) -> Vec<FieldError> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let mut errors = Vec::new();
    if !resource.is_null() && !path.is_null() {
        let why = "cannot be specified in combination with resourceAttributes";
        errors.push(FieldError::invalid_text("spec.nonResourceAttributes", path_text(path), why));
    }
    if resource.is_null() && path.is_null() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(FieldError::invalid("spec.resourceAttributes", &Value::Null, why));
    }
    if needs_subject && text(&spec["user"]).is_empty() && list(&spec["groups"]).is_empty() {
        errors.push(FieldError::invalid_string("spec.user", "", "at least one of user or group must be specified"));
    }
    for (field, check) in [
        ("fieldSelector", field_requirement_errors as fn(&str, &Value, Leniency) -> Vec<FieldError>),
        ("labelSelector", label_requirement_errors),
    ] {
        if !resource[field].is_null() {
            errors.extend(selector_errors(&format!("spec.resourceAttributes.{field}"), &resource[field], check));
        }
    }
    errors
}

fn selector_errors(
    path: &str,
    selector: &Value,
    check: fn(&str, &Value, Leniency) -> Vec<FieldError>,
) -> Vec<FieldError> {
    let raw = text(&selector["rawSelector"]);
    let requirements = list(&selector["requirements"]);
    let mut errors = Vec::new();
    if !raw.is_empty() && !requirements.is_empty() {
        let why = "may not specified at the same time as requirements";
        errors.push(FieldError::invalid_string(format!("{path}.rawSelector"), raw, why));
    }
    if raw.is_empty() && requirements.is_empty() {
        let why = format!("when {path} is specified, requirements or rawSelector is required");
        errors.push(FieldError::required(format!("{path}.requirements"), why));
    }
    let leniency = Leniency { unknown_operators: true, ..Leniency::default() };
    for (index, requirement) in requirements.iter().enumerate() {
        errors.extend(check(&format!("{path}.requirements[{index}]"), requirement, leniency));
    }
    errors
}

fn local_errors(review: &Value) -> Vec<FieldError> {
    let spec = &review["spec"];
    let mut errors = spec_errors(spec, true);
    errors.extend(metadata_error(review, true));
    let namespace = text(&spec["resourceAttributes"]["namespace"]);
    if !spec["resourceAttributes"].is_null() && namespace != text(&review["metadata"]["namespace"]) {
        let why = "must match metadata.namespace";
        errors.push(FieldError::invalid_string("spec.resourceAttributes.namespace", namespace, why));
    }
    let path = &spec["nonResourceAttributes"];
    if !path.is_null() {
        let why = "disallowed on this kind of request";
        errors.push(FieldError::invalid_text("spec.nonResourceAttributes", path_text(path), why));
    }
    errors
}

fn path_text(attributes: &Value) -> String {
    structure(&[("Path", named(text(&attributes["path"]))), ("Verb", named(text(&attributes["verb"])))])
}

/// Checks that a review has no metadata, except for a namespace where allowed and what the server itself sets.
fn metadata_error(review: &Value, namespaced: bool) -> Option<FieldError> {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(_) => false,
    };
    let mut members = review["metadata"].as_object().into_iter().flatten();
    let allowed = |name: &str| name == "managedFields" || (namespaced && name == "namespace");
    let set = members.any(|(name, value)| !allowed(name) && !empty(value));
    let why = if namespaced { "must be empty except for namespace" } else { "must be empty" };
    set.then(|| FieldError::invalid_text("metadata", metadata_text(&review["metadata"]), why))
}

/// Formats metadata like Go.
fn metadata_text(metadata: &Value) -> String {
    const OWNER: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    const MANAGED: [&str; 7] = ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];
    let plain = |_: &str, value: &Value| go_json::to_string(value);
    let each = |value: &Value, order: &[&str]| {
        let items: Vec<String> = list(value).iter().map(|item| ordered(item, order, plain)).collect();
        format!("[{}]", items.join(","))
    };
    ordered(metadata, &rdd_meta::metadata::FIELDS, |name, value| match name {
        "ownerReferences" => each(value, &OWNER),
        "managedFields" => each(value, &MANAGED),
        _ => go_json::to_string(value),
    })
}
