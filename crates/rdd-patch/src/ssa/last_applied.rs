//! The last-applied annotation of client-side apply, for users who migrate to server-side apply.

use super::{
    set::Set,
    typed::{self, Duplicates},
};
use crate::{limits::check_depth, shape::Shape};
use rdd_meta::go_json;
use serde_json::{Map, Value};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The limit on the total size of an object's annotations.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
/// The name of the only manager for which the annotation is handled.
pub(super) const KUBECTL: &str = "kubectl";

/// The annotations of an object, if all values are strings.
fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    let annotations = object.get("metadata")?.get("annotations")?.as_object()?;
    annotations.values().all(Value::is_string).then_some(annotations)
}

fn last_applied(object: &Value) -> Option<&str> {
    annotations(object)?.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

/// Updates the annotation after an apply by kubectl, if the object has one. Removes it if the annotations would exceed
/// their limit.
pub(super) fn refresh(object: &mut Value, applied: &Value) {
    if last_applied(object).is_none() {
        return;
    }
    let configuration = encode(applied);
    let Some(annotations) = object["metadata"]["annotations"].as_object_mut() else { return };
    annotations.insert(ANNOTATION.to_owned(), Value::String(configuration));
    let size: usize = annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
    if size > ANNOTATIONS_BYTES_MAX {
        annotations.remove(ANNOTATION);
    }
}

/// The applied configuration without the annotation itself, as upstream encodes it: one line with a newline at the end.
fn encode(applied: &Value) -> String {
    let mut applied = applied.clone();
    if let Some(metadata) = applied.get_mut("metadata").and_then(Value::as_object_mut) {
        // Upstream's accessor returns nothing if a value is not a string, and removes the field on writing back.
        let strings =
            metadata.get("annotations").and_then(Value::as_object).filter(|all| all.values().all(Value::is_string));
        match strings.cloned() {
            Some(mut strings) => {
                strings.remove(ANNOTATION);
                metadata.insert("annotations".to_owned(), Value::Object(strings));
            }
            None => {
                metadata.remove("annotations");
            }
        }
    }
    let mut text = String::new();
    go_json::write_value(&mut text, &applied);
    text.push('\n');
    text
}

/// The fields that client-side apply set and that have not changed since. kubectl may take them over without a
/// conflict.
pub(super) fn allowed_conflicts(live: &Value, api_version: &str, kind: &str, shape: &Shape) -> Option<Set> {
    let last: Value = serde_json::from_str(last_applied(live)?).ok()?;
    let field = |name: &str| last.get(name).and_then(Value::as_str);
    if field("apiVersion") != Some(api_version) || field("kind") != Some(kind) || check_depth(&last).is_err() {
        return None;
    }
    typed::validate(live, shape, Duplicates::Refuse).ok()?;
    typed::validate(&last, shape, Duplicates::Refuse).ok()?;
    let set = typed::to_set(&last, shape).ok()?;
    let changes = typed::compare(&last, live, shape).ok()?;
    Some(set.difference(&changes.modified).difference(&changes.added).difference(&changes.removed))
}
