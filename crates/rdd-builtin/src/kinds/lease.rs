//! Lease: validates its times, and drops the fields of a disabled feature.

use rdd_meta::{FieldError, labels, metadata::Metadata, names::NameRule};
use serde_json::Value;

use super::common::{created_by_rule, drop_field, invalid_named, text, unsupported_named, updated};
use crate::strategy::Strategy;

pub(crate) static STRATEGY: Strategy = Strategy {
    create_on_update: true,
    unconditional_update: false,
    prepare_for_create: |object| drop_coordinated(object, &Value::Null),
    prepare_for_update: |_, new, old| drop_coordinated(new, &old["spec"]),
    validate_create: |object| {
        let mut errors = Metadata::of(object).validate_create(true, NameRule::DnsSubdomain);
        errors.extend(spec_errors(&object["spec"]));
        created_by_rule(object, true, errors)
    },
    validate_update: |_, new, old| {
        let mut errors = Metadata::of(new).validate_update(Metadata::of(old));
        errors.extend(spec_errors(&new["spec"]));
        updated(new, old, true, errors)
    },
    ..Strategy::NAMESPACED
};

/// Drops the fields of coordinated leader election, which is off by default in this version, unless the old object has them.
fn drop_coordinated(object: &mut Value, old_spec: &Value) {
    for field in ["strategy", "preferredHolder"] {
        if old_spec[field].is_null()
            && let Some(spec) = object.get_mut("spec")
        {
            drop_field(field, spec);
        }
    }
}

fn spec_errors(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let duration = &spec["leaseDurationSeconds"];
    if duration.as_i64().is_some_and(|seconds| seconds <= 0) {
        errors.push(FieldError::invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"));
    }
    let transitions = &spec["leaseTransitions"];
    if transitions.as_i64().is_some_and(|count| count < 0) {
        errors.push(FieldError::invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"));
    }
    let strategy = text(&spec["strategy"]);
    if !spec["strategy"].is_null() {
        errors.extend(strategy_errors(strategy));
    }
    if !text(&spec["preferredHolder"]).is_empty() && strategy.is_empty() {
        let why = "may only be specified if `strategy` is defined";
        errors.push(FieldError::forbidden("spec.preferredHolder", why));
    }
    errors
}

fn strategy_errors(strategy: &str) -> Vec<FieldError> {
    let path = "spec.strategy.strategy";
    if strategy.contains('/') {
        let problems = labels::key_problems(strategy);
        return problems.into_iter().map(|problem| invalid_named(path, strategy, problem)).collect();
    }
    let known = "OldestEmulationVersion";
    if strategy == known { Vec::new() } else { vec![unsupported_named(path, strategy, &[known])] }
}
