//! Namespace: finalizers in its spec, a phase, and a label with its name.

use rdd_meta::{
    FieldError, labels,
    metadata::{Metadata, MetadataMut},
    names::NameRule,
    time::Timestamp,
};
use serde_json::{Value, json};

use super::common::{
    created_by_rule, invalid_each, invalid_named, keep, kube_finalizer_error, metadata_errors, metadata_update_errors,
    object_at, set_default_text, text, texts, updated,
};
use crate::strategy::Strategy;

/// The finalizer that holds a namespace until it is empty.
pub const FINALIZER: &str = "kubernetes";
/// The label that every namespace has, with its name as the value.
pub const LABEL_NAME: &str = "kubernetes.io/metadata.name";

pub(crate) static STRATEGY: Strategy = Strategy {
    name_rule: NameRule::DnsLabel,
    default,
    prepare_for_create,
    prepare_for_update,
    reset_fields: |endpoint| if endpoint == "status" { &["spec"] } else { &["status"] },
    validate_create: |object| created_by_rule(object, false, errors(object)),
    validate_update: |endpoint, new, old| updated(new, old, false, update_errors(endpoint, new, old)),
    begin_deletion,
    may_vanish: |object| texts(&object["spec"]["finalizers"]).is_empty(),
    selectable_fields: &["status.phase"],
    ..Strategy::CLUSTER
};

fn default(object: &mut Value) {
    label(object);
    if object_at(object, "status").is_some() {
        set_default_text(&mut object["status"], "phase", "Active");
    }
}

fn label(object: &mut Value) {
    let name = Metadata::of(object).name().to_owned();
    if !name.is_empty()
        && let Some(mut metadata) = MetadataMut::of(object)
    {
        metadata.set_label(LABEL_NAME, Some(&name));
    }
}

fn prepare_for_create(object: &mut Value) {
    let mut finalizers: Vec<String> = texts(&object["spec"]["finalizers"]).into_iter().map(str::to_owned).collect();
    if !finalizers.iter().any(|name| name == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    if let Some(spec) = object_at(object, "spec") {
        spec.insert("finalizers".to_owned(), json!(finalizers));
    }
    if let Some(members) = object.as_object_mut() {
        members.insert("status".to_owned(), json!({"phase": "Active"}));
    }
    label(object);
}

fn prepare_for_update(endpoint: &str, new: &mut Value, old: &Value) {
    match endpoint {
        "status" => keep("spec", new, old),
        "finalize" => keep("status", new, old),
        _ => {
            // The spec of a namespace has only finalizers.
            keep("spec", new, old);
            keep("status", new, old);
        }
    }
    label(new);
}

fn finalizer_errors(path: &str, name: &str) -> Vec<FieldError> {
    let mut errors = invalid_each(path, name, labels::key_problems(name));
    errors.extend(kube_finalizer_error(path, name));
    errors
}

fn errors(object: &Value) -> Vec<FieldError> {
    let mut errors = metadata_errors(object, false, NameRule::DnsLabel);
    for name in texts(&object["spec"]["finalizers"]) {
        errors.extend(finalizer_errors("spec.finalizers", name));
    }
    errors
}

fn update_errors(endpoint: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let of_metadata = metadata_update_errors(new, old);
    let own = match endpoint {
        "status" => return [of_metadata, phase_error(new).into_iter().collect()].concat(),
        "finalize" => {
            let names = texts(&new["spec"]["finalizers"]).into_iter().enumerate();
            let errors = names.flat_map(|(index, name)| finalizer_errors(&format!("spec.finalizers[{index}]"), name));
            return [of_metadata, errors.collect()].concat();
        }
        _ => errors(new),
    };
    [own, of_metadata].concat()
}

fn phase_error(object: &Value) -> Option<FieldError> {
    let phase = text(&object["status"]["phase"]);
    let (wanted, why) = if Metadata::of(object).is_terminating() {
        ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty")
    } else {
        ("Active", "may only be 'Active' if `deletionTimestamp` is empty")
    };
    (phase != wanted).then(|| invalid_named("status.Phase", phase, why))
}

/// The first deletion marks the namespace as terminating; it stays until its spec has no finalizers.
fn begin_deletion(object: &mut Value, now: Timestamp) -> bool {
    let terminating = Metadata::of(object).is_terminating();
    if !terminating && let Some(mut metadata) = MetadataMut::of(object) {
        metadata.set_deletion(Some(now), None);
    }
    if let Some(status) = object_at(object, "status") {
        status.insert("phase".to_owned(), json!("Terminating"));
    }
    !terminating || !texts(&object["spec"]["finalizers"]).is_empty()
}
