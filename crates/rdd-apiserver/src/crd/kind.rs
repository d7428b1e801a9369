//! Implements [`Kind`] for one version of a custom resource, based on its schema.

use std::{
    borrow::Cow,
    collections::HashSet,
    sync::{Arc, OnceLock},
};

use rdd_cel::rules::{Failure, Limits};
use rdd_meta::{
    FieldError, Status,
    go_text::quote,
    labels,
    metadata::{Metadata, MetadataMut},
    names::NameRule,
    time::Timestamp,
};
use rdd_patch::{
    shape::Shape,
    ssa::{self, PathElement},
};
use rdd_schema::{
    Structural,
    columns::{self, JsonPath},
    crd::Scale,
    default, field,
    resource::{self, Resource},
};
use serde_json::{Value, json};

use super::{errors, schema::Schema};
use crate::registry::{Column, Finding, Kind, Origin};

/// One version of a custom resource. Its schema is compiled for the first object, its rules for the first validation.
#[derive(Debug)]
pub struct CustomKind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) namespaced: bool,
    /// Whether the status is a subresource.
    pub(super) has_status: bool,
    pub(super) defaults_status: OnceLock<bool>,
    pub(super) scale: Option<Arc<Scale>>,
    pub(super) columns: Vec<Column>,
    /// The JSON paths of the columns.
    pub(super) column_paths: Vec<String>,
    pub(super) parsed_columns: OnceLock<Vec<Option<JsonPath>>>,
    /// The selectable fields, without the leading dot that they have in the definition.
    pub(super) selectable: Vec<String>,
    pub(super) schema: Schema,
    pub(super) resets: Resets,
}

/// The reset fields of each endpoint.
#[derive(Debug, Default)]
pub(super) struct Resets {
    object: ssa::Filter,
    status: ssa::Filter,
    scale: ssa::Filter,
}

impl Resets {
    pub(super) fn new(api_version: &str, has_status: bool) -> Self {
        let only = |field: &str| {
            let set = ssa::Set::from_iter([vec![PathElement::field(field)]]);
            ssa::Filter::from([(api_version.to_owned(), set)])
        };
        let object = if has_status { only("status") } else { ssa::Filter::new() };
        Self { object, status: only("spec"), scale: ssa::Filter::new() }
    }
}

impl CustomKind {
    /// The `group/version` of the kind.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// The schema as its author wrote it, for OpenAPI documents; null if the definition cannot be parsed.
    pub fn schema_source(&self) -> Value {
        self.schema.source().unwrap_or_default()
    }

    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Converts an object of another version to this one: fields that the schema does not specify are pruned. As upstream, defaults
    /// of this version are not applied.
    pub(super) fn adopt(&self, object: &mut Value) {
        match self.schema.structural() {
            Ok(schema) => self.resource(schema).convert(object),
            // A schema that does not compile means corruption; the object keeps its fields then.
            Err(_) => object["apiVersion"] = self.api_version().into(),
        }
    }

    /// Like [`adopt`](Self::adopt), for storing the object: with the defaults of this version.
    pub(super) fn store(&self, object: &mut Value) {
        match self.schema.structural() {
            Ok(schema) => self.resource(schema).store(object),
            Err(_) => object["apiVersion"] = self.api_version().into(),
        }
    }

    /// Whether upstream defaults the status of an object when it reads it from its store: the status is a subresource, so a create
    /// removes it, and the schema has a default for it.
    fn defaults_status(&self) -> bool {
        *self.defaults_status.get_or_init(|| self.has_status && self.schema.has_status_default())
    }

    fn resource<'a>(&'a self, schema: &'a Structural) -> Resource<'a> {
        Resource {
            group: &self.group,
            version: &self.version,
            kind: &self.kind,
            namespaced: self.namespaced,
            schema,
            scale: self.scale.as_deref(),
        }
    }

    /// Adds the errors of the CEL rules to those of the schema. Rules are skipped if a schema error prevents evaluating them.
    fn with_rules(&self, found: Vec<field::Error>, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let not_checked = resource::rules_not_checked(&found);
        let mut errors = found;
        if let Some(rules) = self.schema.rules() {
            match not_checked {
                Some(error) => errors.push(error),
                None => {
                    errors.extend(rules.validate("", new, old, limits(old)).failures.into_iter().map(errors::of_rule))
                }
            }
        }
        errors
    }

    /// The rule failures that an update may keep because it does not change the values concerned (ratcheting).
    fn ratcheted(&self, new: &Value, old: &Value) -> Vec<Failure> {
        self.schema
            .rules()
            .map(|rules| rules.validate("", new, Some(old), limits(Some(old))).ratcheted)
            .unwrap_or_default()
    }
}

fn limits(old: Option<&Value>) -> Limits {
    Limits { ratcheting: old.is_some(), ..Limits::default() }
}

impl Kind for CustomKind {
    fn is_expensive(&self) -> bool {
        self.schema.is_expensive()
    }

    fn decode(&self, object: &mut Value, origin: Origin) -> Result<Vec<Finding>, Status> {
        let schema = self.schema.structural().map_err(|error| Status::internal(error.to_string()))?;
        self.resource(schema).decode(object, origin).map_err(|error| {
            // The message names the object's own type if it has one, as upstream's does.
            let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
            let kind = Some(text("kind")).filter(|kind| !kind.is_empty()).unwrap_or(&self.kind);
            let version = text("apiVersion").rsplit('/').next().filter(|version| !version.is_empty());
            let version = quote(version.unwrap_or(&self.version));
            Status::bad_request(format!("{kind} in version {version} cannot be handled as a {}: {error}", self.kind))
        })
    }

    fn prune(&self, object: &mut Value) {
        self.adopt(object);
    }

    fn default(&self, object: &mut Value) {
        default::fill(object, self.schema.structural().ok().map(|schema| &**schema));
    }

    fn default_stored(&self, object: &Value) -> Option<Value> {
        if object.get("status").is_some() || !self.defaults_status() {
            return None;
        }
        let mut defaulted = object.clone();
        self.default(&mut defaulted);
        Some(defaulted)
    }

    fn defaults_when_read(&self) -> bool {
        self.defaults_status()
    }

    fn shape(&self) -> Shape {
        self.schema.shape().clone()
    }

    fn empty(&self) -> Cow<'_, Value> {
        Cow::Owned(json!({"apiVersion": self.api_version(), "kind": self.kind}))
    }

    fn reset_fields(&self, subresource: &str) -> &ssa::Filter {
        match subresource {
            "status" => &self.resets.status,
            "scale" => &self.resets.scale,
            _ => &self.resets.object,
        }
    }

    fn name_rule(&self) -> NameRule {
        NameRule::DnsSubdomain
    }

    fn prepare_for_create(&self, object: &mut Value) {
        // The status is a subresource, so a create cannot set it.
        if self.has_status
            && let Some(members) = object.as_object_mut()
        {
            members.remove("status");
        }
        if let Some(mut metadata) = MetadataMut::of(object) {
            metadata.set_generation(1);
        }
        drop_signs_of_zeros(object);
    }

    fn prepare_for_update(&self, subresource: &str, new: &mut Value, old: &Value) {
        drop_signs_of_zeros(new);
        if subresource == "status" {
            take_status(new, old);
        } else {
            if self.has_status {
                keep_member(new, old, "status");
            }
            count_generation(new, old);
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        let found = self.schema.structural().map_or_else(
            |_| Vec::new(),
            |schema| self.with_rules(self.resource(schema).validate_create(object), object, None),
        );
        Metadata::of(object).last_look(self.namespaced, found)
    }

    fn validate_update(&self, subresource: &str, new: &Value, old: &Value) -> Vec<FieldError> {
        let Ok(schema) = self.schema.structural() else { return Vec::new() };
        let resource = self.resource(schema);
        let found = match subresource {
            "status" => resource.validate_status_update(new, old),
            _ => resource.validate_update(new, old),
        };
        self.with_rules(found, new, Some(old))
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = finalizer_warnings(new, old);
        let ratcheted = old.map(|old| self.ratcheted(new, old)).unwrap_or_default();
        warnings.extend(ratcheted.iter().map(Failure::to_string));
        warnings
    }

    fn selectable_fields(&self) -> &[String] {
        &self.selectable
    }

    fn selectable_field(&self, object: &Value, field: &str) -> String {
        let value = columns::simple(field, object).filter(|value| !value.is_null());
        value.map(columns::printed).unwrap_or_default()
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let parse = || self.column_paths.iter().map(|path| JsonPath::parse(path).ok()).collect();
        let paths = self.parsed_columns.get_or_init(parse);
        let cell = |(path, column): (&Option<JsonPath>, &Column)| {
            path.as_ref().map_or(Value::Null, |path| path.cell(&column.kind, object, now.seconds()))
        };
        // The first column is the name, which needs no JSON path.
        let name = Value::from(Metadata::of(object).name());
        std::iter::once(name).chain(paths.iter().zip(&self.columns).skip(1).map(cell)).collect()
    }
}

/// Replaces `-0.0` by 0. Upstream stores it as `-0`, which decodes as an integer, and integers have no negative zero. The recursion is
/// bounded by the depth limit of the parser.
fn drop_signs_of_zeros(value: &mut Value) {
    match value {
        Value::Number(number) if number.as_f64().is_some_and(|float| float == 0.0 && float.is_sign_negative()) => {
            *value = 0.into();
        }
        Value::Array(items) => items.iter_mut().for_each(drop_signs_of_zeros),
        Value::Object(entries) => entries.values_mut().for_each(drop_signs_of_zeros),
        _ => {}
    }
}

/// Limits an update of the status to the status and the managed fields.
fn take_status(new: &mut Value, old: &Value) {
    let status = new.as_object_mut().and_then(|members| members.remove("status"));
    let managed = Metadata::of(new).get("managedFields").cloned();
    // Start from the old object, so that nothing else of the request is stored.
    *new = old.clone();
    if let Some(mut metadata) = MetadataMut::of(new) {
        metadata.set("managedFields", managed);
    }
    if let Some(members) = new.as_object_mut() {
        match status {
            Some(status) => members.insert("status".to_owned(), status),
            None => members.remove("status"),
        };
    }
}

/// Restores a member from the old object; removes it if the old object lacks it.
pub(super) fn keep_member(new: &mut Value, old: &Value, name: &str) {
    if let Some(members) = new.as_object_mut() {
        match old.get(name) {
            Some(kept) => members.insert(name.to_owned(), kept.clone()),
            None => members.remove(name),
        };
    }
}

/// Increments the generation if anything but the metadata changed.
fn count_generation(new: &mut Value, old: &Value) {
    let differs = match (new.as_object(), old.as_object()) {
        (Some(new), Some(old)) => {
            let content = |members: &serde_json::Map<String, Value>| {
                members.len() - usize::from(members.contains_key("metadata"))
            };
            content(new) != content(old)
                || new.iter().any(|(name, value)| name != "metadata" && old.get(name) != Some(value))
        }
        _ => new != old,
    };
    if differs && let Some(mut metadata) = MetadataMut::of(new) {
        metadata.set_generation(Metadata::of(old).generation() + 1);
    }
}

/// Warnings for added finalizers whose names are malformed or not domain-qualified.
fn finalizer_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let before: HashSet<&str> = old.map(|old| Metadata::of(old).finalizers()).unwrap_or_default().into_iter().collect();
    let mut added: Vec<&str> = Metadata::of(new).finalizers();
    added.retain(|finalizer| !before.contains(finalizer));
    added.sort_unstable();
    added.dedup();
    added.into_iter().flat_map(finalizer_problems).collect()
}

fn finalizer_problems(finalizer: &str) -> Vec<String> {
    const STANDARD: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];
    let mut problems = labels::key_problems(finalizer);
    if !finalizer.contains('/') && !STANDARD.contains(&finalizer) {
        let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
        problems.push(format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        ));
    }
    problems.into_iter().map(|problem| format!("metadata.finalizers: {}: {problem}", quote(finalizer))).collect()
}
