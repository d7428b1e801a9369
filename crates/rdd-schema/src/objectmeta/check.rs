//! Validation of ObjectMeta: names, labels, annotations, owner references, finalizers and managed fields.

use std::collections::HashSet;

use rdd_meta::{
    field_error::Repeated,
    go_text, labels,
    names::{self, NameRule},
};
use serde_json::Value;

use super::decode::{ManagedFields, ObjectMeta, OwnerReference};
use crate::{
    field::{Error, Path},
    format,
};

const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;
const FIELD_MANAGER_MAX_BYTES: usize = 128;
const SUBRESOURCE_MAX_BYTES: usize = 256;

/// Validates the metadata of an embedded resource: in any namespace or none, and with any path segment as its name.
pub(super) fn embedded(path: &Path<'_>, meta: &ObjectMeta, errors: &mut Vec<Error>) {
    let name_errors = |name: &str, prefix: bool| NameRule::PathSegment.check_either(name, prefix);
    object_meta(path, meta, !meta.namespace.is_empty(), &name_errors, errors);
}

/// Validates the metadata of a new object, as upstream's `ValidateObjectMeta`.
pub(super) fn object_meta(
    path: &Path<'_>,
    meta: &ObjectMeta,
    namespaced: bool,
    name_errors: &dyn Fn(&str, bool) -> Vec<String>,
    errors: &mut Vec<Error>,
) {
    if !meta.generate_name.is_empty() {
        invalid(&path.child("generateName"), &meta.generate_name, name_errors(&meta.generate_name, true), errors);
    }
    if meta.name.is_empty() {
        errors.push(Error::required(path.child("name"), "name or generateName is required"));
    } else {
        invalid(&path.child("name"), &meta.name, name_errors(&meta.name, false), errors);
    }
    let namespace = path.child("namespace");
    match (namespaced, meta.namespace.is_empty()) {
        (true, true) => errors.push(Error::required(namespace, "")),
        (true, false) => invalid(&namespace, &meta.namespace, names::dns_1123_label(&meta.namespace), errors),
        (false, true) => {}
        (false, false) => errors.push(Error::forbidden(namespace, "not allowed on this type")),
    }
    if meta.generation < 0 {
        errors.push(Error::invalid(path.child("generation"), meta.generation, "must be greater than or equal to 0"));
    }
    labels_and_annotations(path, meta, errors);
    owners(&path.child("ownerReferences"), &meta.owner_references, errors);
    finalizers(&path.child("finalizers"), &meta.finalizers, errors);
    managed_fields(&path.child("managedFields"), &meta.managed_fields, errors);
}

/// Validates the metadata of an update, as upstream's `ValidateObjectMetaUpdate`.
pub(super) fn update(path: &Path<'_>, new: &ObjectMeta, old: &ObjectMeta, errors: &mut Vec<Error>) {
    // During a deletion, finalizers may only be removed.
    if old.deletion.is_some() {
        let known: HashSet<&String> = old.finalizers.iter().collect();
        let mut fresh: Vec<&String> = new.finalizers.iter().filter(|one| !known.contains(one)).collect();
        fresh.sort();
        fresh.dedup();
        if !fresh.is_empty() {
            let quoted: Vec<String> = fresh.iter().map(|one| go_text::quote(one)).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                quoted.join(", ")
            );
            errors.push(Error::forbidden(path.child("finalizers"), detail));
        }
    }
    if new.resource_version.is_empty() {
        errors.push(Error::invalid(path.child("resourceVersion"), "", "must be specified for an update"));
    }
    if new.generation < old.generation {
        errors.push(Error::invalid(path.child("generation"), new.generation, "must not be decremented"));
    }
    let time =
        |instant: Option<format::Instant>| instant.map_or(Value::Null, |instant| format::format_time(instant).into());
    let number = |seconds: Option<i64>| seconds.map_or(Value::Null, Value::from);
    // Times are compared as they are written, with seconds only.
    let fixed: [(&str, Value, Value); 6] = [
        ("name", new.name.as_str().into(), old.name.as_str().into()),
        ("namespace", new.namespace.as_str().into(), old.namespace.as_str().into()),
        ("uid", new.uid.as_str().into(), old.uid.as_str().into()),
        ("creationTimestamp", time(new.creation), time(old.creation)),
        ("deletionTimestamp", time(new.deletion), time(old.deletion)),
        ("deletionGracePeriodSeconds", number(new.deletion_grace_seconds), number(old.deletion_grace_seconds)),
    ];
    for (name, new, old) in fixed {
        if new != old {
            errors.push(Error::invalid(path.child(name), &new, "field is immutable"));
        }
    }
    labels_and_annotations(path, new, errors);
    owners(&path.child("ownerReferences"), &new.owner_references, errors);
    managed_fields(&path.child("managedFields"), &new.managed_fields, errors);
}

fn invalid(path: &Path<'_>, value: &str, objections: Vec<String>, errors: &mut Vec<Error>) {
    errors.extend(objections.into_iter().map(|objection| Error::invalid(path, value, objection)));
}

fn labels_and_annotations(path: &Path<'_>, meta: &ObjectMeta, errors: &mut Vec<Error>) {
    let labels = path.child("labels");
    for (key, value) in &meta.labels {
        invalid(&labels, key, labels::key_problems(key), errors);
        invalid(&labels, value, labels::value_problems(value), errors);
    }
    let annotations = path.child("annotations");
    for key in meta.annotations.keys() {
        // Keys of annotations may have upper case in their prefix, unlike keys of labels.
        invalid(&annotations, key, labels::key_problems(&key.to_lowercase()), errors);
    }
    let size: usize = meta.annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > ANNOTATIONS_MAX_BYTES {
        errors.push(Error::too_long(annotations, ANNOTATIONS_MAX_BYTES));
    }
}

/// Validates owner references; at most one may be the controller.
fn owners(path: &Path<'_>, references: &[OwnerReference], errors: &mut Vec<Error>) {
    let mut controller: Option<String> = None;
    let mut shown = Repeated::new(|| {
        let all: Vec<String> = references.iter().map(OwnerReference::to_go_json).collect();
        format!("[{}]", all.join(","))
    });
    for reference in references {
        owner(path, reference, errors);
        if reference.controller != Some(true) {
            continue;
        }
        let this = format!("{}/{}", reference.kind, reference.name);
        match &controller {
            Some(first) => {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                );
                errors.extend(shown.next().map(|all| Error::invalid_text(path, all, detail)));
            }
            None => controller = Some(this),
        }
    }
}

fn owner(path: &Path<'_>, reference: &OwnerReference, errors: &mut Vec<Error>) {
    let version = match reference.api_version.split_once('/') {
        Some((_, version)) if version.contains('/') => "",
        Some((_, version)) => version,
        None => &reference.api_version,
    };
    if version.is_empty() {
        errors.push(Error::invalid(
            path.child("apiVersion"),
            reference.api_version.as_str(),
            "version must not be empty",
        ));
    }
    for (name, value) in [("kind", &reference.kind), ("name", &reference.name), ("uid", &reference.uid)] {
        if value.is_empty() {
            errors.push(Error::invalid(path.child(name), "", "must not be empty"));
        }
    }
    // The only kind that upstream does not accept as an owner.
    if reference.kind == "Event" && matches!(reference.api_version.as_str(), "v1" | "/v1") {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(Error::invalid_text(path, reference.to_go_json(), detail));
    }
}

fn finalizers(path: &Path<'_>, finalizers: &[String], errors: &mut Vec<Error>) {
    for finalizer in finalizers {
        invalid(path, finalizer, labels::key_problems(finalizer), errors);
    }
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(Error::invalid(path, finalizers, detail));
    }
}

fn managed_fields(path: &Path<'_>, entries: &[ManagedFields], errors: &mut Vec<Error>) {
    for (index, entry) in entries.iter().enumerate() {
        let path = path.index(index);
        if !matches!(entry.operation.as_str(), "Apply" | "Update") {
            errors.push(Error::invalid(
                path.child("operation"),
                entry.operation.as_str(),
                "must be `Apply` or `Update`",
            ));
        }
        if !entry.fields_type.is_empty() && entry.fields_type != "FieldsV1" {
            errors.push(Error::invalid(path.child("fieldsType"), entry.fields_type.as_str(), "must be `FieldsV1`"));
        }
        let manager = path.child("manager");
        if entry.manager.len() > FIELD_MANAGER_MAX_BYTES {
            errors.push(Error::too_long(manager, FIELD_MANAGER_MAX_BYTES));
        }
        invalid(&manager, &entry.manager, entry.unprintable(), errors);
        if entry.subresource.len() > SUBRESOURCE_MAX_BYTES {
            errors.push(Error::too_long(path.child("subresource"), SUBRESOURCE_MAX_BYTES));
        }
    }
}
