//! APIService: its name consists of version and group, and a local one is always available.

use rdd_meta::{
    FieldError, go_text,
    metadata::Metadata,
    names::{NameRule, dns_1035_label, dns_1123_subdomain, path_segment_name},
};
use serde_json::{Value, json};

use super::common::{
    base64_size_bytes, created, drop_field, invalid_each, keep, list, number, port_problems, set_default, text,
    unsupported_named, updated,
};
use crate::strategy::Strategy;

pub(crate) static STRATEGY: Strategy = Strategy {
    name_rule: NameRule::PathSegment,
    unconditional_update: false,
    default: |object| {
        if let Some(service) = object.get_mut("spec").and_then(|spec| spec.get_mut("service")) {
            set_default(service, "port", json!(443));
        }
    },
    prepare_for_create,
    prepare_for_update: |endpoint, new, old| {
        if endpoint == "status" {
            keep("spec", new, old);
            for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
                if let Some(metadata) = new.get_mut("metadata") {
                    keep(field, metadata, &old["metadata"]);
                }
            }
        } else {
            keep("status", new, old);
        }
    },
    reset_fields: |endpoint| if endpoint == "status" { &["spec", "metadata"] } else { &["status"] },
    validate_create: |object| created(object, false, errors(object)),
    validate_update: |endpoint, new, old| {
        let mut found = Metadata::of(new).validate_update(Metadata::of(old));
        found.extend(if endpoint == "status" { status_errors(new) } else { errors(new) });
        updated(new, old, false, found)
    },
    ..Strategy::CLUSTER
};

/// A locally served APIService is available from its creation.
fn prepare_for_create(object: &mut Value) {
    drop_field("status", object);
    if !object["spec"]["service"].is_null() {
        return;
    }
    let mut condition = json!({
        "type": "Available",
        "status": "True",
        "reason": "Local",
        "message": "Local APIServices are always available",
    });
    if let Some(now) = Metadata::of(object).creation_timestamp() {
        condition["lastTransitionTime"] = json!(now.format_time());
    }
    if let Some(members) = object.as_object_mut() {
        members.insert("status".to_owned(), json!({ "conditions": [condition] }));
    }
}

fn errors(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let (group, version) = (text(&spec["group"]), text(&spec["version"]));
    let mut errors = metadata_errors(object, &format!("{version}.{group}"));
    if group.is_empty() && version != "v1" {
        let why = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required("spec.group", why));
    }
    if !group.is_empty() {
        errors.extend(invalid_each("spec.group", group, dns_1123_subdomain(group)));
    }
    errors.extend(invalid_each("spec.version", version, dns_1035_label(version)));
    for (field, max) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let priority = number(&spec[field]);
        if !(1..=max).contains(&priority) {
            let why = format!("must be positive and less than {max}");
            errors.push(FieldError::invalid(format!("spec.{field}"), &json!(priority), why));
        }
    }
    errors.extend(service_errors(spec));
    errors
}

/// Validates the metadata: the name must be version and group, and generateName follows the same rule.
fn metadata_errors(object: &Value, wanted: &str) -> Vec<FieldError> {
    let metadata = Metadata::of(object);
    let problems = |name: &str| match path_segment_name(name) {
        problems if !problems.is_empty() => problems,
        _ if name != wanted => vec![format!("must be `spec.version+\".\"+spec.group`: {}", go_text::quote(wanted))],
        _ => Vec::new(),
    };
    let mut errors = Vec::new();
    for (path, name) in [("metadata.generateName", metadata.generate_name()), ("metadata.name", metadata.name())] {
        if !name.is_empty() {
            errors.extend(invalid_each(path, name, problems(name)));
        }
    }
    let generic = metadata.validate_create(false, NameRule::PathSegment);
    let judged = |error: &FieldError| {
        error.path == "metadata.generateName" || (error.path == "metadata.name" && !metadata.name().is_empty())
    };
    errors.extend(generic.into_iter().filter(|error| !judged(error)));
    errors
}

fn service_errors(spec: &Value) -> Vec<FieldError> {
    let (service, insecure) = (&spec["service"], spec["insecureSkipTLSVerify"] == Value::Bool(true));
    let bundle_bytes = base64_size_bytes(text(&spec["caBundle"]));
    let refused_insecure =
        |why: &str| FieldError::invalid("spec.insecureSkipTLSVerify", &spec["insecureSkipTLSVerify"], why);
    let mut errors = Vec::new();
    if service.is_null() {
        if bundle_bytes != 0 {
            let why = "local APIServices may not have a caBundle";
            errors.push(FieldError::invalid_string("spec.caBundle", &format!("{bundle_bytes} bytes"), why));
        }
        if insecure {
            errors.push(refused_insecure("local APIServices may not have insecureSkipTLSVerify"));
        }
        return errors;
    }
    for field in ["namespace", "name"] {
        if text(&service[field]).is_empty() {
            errors.push(FieldError::required(format!("spec.service.{field}"), ""));
        }
    }
    let port = number(&service["port"]);
    let problems = port_problems(port);
    if !problems.is_empty() {
        let why = format!("port is not valid: {}", problems.join(", "));
        errors.push(FieldError::invalid("spec.service.port", &json!(port), why));
    }
    if insecure && bundle_bytes > 0 {
        errors.push(refused_insecure("may not be true if caBundle is present"));
    }
    errors
}

fn status_errors(object: &Value) -> Vec<FieldError> {
    let known = ["True", "False", "Unknown"];
    let conditions = list(&object["status"]["conditions"]).iter().enumerate();
    let unknown = conditions.filter(|(_, condition)| !known.contains(&text(&condition["status"])));
    let refused = |(index, condition): (usize, &Value)| {
        unsupported_named(format!("status.conditions[{index}].status"), text(&condition["status"]), &known)
    };
    unknown.map(refused).collect()
}
