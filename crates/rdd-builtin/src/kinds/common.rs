//! Building blocks of all kinds: access to fields with Go's zero values, upstream's common errors, and metadata rules.

use rdd_meta::{
    FieldError,
    field_error::FieldErrorKind,
    go_json, go_text, labels,
    metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN, Metadata, MetadataMut},
    names::NameRule,
};
use serde_json::{Map, Value, json};

pub(crate) const IMMUTABLE: &str = "field is immutable";

/// A string; empty if absent, as in Go.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// An integer; zero if absent, as in Go.
pub(crate) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// The items of a list; empty if absent.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The items of a string list.
pub(crate) fn texts(value: &Value) -> Vec<&str> {
    list(value).iter().map(text).collect()
}

/// The sorted members of an object; none if absent.
pub(crate) fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

/// The object in a field, for setting defaults in it; created if absent, `None` if the field has another type.
pub(crate) fn object_at<'a>(value: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    let inner = value.as_object_mut()?.entry(field).or_insert(Value::Null);
    if inner.is_null() {
        *inner = json!({});
    }
    inner.as_object_mut()
}

/// The items of a list, for setting defaults in them.
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

/// Sets a string that is absent or empty.
pub(crate) fn set_default_text(value: &mut Value, field: &str, default: &str) {
    if text(&value[field]).is_empty()
        && let Some(members) = value.as_object_mut()
    {
        members.insert(field.to_owned(), json!(default));
    }
}

/// Replaces a field of the new object by that of the old one.
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

/// Increments the generation if the field changed.
pub(crate) fn count_generation(field: &str, new: &mut Value, old: &Value) {
    if !alike(&new[field], &old[field]) {
        set_generation(new, Metadata::of(old).generation() + 1);
    }
}

/// Equality with Go's semantics: an absent list or object equals an empty one.
pub(crate) fn alike(left: &Value, right: &Value) -> bool {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    left == right || (empty(left) && empty(right))
}

/// Like `metav1.ResetObjectMetaForStatus`: the status endpoint changes no metadata except managed fields.
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

/// One Invalid error per problem.
pub(crate) fn invalid_each(path: &str, value: &str, problems: Vec<String>) -> Vec<FieldError> {
    problems.into_iter().map(|problem| FieldError::invalid_string(path, value, problem)).collect()
}

/// The JSON text of a value of a named Go string type; errors print those as JSON.
pub(crate) fn named(value: &str) -> String {
    go_json::to_string(&json!(value))
}

/// An Invalid error for a value of a named string type.
pub(crate) fn invalid_named(path: impl Into<String>, value: &str, detail: impl Into<String>) -> FieldError {
    FieldError::invalid_text(path, named(value), detail)
}

/// A NotSupported error for a value of a named string type; `supported` is sorted where upstream uses a set.
pub(crate) fn unsupported_named(path: impl Into<String>, value: &str, supported: &[&str]) -> FieldError {
    FieldError { value: Some(named(value)), ..FieldError::not_supported(path, &json!(value), supported) }
}

/// A Duplicate error for a value of a named string type.
pub(crate) fn duplicate_named(path: impl Into<String>, value: &str) -> FieldError {
    FieldError { path: path.into(), kind: FieldErrorKind::Duplicate, value: Some(named(value)), detail: String::new() }
}

/// A list as upstream prints it; an absent one is a nil slice, printed as null.
pub(crate) fn shown_list(value: &Value) -> String {
    go_json::to_string(value)
}

/// A Go struct as JSON: its fields in order, with names and JSON texts.
pub(crate) fn structure(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> = fields.iter().map(|(name, text)| format!("{}:{text}", named(name))).collect();
    format!("{{{}}}", fields.join(","))
}

/// An object as JSON with its members in this order, which must contain all possible names. Absent members are omitted.
pub(crate) fn ordered(value: &Value, order: &[&str], show: impl Fn(&str, &Value) -> String) -> String {
    let fields: Vec<(&str, String)> = order
        .iter()
        .filter_map(|name| value.get(name).filter(|value| !value.is_null()).map(|value| (*name, show(name, value))))
        .collect();
    structure(&fields)
}

/// Validates a qualified name, like `ValidateQualifiedName`.
pub(crate) fn qualified_name_errors(path: &str, name: &str) -> Vec<FieldError> {
    invalid_each(path, name, labels::key_problems(name))
}

/// The problems with a key of a ConfigMap or Secret.
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

/// The decoded size of valid base64 text, in bytes.
pub(crate) fn base64_size_bytes(encoded: &str) -> usize {
    let digits = encoded.bytes().filter(|byte| !b"=\r\n".contains(byte)).count();
    digits * 3 / 4
}

/// The problems with a port number.
pub(crate) fn port_problems(port: i64) -> Vec<String> {
    if (1..=65535).contains(&port) { Vec::new() } else { vec!["must be between 1 and 65535, inclusive".to_owned()] }
}

/// A finalizer without a domain must be one of Kubernetes' own.
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

/// Like `ValidateObjectMeta` of the core API.
pub(crate) fn metadata_errors(object: &Value, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
    let mut errors = Metadata::of(object).validate_create(namespaced, rule);
    errors.extend(kube_finalizer_errors(object));
    errors
}

/// Like `ValidateObjectMetaUpdate` of the core API.
pub(crate) fn metadata_update_errors(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Metadata::of(new).validate_update(Metadata::of(old));
    errors.extend(kube_finalizer_errors(new));
    errors
}

/// All errors of a new object: those of its kind, and then the generic ones.
pub(crate) fn created(object: &Value, namespaced: bool, errors: Vec<FieldError>) -> Vec<FieldError> {
    Metadata::of(object).last_look(namespaced, errors)
}

/// Like [`created`], for a kind that validates the metadata with its own name rule. A name that passes such a rule also passes
/// the generic one, so generic errors are possible only with a generateName, whose end some of the rules do not check.
pub(crate) fn created_by_rule(object: &Value, namespaced: bool, errors: Vec<FieldError>) -> Vec<FieldError> {
    if Metadata::of(object).generate_name().is_empty() { errors } else { created(object, namespaced, errors) }
}

/// All errors of an update: the generic ones about metadata, and then those of its kind.
pub(crate) fn updated(new: &Value, old: &Value, namespaced: bool, found: Vec<FieldError>) -> Vec<FieldError> {
    let mut errors = Metadata::of(new).validate_create(namespaced, NameRule::PathSegment);
    errors.extend(Metadata::of(new).validate_update(Metadata::of(old)));
    errors.extend(found);
    errors
}

/// The string at a dotted path.
pub(crate) fn selectable(object: &Value, field: &str) -> String {
    text(field.split('.').fold(object, |value, name| &value[name])).to_owned()
}

/// An error if an immutable field changed; the caller has the text of the new value.
pub(crate) fn immutable(
    path: &str,
    new: &Value,
    old: &Value,
    shown: impl FnOnce(&Value) -> String,
) -> Option<FieldError> {
    (!alike(new, old)).then(|| FieldError::invalid_text(path, shown(new), IMMUTABLE))
}

/// An error if an immutable string changed.
pub(crate) fn immutable_text(path: &str, new: &Value, old: &Value) -> Option<FieldError> {
    (text(new) != text(old)).then(|| FieldError::invalid_text(path, go_text::quote(text(new)), IMMUTABLE))
}
