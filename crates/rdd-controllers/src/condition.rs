//! Sets the conditions of the table in `rdd_types::conditions`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rdd_runtime::conditions::{self, New};
use rdd_types::conditions::{ConditionSpec, ConditionStatus, PendingCondition};

/// Sets a condition in a list; the transition time changes only with the status. Returns whether anything but the generation changed.
pub fn set(
    pending: &PendingCondition,
    list: &mut Vec<Condition>,
    generation: impl Into<Option<i64>>,
    now: Timestamp,
) -> bool {
    let new = New {
        kind: pending.spec.condition.as_str(),
        status: status(pending.spec),
        reason: &pending.reason,
        message: &pending.message,
        generation: generation.into(),
    };
    conditions::set(list, &new, now)
}

/// Whether a list has this condition, with the message of the table and this generation.
pub fn is_set(spec: &ConditionSpec, list: &[Condition], generation: Option<i64>) -> bool {
    list.iter()
        .any(|found| spec.matches(found) && found.message == spec.message && found.observed_generation == generation)
}

/// The status as the framework takes it: `None` is `Unknown`.
fn status(spec: &ConditionSpec) -> Option<bool> {
    match spec.status {
        ConditionStatus::True => Some(true),
        ConditionStatus::False => Some(false),
        _ => None,
    }
}
