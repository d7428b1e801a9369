//! Validation of a schema beyond being structural: types, extensions, sets and maps, and the form of CEL rules.

use rdd_meta::go_json;

use std::{cell::LazyCell, collections::BTreeSet};

use super::{RuleChecker, RuleSite, path as field_path, show};
use crate::{
    field::{Error, Path},
    props::{Items, Props, PropsOrBool, Rule},
};

/// The checks and restrictions that apply at one node.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) valid_type: bool,
    pub(super) atomic_set: bool,
    pub(super) map_list_keys: bool,
    /// The reason why no default may be set here.
    pub(super) no_defaults: Option<String>,
    /// Whether the node is part of `metadata`, `kind` or `apiVersion`.
    pub(super) inside_metadata: bool,
    /// The path of the nearest node above which values of two revisions do not correlate.
    pub(super) uncorrelatable: Option<String>,
    /// How often this node can occur in one object, the inner `None` without a bound. The outer `None` means that rules are not
    /// evaluated.
    pub(super) cardinality: Option<Option<u64>>,
}

impl Context {
    /// The context below a node whose children do not correlate. An outer such node stays the one that is reported.
    fn without_correlation(&self, path: &Path<'_>) -> Context {
        let mut below = self.clone();
        below.uncorrelatable.get_or_insert_with(|| path.to_string());
        below
    }

    /// The context below `allOf` and the like, where no rule is evaluated.
    fn without_rules(&self) -> Context {
        Context { cardinality: None, ..self.clone() }
    }

    /// The context below a list or map of at most `limit` entries.
    fn repeated(mut self, limit: Option<i64>) -> Context {
        let limit = limit.and_then(|limit| u64::try_from(limit).ok());
        self.cardinality = self.cardinality.map(|known| match (known, limit) {
            (Some(known), Some(limit)) => Some(known.saturating_mul(limit)),
            _ => None,
        });
        self
    }
}

/// The errors of a schema, and those of its rules, which upstream reports after all others.
#[derive(Default)]
pub(super) struct Found {
    pub(super) schema: Vec<Error>,
    pub(super) rules: Vec<Error>,
}

impl Found {
    fn append(&mut self, other: Found) {
        self.schema.extend(other.schema);
        self.rules.extend(other.rules);
    }
}

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const META_FIELDS: [&str; 3] = ["metadata", "kind", "apiVersion"];

/// Validates one node and everything below it, as upstream's `ValidateCustomResourceDefinitionOpenAPISchema`.
pub(super) fn validate(
    path: &Path<'_>,
    schema: &Props,
    is_root: bool,
    context: &Context,
    checker: &mut dyn RuleChecker,
) -> Found {
    let mut found = Found::default();
    found.schema.extend(unsupported(path, schema, context));
    if schema.unique_items {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        found.schema.push(Error::forbidden(path.child("uniqueItems"), detail));
    }
    additional(path, schema, context, checker, &mut found);
    let properties = path.child("properties");
    for (name, property) in &schema.properties {
        let mut below = context.clone();
        // As upstream, values below a map correlate by their keys, even if the map is atomic.
        if !matches!(schema.map_type.as_deref(), None | Some("granular" | "atomic")) {
            below = below.without_correlation(path);
        }
        if (is_root || schema.embedded_resource) && META_FIELDS.contains(&name.as_str()) {
            below.inside_metadata = true;
            if is_root {
                below.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        found.append(validate(&properties.key(name), property, false, &below, checker));
    }
    let plain = context.without_rules();
    if let Some(not) = &schema.not {
        found.append(validate(&path.child("not"), not, false, &plain, checker));
    }
    for (name, list) in [("allOf", &schema.all_of), ("oneOf", &schema.one_of), ("anyOf", &schema.any_of)] {
        let place = path.child(name);
        for (index, part) in list.iter().enumerate() {
            found.append(validate(&place.index(index), part, false, &plain, checker));
        }
    }
    let definitions = path.child("definitions");
    for (name, definition) in &schema.definitions {
        found.append(validate(&definitions.key(name), definition, false, &plain, checker));
    }
    items(path, schema, context, checker, &mut found);
    let dependencies = path.child("dependencies");
    for (name, dependency) in schema.dependencies.iter().flatten() {
        if let Some(dependency) = &dependency.schema {
            found.append(validate(&dependencies.key(name), dependency, false, &plain, checker));
        }
    }
    if schema.preserve_unknown_fields == Some(false) {
        let place = path.child("x-kubernetes-preserve-unknown-fields");
        found.schema.push(Error::invalid(place, false, "must be true or undefined"));
    }
    map_type(path, schema, &mut found.schema);
    list_type(path, schema, context, &mut found.schema);
    list_map_keys(path, schema, &mut found.schema);
    if context.map_list_keys {
        found.schema.extend(map_list_key_errors(path, schema));
    }
    let rules = path.child("x-kubernetes-validations");
    // Compiled lazily and once: this schema contains all of the rules.
    let is_structural = LazyCell::new(|| crate::structural::Structural::compile(schema).is_ok());
    for (index, rule) in schema.validations.iter().enumerate() {
        rule_form(&rules.index(index), rule, &mut found.schema);
        let field_path = rule.field_path.as_str();
        if !field_path.is_empty() && *is_structural && field_path::resolve(field_path, Some(schema), true).is_err() {
            let place = rules.index(index);
            found.schema.push(Error::invalid(place.child("fieldPath"), field_path, "must be a valid path"));
        }
    }
    // An error in this node or below it turns off the evaluation of the node's own rules.
    if let (Some(cardinality), true, false) =
        (context.cardinality, found.schema.is_empty(), schema.validations.is_empty())
    {
        found.rules.extend(checker.check(&RuleSite {
            path,
            schema,
            rules: &schema.validations,
            resource_root: is_root || schema.embedded_resource,
            cardinality,
            uncorrelatable: context.uncorrelatable.as_deref(),
        }));
    }
    found
}

/// Refuses fields that a CRD does not support.
fn unsupported(path: &Path<'_>, schema: &Props, context: &Context) -> Vec<Error> {
    let mut errors = Vec::new();
    if context.valid_type && has_invalid_type(schema) {
        errors.push(Error::not_supported(path.child("type"), schema.kind.as_str(), &TYPES));
    }
    if let (Some(_), Some(reason)) = (&schema.default, &context.no_defaults) {
        errors.push(Error::forbidden(path.child("default"), format!("must not be set {reason}")));
    }
    let refused = [
        (!schema.id.is_empty(), "id"),
        (schema.additional_items.is_some(), "additionalItems"),
        (!schema.pattern_properties.is_empty(), "patternProperties"),
        (!schema.definitions.is_empty(), "definitions"),
        (schema.dependencies.is_some(), "dependencies"),
        (schema.reference.is_some(), "$ref"),
    ];
    for (_, name) in refused.iter().filter(|(set, _)| *set) {
        errors.push(Error::forbidden(path.child(name), format!("{name} is not supported")));
    }
    if schema.kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(Error::forbidden(path.child("type"), detail));
    }
    if matches!(&schema.items, Some(Items::Many(many)) if !many.is_empty()) {
        errors.push(Error::forbidden(path.child("items"), "items must be a schema object and not an array"));
    }
    // ObjectMeta has no field that is a resource.
    if context.inside_metadata && schema.embedded_resource {
        let place = path.child("x-kubernetes-embedded-resource");
        errors.push(Error::forbidden(place, "must not be used inside of resource meta"));
    }
    errors
}

/// Whether the type is not a type of OpenAPI v3.
pub(crate) fn has_invalid_type(schema: &Props) -> bool {
    !schema.kind.is_empty() && !TYPES.contains(&schema.kind.as_str())
}

/// Validates `additionalProperties` and the schema in it.
fn additional(path: &Path<'_>, schema: &Props, context: &Context, checker: &mut dyn RuleChecker, found: &mut Found) {
    let Some(additional) = &schema.additional_properties else { return };
    let place = path.child("additionalProperties");
    if !schema.properties.is_empty() && !matches!(additional, PropsOrBool::Bool(true)) {
        let detail = "additionalProperties and properties are mutual exclusive";
        found.schema.push(Error::forbidden(place, detail));
    }
    if let PropsOrBool::Schema(below) = additional {
        let mut context = context.clone().repeated(schema.max_properties);
        if context.inside_metadata {
            context.no_defaults = Some("inside additionalProperties applying to object metadata".to_owned());
        }
        found.append(validate(&place, below, false, &context, checker));
    }
}

/// Validates `items`. Only items of a list map correlate with old items.
fn items(path: &Path<'_>, schema: &Props, context: &Context, checker: &mut dyn RuleChecker, found: &mut Found) {
    let context = match schema.list_type.as_deref() {
        Some("map") => context.clone(),
        _ => context.without_correlation(path),
    };
    // Each item evaluates the rules below it again.
    let context = context.repeated(schema.max_items);
    let place = path.child("items");
    match &schema.items {
        Some(Items::One(one)) => found.append(validate(&place, one, false, &context, checker)),
        Some(Items::Many(many)) => {
            for (index, one) in many.iter().enumerate() {
                found.append(validate(&place.index(index), one, false, &context, checker));
            }
        }
        _ => {}
    }
}

/// The error of a type that is not the expected one: required if it is absent, invalid otherwise.
fn must_be(path: &Path<'_>, kind: &str, detail: &str) -> Error {
    let place = path.child("type");
    if kind.is_empty() { Error::required(place, detail) } else { Error::invalid(place, kind, detail) }
}

fn map_type(path: &Path<'_>, schema: &Props, errors: &mut Vec<Error>) {
    let Some(map_type) = &schema.map_type else { return };
    if schema.kind != "object" {
        errors.push(must_be(path, &schema.kind, "must be object if x-kubernetes-map-type is specified"));
    }
    if !matches!(map_type.as_str(), "atomic" | "granular") {
        let place = path.child("x-kubernetes-map-type");
        errors.push(Error::not_supported(place, map_type.as_str(), &["atomic", "granular"]));
    }
}

/// If the items of a set are not atomic, the name of the extension that should make them so.
fn non_atomic_items(schema: &Props) -> Option<&'static str> {
    let items = schema.items_schema().filter(|_| schema.list_type.as_deref() == Some("set"))?;
    let atomic = |value: &Option<String>| value.as_deref() == Some("atomic");
    match items.kind.as_str() {
        "array" if items.list_type.is_some() && !atomic(&items.list_type) => Some("x-kubernetes-list-type"),
        "object" if !atomic(&items.map_type) => Some("x-kubernetes-map-type"),
        _ => None,
    }
}

/// Whether the schema is a set whose items are not atomic.
pub(crate) fn has_non_atomic_set(schema: &Props) -> bool {
    non_atomic_items(schema).is_some()
}

fn list_type(path: &Path<'_>, schema: &Props, context: &Context, errors: &mut Vec<Error>) {
    let Some(list_type) = &schema.list_type else { return };
    if schema.kind != "array" {
        errors.push(must_be(path, &schema.kind, "must be array if x-kubernetes-list-type is specified"));
    } else if let Some(extension) = non_atomic_items(schema).filter(|_| context.atomic_set) {
        // Upstream shows the list type of the items, also where the map type is wrong.
        let shown = schema.items_schema().and_then(|items| items.list_type.as_deref());
        let shown = show::optional_string(shown);
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        errors.push(Error::invalid_text(path.child("items").child(extension), shown, detail));
    }
    if !matches!(list_type.as_str(), "atomic" | "set" | "map") {
        let place = path.child("x-kubernetes-list-type");
        errors.push(Error::not_supported(place, list_type.as_str(), &["atomic", "set", "map"]));
    }
}

/// Validates `x-kubernetes-list-map-keys`: a list map needs keys, and each key is a scalar property of its items.
fn list_map_keys(path: &Path<'_>, schema: &Props, errors: &mut Vec<Error>) {
    let list_type = schema.list_type.as_deref();
    if !schema.list_map_keys.is_empty() && list_type != Some("map") {
        let place = path.child("x-kubernetes-list-type");
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            None => Error::required(place, detail),
            Some(other) => Error::invalid(place, other, detail),
        });
    }
    if list_type != Some("map") {
        return;
    }
    let keys_place = path.child("x-kubernetes-list-map-keys");
    if schema.list_map_keys.is_empty() {
        errors.push(Error::required(keys_place, "must not be empty if x-kubernetes-list-type is map"));
    }
    let place = path.child("items");
    let items = match &schema.items {
        None => {
            errors.push(Error::required(place, "must have a schema if x-kubernetes-list-type is map"));
            return;
        }
        Some(Items::One(items)) => items,
        Some(other) => {
            let detail = "must only have a single schema if x-kubernetes-list-type is map";
            errors.push(Error::invalid_text(place, show::items(other), detail));
            return;
        }
    };
    if items.kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(Error::invalid(place.child("type"), items.kind.as_str(), detail));
        return;
    }
    let mut seen = BTreeSet::new();
    for key in &schema.list_map_keys {
        match items.properties.get(key) {
            Some(property) if matches!(property.kind.as_str(), "array" | "object") => {
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                let properties = place.child("properties");
                errors.push(Error::invalid(properties.key(key).child("type"), items.kind.as_str(), detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(Error::invalid(keys_place, schema.list_map_keys.as_slice(), detail));
            }
        }
        if !seen.insert(key) {
            errors.push(Error::invalid(
                keys_place,
                schema.list_map_keys.as_slice(),
                "must not contain duplicate entries",
            ));
        }
    }
}

/// Validates that items of sets and maps are not nullable, and that the keys of a map are always present.
fn map_list_key_errors(path: &Path<'_>, schema: &Props) -> Vec<Error> {
    let mut errors = Vec::new();
    let Some(items) = schema.items_schema() else { return errors };
    let Some(list_type @ ("set" | "map")) = schema.list_type.as_deref() else { return errors };
    let place = path.child("items");
    if items.nullable {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(Error::forbidden(place.child("nullable"), detail));
    }
    if list_type == "set" {
        return errors;
    }
    let properties = place.child("properties");
    for key in &schema.list_map_keys {
        let Some(property) = items.properties.get(key) else { continue };
        let place = properties.key(key);
        if !items.required.contains(key) && property.default.is_none() {
            let detail =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(Error::required(place.child("default"), detail));
        }
        if property.nullable {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(Error::forbidden(place.child("nullable"), detail));
        }
    }
    errors
}

/// Whether a key of a list map may be absent or null.
pub(crate) fn has_invalid_map_list_keys(schema: &Props) -> bool {
    !map_list_key_errors(&Path::Nil, schema).is_empty()
}

const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Validates the form of a CEL rule: which fields are set and how they fit together.
fn rule_form(path: &Path<'_>, rule: &Rule, errors: &mut Vec<Error>) {
    let has_newline = |text: &str| text.contains(['\n', '\r']);
    let (text, message) = (rule.rule.trim(), rule.message.trim());
    let place = path.child("message");
    if text.is_empty() {
        errors.push(Error::required(path.child("rule"), "rule is not specified"));
    } else if !rule.message.is_empty() && message.is_empty() {
        errors.push(Error::invalid(place, rule.message.as_str(), "must be non-empty if specified"));
    } else if has_newline(message) {
        errors.push(Error::invalid(place, rule.message.as_str(), "must not contain line breaks"));
    } else if has_newline(text) && message.is_empty() {
        errors.push(Error::required(place, "message must be specified if rule contains line breaks"));
    }
    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(Error::required(path.child("messageExpression"), detail));
    }
    if let Some(reason) = rule.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
        let mut error = Error::not_supported(path.child("reason"), reason, &REASONS);
        // Upstream's reason is a string type of its own, so its error shows JSON instead of a Go string.
        error.value = Some(go_json::to_string(&reason.into()));
        errors.push(error);
    }
    let place = path.child("fieldPath");
    let shown = rule.field_path.as_str();
    if !shown.is_empty() && shown.trim().is_empty() {
        errors.push(Error::invalid(place, shown, "must be non-empty if specified"));
    }
    if has_newline(shown) {
        errors.push(Error::invalid(place, shown, "must not contain line breaks"));
    }
}
