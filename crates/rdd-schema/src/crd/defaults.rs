//! Validation of defaults in a schema: each must be valid, and must survive pruning.

use serde_json::{Map, Value};

use super::RuleChecker;
use crate::{
    field::{self, Error, Path},
    objectmeta::{self, Malformed},
    props::Props,
    prune,
    structural::Structural,
    validate::{self, Reading},
};

/// A step on the path from a resource to a default.
#[derive(Clone, Copy)]
enum Step<'a> {
    Child(&'a str),
    Index,
}

/// Builds an object that has only `value`, at the path of `steps`.
fn surround(value: Value, steps: &[Step<'_>]) -> Value {
    steps.iter().rev().fold(value, |inner, step| match step {
        Step::Child(name) => Value::Object(Map::from_iter([((*name).to_owned(), inner)])),
        Step::Index => Value::Array(vec![inner]),
    })
}

/// Returns the value at the path of `steps`.
fn extract<'v>(value: &'v Value, steps: &[Step<'_>]) -> Option<&'v Value> {
    steps.iter().try_fold(value, |value, step| match step {
        Step::Child(name) => value.get(*name),
        Step::Index => value.get(0),
    })
}

struct Walk<'a> {
    pruned: bool,
    rules: &'a mut dyn RuleChecker,
    errors: Vec<Error>,
}

/// The position of the walk relative to the nearest resource, which is the root or an embedded resource.
struct Place<'a> {
    resource: &'a Structural,
    steps: Vec<Step<'a>>,
    inside_metadata: bool,
}

/// Validates all defaults of `schema`, which is the schema of a resource. With `pruned`, a default must not have unknown
/// fields.
pub(super) fn validate(path: &Path<'_>, schema: &Structural, pruned: bool, rules: &mut dyn RuleChecker) -> Vec<Error> {
    let mut walk = Walk { pruned, rules, errors: Vec::new() };
    let place = Place { resource: schema, steps: Vec::new(), inside_metadata: false };
    walk.node(path, schema, true, &place);
    walk.errors
}

impl Walk<'_> {
    fn node(&mut self, path: &Path<'_>, schema: &Structural, is_root: bool, place: &Place<'_>) {
        // An embedded resource starts a new path: its metadata is validated on its own.
        let embedded = is_root || schema.embedded_resource;
        let own;
        let place = if embedded {
            own = Place { resource: schema, steps: Vec::new(), inside_metadata: false };
            &own
        } else {
            place
        };
        if let Some(default) = &schema.default {
            let path = path.child("default");
            if place.inside_metadata {
                self.in_metadata(&path, schema, default, place);
            } else {
                self.outside_metadata(&path, schema, default, embedded);
            }
        }
        // `additionalProperties` cannot have defaults below it, so the walk skips it.
        if let Some(items) = schema.items.as_deref() {
            let below = place.below(Step::Index, false);
            self.node(&path.child("items"), items, false, &below);
        }
        let properties = path.child("properties");
        for (name, property) in schema.properties() {
            let metadata = embedded && matches!(name, "metadata" | "apiVersion" | "kind");
            let below = place.below(Step::Child(name), metadata);
            self.node(&properties.key(name), property, false, &below);
        }
    }

    /// Validates a default inside of metadata, as part of a resource that has nothing else.
    fn in_metadata(&mut self, path: &Path<'_>, schema: &Structural, default: &Value, place: &Place<'_>) {
        let mut object = surround(default.clone(), &place.steps);
        if let Value::Object(entries) = &mut object {
            entries.entry("kind").or_insert_with(|| "Validation".into());
            entries.entry("apiVersion").or_insert_with(|| "validation/v1".into());
        }
        let refuse = |what: String| Error::invalid(path, default, format!("must result in valid metadata: {what}"));
        match objectmeta::coerce(&Path::Nil, &mut object, place.resource, true, Malformed::Refuse) {
            Err(error) => self.errors.push(refuse(error.to_string())),
            Ok(_) => {
                let errors = objectmeta::validate(&Path::Nil, &object, place.resource, true);
                if errors.is_empty() {
                    self.value(path, schema, default, false);
                } else {
                    self.errors.push(refuse(field::aggregate(&errors)));
                }
            }
        }
    }

    /// Validates a default that is not part of metadata.
    fn outside_metadata(&mut self, path: &Path<'_>, schema: &Structural, default: &Value, embedded: bool) {
        let mut coerced = default.clone();
        let result = objectmeta::coerce(path, &mut coerced, schema, embedded, Malformed::Refuse);
        if self.pruned {
            let mut pruned = default.clone();
            prune::prune(&mut pruned, schema, embedded);
            if pruned != *default {
                // The message shows the coerced value, because upstream coerces in place before it formats it.
                self.errors.push(Error::invalid(path, &coerced, "must not have unknown fields"));
            }
        }
        match result {
            Err(error) => self.errors.push(error),
            Ok(_) => {
                let errors = objectmeta::validate(path, &coerced, schema, embedded);
                if errors.is_empty() {
                    self.value(path, schema, &coerced, embedded);
                } else {
                    self.errors.extend(errors);
                }
            }
        }
    }

    /// Validates a default as a value, and then against the CEL rules.
    fn value(&mut self, path: &Path<'_>, schema: &Structural, value: &Value, resource_root: bool) {
        let errors = validate::validate_as(path, schema, value, Reading::Default);
        if errors.is_empty() {
            if schema.has_rules() {
                self.errors.extend(self.rules.check_default(path, schema, value, resource_root));
            }
        } else {
            self.errors.extend(errors);
        }
    }
}

impl<'a> Place<'a> {
    fn below(&self, step: Step<'a>, metadata: bool) -> Place<'a> {
        let mut steps = self.steps.clone();
        steps.push(step);
        Place { resource: self.resource, steps, inside_metadata: self.inside_metadata || metadata }
    }
}

/// Whether an accepted schema has defaults with unknown fields; an update may then have them too.
pub(crate) fn has_unpruned_defaults(schema: &Props) -> bool {
    if !schema.any(&mut |props| props.default.is_some()) || !super::is_structural(schema) {
        return false;
    }
    let Ok(compiled) = Structural::compile(schema) else { return false };
    any_unpruned(&compiled, &compiled, &mut Vec::new()) == Some(true)
}

/// Whether a default at or below `schema` has unknown fields. `None` when a default cannot be part of an object; upstream ends
/// the search there.
fn any_unpruned<'a>(schema: &'a Structural, root: &Structural, steps: &mut Vec<Step<'a>>) -> Option<bool> {
    let mut found = false;
    if let Some(default) = &schema.default {
        let mut object = surround((**default).clone(), steps);
        if !object.is_object() {
            return None;
        }
        objectmeta::coerce(&Path::Nil, &mut object, root, true, Malformed::Drop).ok()?;
        prune::prune(&mut object, root, true);
        found = extract(&object, steps) != Some(default);
    }
    let mut below = |step: Step<'a>, schema: &'a Structural| {
        steps.push(step);
        let found = any_unpruned(schema, root, steps);
        steps.pop();
        found
    };
    if let Some(additional) = schema.additional_schema() {
        found |= below(Step::Child("*"), additional)?;
    }
    if let Some(items) = schema.items.as_deref() {
        found |= below(Step::Index, items)?;
    }
    for (name, property) in schema.properties() {
        found |= below(Step::Child(name), property)?;
    }
    Some(found)
}
