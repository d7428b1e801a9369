//! ServiceAccount: keeps only the names of the secrets that it refers to.

use rdd_meta::{metadata::Metadata, names::NameRule};
use serde_json::{Value, json};

use super::common::{created_by_rule, items_mut, metadata_errors, metadata_update_errors, text, updated};
use crate::strategy::Strategy;

const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

pub(crate) static STRATEGY: Strategy = Strategy {
    prepare_for_create: clean_secrets,
    prepare_for_update: |_, new, _| clean_secrets(new),
    validate_create: |object| created_by_rule(object, true, metadata_errors(object, true, NameRule::DnsSubdomain)),
    validate_update: |_, new, old| {
        let mut errors = metadata_update_errors(new, old);
        errors.extend(metadata_errors(new, true, NameRule::DnsSubdomain));
        updated(new, old, true, errors)
    },
    warnings,
    ..Strategy::NAMESPACED
};

fn clean_secrets(object: &mut Value) {
    for secret in items_mut(object, "secrets") {
        let name = text(&secret["name"]);
        *secret = if name.is_empty() { json!({}) } else { json!({ "name": name }) };
    }
}

fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let annotated = |object: &Value| Metadata::of(object).annotation(ENFORCE_MOUNTABLE_SECRETS).is_some();
    if !annotated(new) || old.is_some_and(annotated) {
        return Vec::new();
    }
    vec![format!(
        "metadata.annotations[{ENFORCE_MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer separate namespaces to isolate \
         access to mounted secrets"
    )]
}
