//! Validation of an update of a CRD against its old state.
//!
//! A check that Kubernetes added later is skipped where the old CRD already failed it, so that old CRDs stay updatable.

use std::collections::{HashMap, HashSet};

use rdd_meta::go_json;

use crate::{
    crd::{self, Crd, Demands, RuleChecker},
    field::{Error, Path},
    objectmeta,
    props::Props,
};

/// Validates an update from `old` to `new`, both completed by [`crd::apply_defaults`].
///
/// The errors come in upstream's order.
pub fn validate_update(new: &Crd, old: &Crd, rules: &mut dyn RuleChecker) -> Vec<Error> {
    let root = Path::Nil;
    let demands = demands(new, old);
    let mut errors = objectmeta::validate_metadata_update(&root.child("metadata"), &new.metadata, &old.metadata);
    errors.extend(crd::validate_spec(new, &demands, rules));
    let spec = root.child("spec");
    let names = spec.child("names");
    let mut immutable = |path: Path<'_>, new: &str, old: &str, shown_as_json: bool| {
        if new != old {
            let detail = "field is immutable";
            errors.push(if shown_as_json {
                Error::invalid_text(path, go_json::to_string(&new.into()), detail)
            } else {
                Error::invalid(path, new, detail)
            });
        }
    };
    // Scope and kind become immutable when the CRD is established; group and plural name always are.
    if demands.immutable_names {
        immutable(spec.child("scope"), &new.scope, &old.scope, true);
        immutable(names.child("kind"), &new.names.kind, &old.names.kind, false);
    }
    immutable(spec.child("group"), &new.group, &old.group, false);
    immutable(names.child("plural"), &new.names.plural, &old.names.plural, false);
    errors.extend(crd::validate_status(new));
    errors.extend(crd::approval(new, Some(old)));
    errors.extend(crd::preserve_unknown_fields(new, Some(old)));
    errors
}

/// Validates an update of the status alone.
pub fn validate_status_update(new: &Crd, old: &Crd) -> Vec<Error> {
    let root = Path::Nil;
    let mut errors = objectmeta::validate_metadata_update(&root.child("metadata"), &new.metadata, &old.metadata);
    errors.extend(crd::validate_accepted_names(new));
    errors
}

/// Derives the checks that apply to `new` from those that `old` passes.
fn demands(new: &Crd, old: &Crd) -> Demands {
    let any = |broken: &mut dyn FnMut(&Props) -> bool| old.schemas().any(|schema| schema.any(broken));
    // An old CRD without any supported version may stay without one.
    let reviews = old.conversion.as_ref().map_or(&[][..], |conversion| &conversion.review_versions);
    Demands {
        recognized_review_version: crd::has_recognized_version(reviews),
        valid_ca_bundle: old.established && !has_invalid_ca_bundle(old),
        immutable_names: old.established,
        openapi_schema: old.versions.iter().all(|version| matches!(version.schema, Some(Some(_)))),
        structural: old.schemas().all(crd::is_structural),
        valid_type: !any(&mut crd::has_invalid_type),
        pruned_defaults: !old.schemas().any(crd::has_unpruned_defaults),
        atomic_set: !any(&mut crd::has_non_atomic_set),
        map_list_keys: !any(&mut crd::has_invalid_map_list_keys),
        too_many_selectable: too_many_selectable(new, old),
    }
}

/// Whether an old CRD has a CA bundle that no webhook call can use.
fn has_invalid_ca_bundle(old: &Crd) -> bool {
    let client = old.conversion.as_ref().and_then(|conversion| conversion.client_config.as_ref());
    client.is_some_and(|client| crd::check_ca_bundle(&client.ca_bundle).is_err())
}

/// The versions whose selectable fields were already too many and did not change; the empty name stands for shared fields.
fn too_many_selectable(new: &Crd, old: &Crd) -> HashSet<String> {
    let (new_shared, old_shared) = (shared_selectable(new), shared_selectable(old));
    let too_many = |fields: &[String]| fields.len() > crd::selectable_max();
    let mut allowed = HashSet::new();
    if old_shared.is_some_and(too_many) && new_shared == old_shared {
        allowed.insert(String::new());
    }
    // Versions are compared one by one only if neither CRD shares its fields.
    if new_shared.is_none() && old_shared.is_none() {
        let before: HashMap<&str, &[String]> =
            old.versions.iter().map(|version| (version.name.as_str(), version.selectable_fields.as_slice())).collect();
        let unchanged = new.versions.iter().filter(|version| {
            let before = before.get(version.name.as_str()).copied().unwrap_or_default();
            too_many(before) && version.selectable_fields == before
        });
        allowed.extend(unchanged.map(|version| version.name.clone()));
    }
    allowed
}

/// The selectable fields that all versions share. Upstream moves these from the versions to the CRD before it validates.
fn shared_selectable(crd: &Crd) -> Option<&[String]> {
    let first = crd.versions.first()?.selectable_fields.as_slice();
    crd.versions.iter().all(|version| version.selectable_fields == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::crd::NoRules;

    fn definition(change: impl FnOnce(&mut Value)) -> Crd {
        let mut value = json!({
            "metadata": {"name": "foos.g.io", "resourceVersion": "1"},
            "spec": {"group": "g.io", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
            "status": {"storedVersions": ["v1"], "conditions": [{"type": "Established", "status": "True"}]},
        });
        change(&mut value);
        crd::apply_defaults(&mut value);
        Crd::parse(&value).unwrap()
    }

    fn errors(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let (old, new) = (definition(|_| {}), definition(change));
        validate_update(&new, &old, &mut NoRules).iter().map(Error::to_string).collect()
    }

    #[test]
    fn nothing_changed_is_no_error() {
        assert_eq!(errors(|_| {}), [""; 0]);
    }

    #[test]
    fn the_scope_of_an_established_definition_stays() {
        let expected = "spec.scope: Invalid value: \"Cluster\": field is immutable";
        assert_eq!(errors(|value| value["spec"]["scope"] = json!("Cluster")), [expected]);
    }

    #[test]
    fn a_stored_version_must_remain() {
        let texts = errors(|value| value["spec"]["versions"][0]["name"] = json!("v2"));
        assert_eq!(texts.len(), 2);
        assert!(
            texts[0].contains("must have the storage version v2")
                && texts[1].contains("v1 was previously a storage version")
        );
    }
}
