//! A CustomResourceDefinition and what upstream demands of it when it is created; [`crate::upgrade`] has what an update may do.

pub(crate) mod ca_bundle;
mod conversion;
mod defaults;
mod definition;
mod invariants;
mod openapi;
mod path;
mod show;
mod spec;
mod version;

use std::collections::{HashMap, HashSet};

use rdd_meta::{
    field_error::{BadValue, Repeated},
    go_text,
    names::NameRule,
};
use serde_json::{Map, Value};

use crate::{
    field::{Error, Path},
    format, objectmeta,
    props::{Props, Rule},
    structural::Structural,
};

pub use ca_bundle::{check_ca_bundle, has_invalid_ca_bundle};
pub(crate) use conversion::has_recognized_version;
pub(crate) use defaults::has_unpruned_defaults;
pub use definition::{ClientConfig, Column, Conversion, Crd, CrdError, Names, Scale, Service, Subresources, Version};
pub(crate) use invariants::is_structural;
pub(crate) use openapi::{has_invalid_map_list_keys, has_invalid_type, has_non_atomic_set};
pub use show::rule as shown_rule;
pub(crate) use version::selectable_max;

/// What evaluates `x-kubernetes-validations`: the seam to the CEL crate.
///
/// This crate calls it only where upstream would: for schemas without other errors, in upstream's order.
pub trait RuleChecker {
    /// Errors of the rules of one node. Called children first.
    fn check(&mut self, site: &RuleSite<'_>) -> Vec<Error>;

    /// Errors of the whole schema, after all nodes: its total cost.
    fn finish(&mut self, path: &Path<'_>) -> Vec<Error>;

    /// Errors of a default value, as a create and as an update of itself.
    fn check_default(&mut self, path: &Path<'_>, schema: &Structural, value: &Value, resource_root: bool)
    -> Vec<Error>;
}

/// Where rules stand.
#[derive(Debug)]
pub struct RuleSite<'a> {
    /// Of the schema node; the rules are below it at `x-kubernetes-validations`.
    pub path: &'a Path<'a>,
    pub schema: &'a Props,
    pub rules: &'a [Rule],
    /// Whether the node is the root of a resource, embedded or not.
    pub resource_root: bool,
    /// How often the node can occur in one object; `None` without a bound.
    pub cardinality: Option<u64>,
    /// The node above which values of two revisions cannot be told to be the same: `oldSelf` is of no use here.
    pub uncorrelatable: Option<&'a str>,
}

/// Accepts every rule: for whoever has no evaluator.
#[derive(Debug, Default)]
pub struct NoRules;

impl RuleChecker for NoRules {
    fn check(&mut self, _: &RuleSite<'_>) -> Vec<Error> {
        Vec::new()
    }

    fn finish(&mut self, _: &Path<'_>) -> Vec<Error> {
        Vec::new()
    }

    fn check_default(&mut self, _: &Path<'_>, _: &Structural, _: &Value, _: bool) -> Vec<Error> {
        Vec::new()
    }
}

/// What is demanded; an update demands less where the old definition already failed.
#[derive(Clone, Debug)]
pub(crate) struct Demands {
    pub(crate) recognized_review_version: bool,
    pub(crate) valid_ca_bundle: bool,
    pub(crate) immutable_names: bool,
    pub(crate) openapi_schema: bool,
    pub(crate) structural: bool,
    pub(crate) valid_type: bool,
    pub(crate) pruned_defaults: bool,
    pub(crate) atomic_set: bool,
    pub(crate) map_list_keys: bool,
    /// Versions that may keep too many selectable fields; the empty name stands for all versions together.
    pub(crate) too_many_selectable: HashSet<String>,
}

impl Demands {
    fn of_a_new_definition() -> Demands {
        Demands {
            recognized_review_version: true,
            // A definition with an invalid bundle is stored, and not established.
            valid_ca_bundle: false,
            immutable_names: false,
            openapi_schema: true,
            structural: true,
            valid_type: true,
            pruned_defaults: true,
            atomic_set: true,
            map_list_keys: true,
            too_many_selectable: HashSet::new(),
        }
    }
}

/// Fills in what a client may leave out: `names.singular`, `names.listKind`, `conversion`, `status.storedVersions`.
pub fn apply_defaults(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let absent = |map: &Map<String, Value>, key: &str| match map.get(key) {
        None | Some(Value::Null) => true,
        Some(value) => value.as_str() == Some(""),
    };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        if absent(names, "singular") && !kind.is_empty() {
            names.insert("singular".into(), kind.to_lowercase().into());
        }
        if absent(names, "listKind") && !kind.is_empty() {
            names.insert("listKind".into(), format!("{kind}List").into());
        }
    }
    if absent(spec, "conversion") {
        spec.insert("conversion".into(), serde_json::json!({"strategy": "None"}));
    }
    if let Some(service) =
        spec["conversion"].pointer_mut("/webhook/clientConfig/service").and_then(Value::as_object_mut)
        && absent(service, "port")
    {
        service.insert("port".into(), 443.into());
    }
    let storage = spec.get("versions").and_then(Value::as_array).and_then(|versions| {
        versions.iter().find(|version| version.get("storage").and_then(Value::as_bool) == Some(true))
    });
    let storage = storage.and_then(|version| version.get("name").cloned());
    let stored = crd.pointer("/status/storedVersions").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if let (false, Some(name)) = (stored, storage)
        && let Some(root) = crd.as_object_mut()
    {
        let status = root.entry("status").or_insert_with(|| Value::Object(Map::new()));
        if status.is_null() {
            *status = Value::Object(Map::new());
        }
        status["storedVersions"] = Value::Array(vec![name]);
    }
}

/// Errors of a new definition, which [`apply_defaults`] has completed.
pub fn validate(crd: &Crd, rules: &mut dyn RuleChecker) -> Vec<Error> {
    let required = format!("{}.{}", crd.names.plural, crd.group);
    let name_errors = |name: &str, prefix: bool| {
        let mut errors = NameRule::DnsSubdomain.check_either(name, prefix);
        if name != required {
            errors.push("must be spec.names.plural+\".\"+spec.group".to_owned());
        }
        errors
    };
    let root = Path::Nil;
    let mut errors = objectmeta::validate_metadata(&root.child("metadata"), &crd.metadata, false, &name_errors);
    errors.extend(spec::validate(crd, &Demands::of_a_new_definition(), rules));
    errors.extend(validate_status(crd));
    errors.extend(approval(crd, None));
    errors.extend(preserve_unknown_fields(crd, None));
    errors
}

/// Accepted names and stored versions.
pub(crate) fn validate_status(crd: &Crd) -> Vec<Error> {
    let root = Path::Nil;
    let status = root.child("status");
    let mut errors = validate_accepted_names(crd);
    errors.extend(stored_versions(crd, &status.child("storedVersions")));
    errors
}

/// Accepted names alone, which is all that an update of the status has to get right.
pub(crate) fn validate_accepted_names(crd: &Crd) -> Vec<Error> {
    let root = Path::Nil;
    let status = root.child("status");
    spec::names(&crd.accepted_names, &status.child("acceptedNames"))
}

fn stored_versions(crd: &Crd, path: &Path<'_>) -> Vec<Error> {
    let stored = &crd.stored_versions;
    if stored.is_empty() {
        let shown = if crd.stored_versions_present { "[]" } else { "null" };
        return vec![Error::invalid_text(path, shown.to_owned(), "must have at least one stored version")];
    }
    let mut errors = Vec::new();
    let last_at: HashMap<&String, usize> = stored.iter().enumerate().map(|(index, name)| (name, index)).collect();
    let mut shown = Repeated::new(|| stored.as_slice().text());
    // Each stored version is good for one version only: upstream crosses it off, so a second one of the same name misses it.
    let mut left: HashSet<&String> = last_at.keys().copied().collect();
    for version in &crd.versions {
        if !left.remove(&version.name) && version.storage {
            let detail = format!("must have the storage version {}", version.name);
            errors.extend(shown.next().map(|stored| Error::invalid_text(path, stored, detail)));
        }
    }
    let served: HashSet<&String> = crd.versions.iter().map(|version| &version.name).collect();
    for (index, name) in stored.iter().enumerate() {
        if last_at.get(name) == Some(&index) && !served.contains(name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a \
                 storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(Error::invalid(path.index(index), name.as_str(), detail));
        }
    }
    errors
}

const APPROVAL: &str = "api-approved.kubernetes.io";

/// Whether the community's groups were approved, and what is said when not.
fn approval_state(crd: &Crd) -> (u8, String) {
    let annotation = crd.annotation(APPROVAL).unwrap_or_default();
    let needed = format!("protected groups must have approval annotation {}", go_text::quote(APPROVAL));
    let link = "see https://github.com/kubernetes/enhancements/pull/1111";
    if annotation.is_empty() {
        return (0, format!("{needed}, {link}"));
    }
    if annotation.starts_with("unapproved") {
        (1, String::new())
    } else if format::is_absolute_url(annotation) {
        (2, String::new())
    } else {
        (3, format!("{needed} with either a URL or a reason starting with \"unapproved\", {link}"))
    }
}

pub(crate) fn approval(crd: &Crd, old: Option<&Crd>) -> Option<Error> {
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| crd.group == *domain || crd.group.ends_with(&format!(".{domain}")));
    let (state, reason) = approval_state(crd);
    if !protected || reason.is_empty() || old.is_some_and(|old| approval_state(old).0 == state) {
        return None;
    }
    let root = Path::Nil;
    let metadata = root.child("metadata");
    let annotations = metadata.child("annotations");
    let path = annotations.key(APPROVAL);
    Some(match crd.annotation(APPROVAL) {
        Some(value) if !value.is_empty() => Error::invalid(path, value, reason),
        _ => Error::required(path, reason),
    })
}

pub(crate) fn preserve_unknown_fields(crd: &Crd, old: Option<&Crd>) -> Option<Error> {
    if !crd.preserve_unknown_fields || old.is_some_and(|old| old.preserve_unknown_fields) {
        return None;
    }
    let detail =
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    Some(Error::invalid("spec.preserveUnknownFields", true, detail))
}

pub(crate) fn validate_spec(crd: &Crd, demands: &Demands, rules: &mut dyn RuleChecker) -> Vec<Error> {
    spec::validate(crd, demands, rules)
}

#[cfg(test)]
mod tests;
