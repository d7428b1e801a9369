//! A CustomResourceDefinition and its validation on create; [`crate::upgrade`] validates updates.

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

/// Evaluates `x-kubernetes-validations`: the seam to the CEL crate.
///
/// # Flow
/// [`validate`] calls [`check_default`](Self::check_default) for each valid default, then [`check`](Self::check) for each node
/// with rules, then [`finish`](Self::finish), for each schema in upstream's order.
///
/// # Guarantees
/// The checker is called only where upstream evaluates rules: for a schema or a default without other errors so far.
pub trait RuleChecker {
    /// Returns errors in the rules of one node. Called for children before their parents.
    fn check(&mut self, site: &RuleSite<'_>) -> Vec<Error>;

    /// Returns errors of the whole schema, such as its total cost. Called after all of its nodes.
    fn finish(&mut self, path: &Path<'_>) -> Vec<Error>;

    /// Returns errors of a default value, evaluated as a create and as an update that does not change it.
    fn check_default(&mut self, path: &Path<'_>, schema: &Structural, value: &Value, resource_root: bool)
    -> Vec<Error>;
}

/// A schema node that has rules.
#[derive(Debug)]
pub struct RuleSite<'a> {
    /// The path of the schema node; the rules are below it at `x-kubernetes-validations`.
    pub path: &'a Path<'a>,
    /// The node with all below it.
    pub schema: &'a Props,
    /// The rules of the node.
    pub rules: &'a [Rule],
    /// Whether the node is the root of a resource, embedded or not.
    pub resource_root: bool,
    /// How often the node can occur in one object; `None` if there is no bound.
    pub cardinality: Option<u64>,
    /// The path of the nearest node above which values of two revisions do not correlate; `oldSelf` cannot be used here.
    pub uncorrelatable: Option<&'a str>,
}

/// Accepts every rule: for callers without an evaluator.
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

/// The checks that apply. An update drops those that the old CRD already failed.
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
    /// Versions that may keep too many selectable fields; the empty name stands for fields that all versions share.
    pub(crate) too_many_selectable: HashSet<String>,
}

impl Demands {
    fn of_a_new_definition() -> Demands {
        Demands {
            recognized_review_version: true,
            // A new CRD with an invalid bundle is accepted; it does not become established.
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

/// Defaults what a client may leave out: `names.singular`, `names.listKind`, `conversion`, the port of a conversion webhook's
/// service, and `status.storedVersions`.
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

/// Validates a new CRD that [`apply_defaults`] has completed. The errors come in upstream's order.
pub fn validate(crd: &Crd, rules: &mut dyn RuleChecker) -> Vec<Error> {
    // A CRD has no name of its own: the resource determines it.
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

/// Validates the accepted names and stored versions of the status.
pub(crate) fn validate_status(crd: &Crd) -> Vec<Error> {
    let root = Path::Nil;
    let status = root.child("status");
    let mut errors = validate_accepted_names(crd);
    errors.extend(stored_versions(crd, &status.child("storedVersions")));
    errors
}

/// Validates the accepted names alone, as for an update of the status.
pub(crate) fn validate_accepted_names(crd: &Crd) -> Vec<Error> {
    let root = Path::Nil;
    let status = root.child("status");
    spec::names(&crd.accepted_names, &status.child("acceptedNames"))
}

/// Validates that every stored version still exists, and that the storage version is among them.
fn stored_versions(crd: &Crd, path: &Path<'_>) -> Vec<Error> {
    let stored = &crd.stored_versions;
    if stored.is_empty() {
        let shown = if crd.stored_versions_present { "[]" } else { "null" };
        return vec![Error::invalid_text(path, shown.to_owned(), "must have at least one stored version")];
    }
    let mut errors = Vec::new();
    let last_at: HashMap<&String, usize> = stored.iter().enumerate().map(|(index, name)| (name, index)).collect();
    let mut shown = Repeated::new(|| stored.as_slice().text());
    // As upstream, each stored version matches one version only, so a second version of the same name has none.
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

/// The annotation that approves a CRD in a group of the Kubernetes community.
const APPROVAL: &str = "api-approved.kubernetes.io";

/// The state of the approval annotation, as a number to compare, with the error text if the group is not approved.
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

/// Validates the approval annotation of protected groups. An update that does not change its state is accepted.
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

/// Refuses to set `preserveUnknownFields`; an old CRD may keep it.
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
