//! Event in its two groups: validated leniently in the core API, strictly in `events.k8s.io`; both are the same stored object.

use rdd_meta::{
    FieldError, go_json, go_text,
    metadata::Metadata,
    names::{NameRule, dns_1123_subdomain},
};
use serde_json::Value;

use super::common::{
    alike, created, immutable, immutable_text, invalid_each, metadata_errors, metadata_update_errors, named, number,
    qualified_name_errors, selectable, structure, text, updated,
};
use crate::strategy::Strategy;

pub(crate) static CORE: Strategy = Strategy {
    create_on_update: true,
    validate_create: |object| created(object, true, legacy_errors(object, "reportingComponent")),
    validate_update: |_, new, old| updated(new, old, true, legacy_errors(new, "reportingComponent")),
    selectable_fields: &[
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ],
    selectable_field: |event, field| match field {
        "source" => {
            let component = text(&event["source"]["component"]);
            if component.is_empty() { text(&event["reportingComponent"]) } else { component }.to_owned()
        }
        _ => selectable(event, field),
    },
    ..Strategy::NAMESPACED
};

pub(crate) static EVENTS: Strategy = Strategy {
    create_on_update: true,
    validate_create: |object| created(object, true, strict_errors(&to_core(object.clone()))),
    validate_update: |_, new, old| {
        let (core_new, core_old) = (to_core(new.clone()), to_core(old.clone()));
        updated(new, old, true, strict_update_errors(&core_new, &core_old))
    },
    selectable_fields: &[
        "reason",
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
        "regarding.apiVersion",
        "regarding.resourceVersion",
        "regarding.fieldPath",
        "reportingController",
        "type",
    ],
    ..Strategy::NAMESPACED
};

/// The fields with different names: in the core API, in `events.k8s.io`.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Converts an event of `events.k8s.io` to the core API.
pub fn to_core(mut event: Value) -> Value {
    rename(&mut event, "v1", |(core, events)| (events, core));
    event
}

/// Converts an event of the core API to `events.k8s.io`.
pub fn from_core(mut event: Value) -> Value {
    rename(&mut event, "events.k8s.io/v1", |(core, events)| (core, events));
    event
}

fn rename(
    event: &mut Value,
    api_version: &str,
    direction: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let Some(members) = event.as_object_mut() else { return };
    members.insert("apiVersion".to_owned(), api_version.into());
    for (from, to) in RENAMED.map(direction) {
        if let Some(value) = members.remove(from) {
            members.insert(to.to_owned(), value);
        }
    }
}

/// Validates the rules of both groups. Legacy events have no eventTime.
fn legacy_errors(event: &Value, controller_field: &str) -> Vec<FieldError> {
    let namespace = Metadata::of(event).namespace();
    let involved = text(&event["involvedObject"]["namespace"]);
    let is_old = text(&event["eventTime"]).is_empty();
    let matches = match (is_old, involved) {
        (true, "") => matches!(namespace, "" | "default"),
        (true, involved) => namespace == involved,
        (false, "") => matches!(namespace, "default" | "kube-system"),
        (false, _) => true,
    };
    let mut errors = Vec::new();
    if !matches {
        let why = "does not match event.namespace";
        errors.push(FieldError::invalid_string("involvedObject.namespace", involved, why));
    }
    if !is_old {
        errors.extend(new_event_errors(event, controller_field));
    }
    errors.extend(invalid_each("namespace", namespace, dns_1123_subdomain(namespace)));
    errors
}

fn new_event_errors(event: &Value, controller_field: &str) -> Vec<FieldError> {
    let controller = text(&event["reportingComponent"]);
    let mut errors = Vec::new();
    if controller.is_empty() {
        errors.push(FieldError::required(controller_field, ""));
    }
    errors.extend(qualified_name_errors(controller_field, controller));
    for (field, required, bytes_max) in
        [("reportingInstance", true, 128), ("action", true, 128), ("reason", true, 128), ("message", false, 1024)]
    {
        let value = text(&event[field]);
        if required && value.is_empty() {
            errors.push(FieldError::required(field, ""));
        }
        if value.len() > bytes_max {
            let why = format!("can have at most {bytes_max} characters");
            errors.push(FieldError::invalid_string(field, "", why));
        }
    }
    errors
}

/// Validates a new event of `events.k8s.io`, given in its core form.
fn strict_errors(event: &Value) -> Vec<FieldError> {
    let unset = |field: &str| FieldError::invalid_string(field, "", "needs to be unset");
    let mut errors = legacy_errors(event, "reportingController");
    errors.extend(metadata_errors(event, true, NameRule::DnsSubdomain));
    errors.extend(series_errors(&event["series"]));
    if text(&event["eventTime"]).is_empty() {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = text(&event["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid_string("type", "", format!("has invalid value: {kind}")));
    }
    for field in ["firstTimestamp", "lastTimestamp"] {
        if !text(&event[field]).is_empty() {
            errors.push(unset(field));
        }
    }
    if number(&event["count"]) != 0 {
        errors.push(unset("count"));
    }
    if ["component", "host"].iter().any(|field| !text(&event["source"][field]).is_empty()) {
        errors.push(unset("source"));
    }
    errors
}

fn series_errors(series: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if series.is_null() {
        return errors;
    }
    if number(&series["count"]) < 2 {
        errors.push(FieldError::invalid_string("series.count", "", "should be at least 2"));
    }
    if text(&series["lastObservedTime"]).is_empty() {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
    errors
}

fn strict_update_errors(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = legacy_errors(new, "reportingController");
    errors.extend(metadata_update_errors(new, old));
    if !alike(&new["series"], &old["series"]) || new["series"].is_null() != old["series"].is_null() {
        errors.extend(series_errors(&new["series"]));
    }
    let plain = |field: &str| immutable_text(field, &new[field], &old[field]);
    let shown = |field: &str, show: fn(&Value) -> String| immutable(field, &new[field], &old[field], show);
    let count_changed = number(&new["count"]) != number(&old["count"]);
    let count = number(&new["count"]).to_string();
    errors.extend(
        [
            shown("involvedObject", reference_text),
            plain("reason"),
            plain("message"),
            shown("source", source_text),
            shown("firstTimestamp", go_json::to_string),
            shown("lastTimestamp", go_json::to_string),
            count_changed.then(|| FieldError::invalid_text("count", count, super::common::IMMUTABLE)),
            plain("reason"),
            plain("type"),
            shown("eventTime", go_json::to_string),
            plain("action"),
            shown("related", |value| if value.is_null() { "null".to_owned() } else { reference_text(value) }),
            controller_error(new, old),
            plain("reportingInstance"),
        ]
        .into_iter()
        .flatten(),
    );
    errors
}

fn controller_error(new: &Value, old: &Value) -> Option<FieldError> {
    let [new, old] = [new, old].map(|event| text(&event["reportingComponent"]));
    let why = super::common::IMMUTABLE;
    (new != old).then(|| FieldError::invalid_text("reportingController", go_text::quote(new), why))
}

fn reference_text(reference: &Value) -> String {
    let fields = [
        ("Kind", "kind"),
        ("Namespace", "namespace"),
        ("Name", "name"),
        ("UID", "uid"),
        ("APIVersion", "apiVersion"),
        ("ResourceVersion", "resourceVersion"),
        ("FieldPath", "fieldPath"),
    ];
    structure(&fields.map(|(shown, field)| (shown, named(text(&reference[field])))))
}

fn source_text(source: &Value) -> String {
    structure(
        &[("Component", "component"), ("Host", "host")].map(|(shown, field)| (shown, named(text(&source[field])))),
    )
}
