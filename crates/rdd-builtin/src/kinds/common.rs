//! What the rules of all kinds are made of: reading fields as Go does, upstream's common errors, and metadata.

use rdd_meta::{
    FieldError,
    field_error::FieldErrorKind,
    go_json, go_text, labels,
    metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN, Metadata, MetadataMut},
    names::NameRule,
};
use serde_json::{Map, Value, json};

pub(crate) const IMMUTABLE: &str = "field is immutable";

/// A text; what is absent is empty, as in Go.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A number; what is absent is zero, as in Go.
pub(crate) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// The items of a list; what is absent is empty.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The texts of a list of texts.
pub(crate) fn texts(value: &Value) -> Vec<&str> {
    list(value).iter().map(text).collect()
}

/// The members of an object, sorted; what is absent has none.
pub(crate) fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

/// An object that a default goes into; made if it is absent, and `None` if there is something else in its place.
pub(crate) fn object_at<'a>(value: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    let inner = value.as_object_mut()?.entry(field).or_insert(Value::Null);
    if inner.is_null() {
        *inner = json!({});
    }
    inner.as_object_mut()
}

/// The items of a list that defaults go into.
pub(crate) fn items_mut<'a>(value: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    value.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Sets a field that is absent or null.
pub(crate) fn set_default(value: &mut Value, field: &str, default: Value) {
    if let Some(members) = value.as_object_mut()
        && members.get(field).is_none_or(Value::is_null)
    {
        members.insert(field.to_owned(), default);
    }
}

/// Sets a text that is absent or empty.
pub(crate) fn set_default_text(value: &mut Value, field: &str, default: &str) {
    if text(&value[field]).is_empty()
        && let Some(members) = value.as_object_mut()
    {
        members.insert(field.to_owned(), json!(default));
    }
}

/// Puts a field of the old object in the place of the new one's.
pub(crate) fn keep(field: &str, new: &mut Value, old: &Value) {
    let Some(members) = new.as_object_mut() else { return };
    match old.get(field) {
        Some(value) => members.insert(field.to_owned(), value.clone()),
        None => members.remove(field),
    };
}

/// Removes a field.
pub(crate) fn drop_field(field: &str, object: &mut Value) {
    if let Some(members) = object.as_object_mut() {
        members.remove(field);
    }
}

/// Sets the generation.
pub(crate) fn set_generation(object: &mut Value, generation: i64) {
    if let Some(mut metadata) = MetadataMut::of(object) {
        metadata.set_generation(generation);
    }
}

/// Counts the generation up if a field has changed.
pub(crate) fn count_generation(field: &str, new: &mut Value, old: &Value) {
    if !alike(&new[field], &old[field]) {
        set_generation(new, Metadata::of(old).generation() + 1);
    }
}

/// Equality as Go has it, to which an absent list or object is an empty one.
pub(crate) fn alike(left: &Value, right: &Value) -> bool {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    left == right || (empty(left) && empty(right))
}

/// As `metav1.ResetObjectMetaForStatus` has it: of the metadata, a status endpoint writes only the managed fields.
pub(crate) fn keep_metadata(new: &mut Value, old: &Value) {
    const KEPT: [&str; 6] =
        ["deletionTimestamp", "generation", "labels", "annotations", "finalizers", "ownerReferences"];
    let old = Metadata::of(old);
    if let Some(mut metadata) = MetadataMut::of(new) {
        for field in KEPT {
            metadata.set(field, old.get(field).cloned());
        }
    }
}

/// One error per problem.
pub(crate) fn invalid_each(path: &str, value: &str, problems: Vec<String>) -> Vec<FieldError> {
    problems.into_iter().map(|problem| FieldError::invalid_string(path, value, problem)).collect()
}

/// A text whose Go type is not `string` but named after it. Those are printed as JSON.
pub(crate) fn named(value: &str) -> String {
    go_json::to_string(&json!(value))
}

/// A malformed text of a named type.
pub(crate) fn invalid_named(path: impl Into<String>, value: &str, detail: impl Into<String>) -> FieldError {
    FieldError::invalid_text(path, named(value), detail)
}

/// A text of a named type that is none of those that are known, which are sorted if upstream keeps them in a set.
pub(crate) fn unsupported_named(path: impl Into<String>, value: &str, supported: &[&str]) -> FieldError {
    FieldError { value: Some(named(value)), ..FieldError::not_supported(path, &json!(value), supported) }
}

/// A text of a named type that is there twice.
pub(crate) fn duplicate_named(path: impl Into<String>, value: &str) -> FieldError {
    FieldError { path: path.into(), kind: FieldErrorKind::Duplicate, value: Some(named(value)), detail: String::new() }
}

/// A list as upstream prints it: one that is absent is a nil slice, which is null.
pub(crate) fn shown_list(value: &Value) -> String {
    go_json::to_string(value)
}

/// A Go struct as JSON: its fields in their order, with the names and the texts given.
pub(crate) fn structure(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> = fields.iter().map(|(name, text)| format!("{}:{text}", named(name))).collect();
    format!("{{{}}}", fields.join(","))
}

/// An object as JSON with its members in the given order, which must name all that it can have. What is absent is left out.
pub(crate) fn ordered(value: &Value, order: &[&str], show: impl Fn(&str, &Value) -> String) -> String {
    let fields: Vec<(&str, String)> = order
        .iter()
        .filter_map(|name| value.get(name).filter(|value| !value.is_null()).map(|value| (*name, show(name, value))))
        .collect();
    structure(&fields)
}

/// A qualified name, as `ValidateQualifiedName` has it.
pub(crate) fn qualified_name_errors(path: &str, name: &str) -> Vec<FieldError> {
    invalid_each(path, name, labels::key_problems(name))
}

/// What may be the key of a ConfigMap or a Secret.
pub(crate) fn config_key_problems(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if key.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        problems.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match key {
        "." | ".." => problems.push(format!("must not be '{key}'")),
        _ if key.starts_with("..") => problems.push("must not start with '..'".to_owned()),
        _ => {}
    }
    problems
}

/// The number of bytes behind a base64 text that is well formed.
pub(crate) fn base64_size_bytes(encoded: &str) -> usize {
    let digits = encoded.bytes().filter(|byte| !b"=\r\n".contains(byte)).count();
    digits * 3 / 4
}

/// What is wrong with a number of a port.
pub(crate) fn port_problems(port: i64) -> Vec<String> {
    if (1..=65535).contains(&port) { Vec::new() } else { vec!["must be between 1 and 65535, inclusive".to_owned()] }
}

/// A finalizer without a domain is one of Kubernetes' own.
pub(crate) fn kube_finalizer_error(path: &str, name: &str) -> Option<FieldError> {
    let standard = ["kubernetes", FINALIZER_ORPHAN, FINALIZER_FOREGROUND].contains(&name);
    let why = "name is neither a standard finalizer name nor is it fully qualified";
    (!name.contains('/') && !standard).then(|| FieldError::invalid_string(path, name, why))
}

fn kube_finalizer_errors(object: &Value) -> Vec<FieldError> {
    let finalizers = Metadata::of(object).finalizers();
    let named = finalizers.iter().enumerate();
    named.filter_map(|(index, name)| kube_finalizer_error(&format!("metadata.finalizers[{index}]"), name)).collect()
}

/// `ValidateObjectMeta` of the core API.
pub(crate) fn metadata_errors(object: &Value, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
    let mut errors = Metadata::of(object).validate_create(namespaced, rule);
    errors.extend(kube_finalizer_errors(object));
    errors
}

/// `ValidateObjectMetaUpdate` of the core API.
pub(crate) fn metadata_update_errors(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Metadata::of(new).validate_update(Metadata::of(old));
    errors.extend(kube_finalizer_errors(new));
    errors
}

/// All that is wrong with a new object, after what its kind has found.
pub(crate) fn created(object: &Value, namespaced: bool, errors: Vec<FieldError>) -> Vec<FieldError> {
    Metadata::of(object).last_look(namespaced, errors)
}

/// The same for a kind that has looked at the metadata itself, by a rule of its own for names. Whatever name passes one passes
/// the rule of the last look, so that can find something new only in a prefix: of some the other rules do not see the end.
pub(crate) fn created_by_rule(object: &Value, namespaced: bool, errors: Vec<FieldError>) -> Vec<FieldError> {
    if Metadata::of(object).generate_name().is_empty() { errors } else { created(object, namespaced, errors) }
}

/// All that is wrong with an update: what is so of any kind's metadata, and then what its kind has found.
pub(crate) fn updated(new: &Value, old: &Value, namespaced: bool, found: Vec<FieldError>) -> Vec<FieldError> {
    let mut errors = Metadata::of(new).validate_create(namespaced, NameRule::PathSegment);
    errors.extend(Metadata::of(new).validate_update(Metadata::of(old)));
    errors.extend(found);
    errors
}

/// The text at a path with dots.
pub(crate) fn selectable(object: &Value, field: &str) -> String {
    text(field.split('.').fold(object, |value, name| &value[name])).to_owned()
}

/// A field that may not change, of which the text of the new value is at hand.
pub(crate) fn immutable(
    path: &str,
    new: &Value,
    old: &Value,
    shown: impl FnOnce(&Value) -> String,
) -> Option<FieldError> {
    (!alike(new, old)).then(|| FieldError::invalid_text(path, shown(new), IMMUTABLE))
}

/// A plain text that may not change.
pub(crate) fn immutable_text(path: &str, new: &Value, old: &Value) -> Option<FieldError> {
    (text(new) != text(old)).then(|| FieldError::invalid_text(path, go_text::quote(text(new)), IMMUTABLE))
}
