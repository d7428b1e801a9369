//! Conditions as the commands read them, and accessors for the few other fields that every object has.

use std::fmt;

use jiff::Timestamp;
use rdd_types::conditions::Outlook;
use serde::Deserialize;
use serde_json::Value;

use super::remedy;

/// One condition of an object.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason, one CamelCase word.
    #[serde(default)]
    pub reason: String,
    /// The message for people.
    #[serde(default)]
    pub message: String,
    /// The generation of the object that the condition describes.
    #[serde(default)]
    pub observed_generation: Option<i64>,
    /// When its status last changed.
    #[serde(default)]
    pub last_transition_time: Option<Timestamp>,
}

impl Condition {
    /// Whether its status is `True`.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Whether it describes this generation or a later one. A condition without a generation does not count.
    pub fn is_of(&self, generation: i64) -> bool {
        self.observed_generation.is_some_and(|observed| observed >= generation)
    }

    /// Like [`Condition::is_of`], for writers that do not set `observedGeneration`: their conditions count as current.
    pub fn may_be_of(&self, generation: i64) -> bool {
        self.observed_generation.is_none_or(|observed| observed >= generation)
    }

    /// Whether its reason is a failure.
    pub fn is_failure(&self) -> bool {
        !self.is_true() && matches!(remedy::outlook(self), Outlook::Failed | Outlook::Final)
    }
}

/// The line that scripts match on: `<Type>=<Status>: <message> (<Reason>)`.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}: {} ({})", self.kind, self.status, self.message, self.reason)
    }
}

/// The conditions of an object. Malformed entries are skipped.
pub fn conditions(object: &Value) -> Vec<Condition> {
    let list = object.pointer("/status/conditions").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|item| Condition::deserialize(item).ok()).collect()
}

/// The condition of this type, if the object has one.
pub fn condition(object: &Value, kind: &str) -> Option<Condition> {
    conditions(object).into_iter().find(|condition| condition.kind == kind)
}

/// `metadata.generation`; 0 if there is none.
pub fn generation(object: &Value) -> i64 {
    object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default()
}

/// The string at this JSON pointer; empty if there is none.
pub fn text<'o>(object: &'o Value, pointer: &str) -> &'o str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Whether the object is being deleted.
pub fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_condition_is_read_and_told_as_scripts_know_it() {
        let object = json!({"metadata": {"generation": 3}, "status": {"conditions": [
            {"type": "Running", "status": "False", "reason": "Starting", "message": "Lima instance is starting",
             "observedGeneration": 3, "lastTransitionTime": "2026-01-02T03:04:05Z"},
            "nonsense",
            {"type": "Half"},
        ]}});
        let found = conditions(&object);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].to_string(), "Running=False: Lima instance is starting (Starting)");
        assert!(found[0].is_of(3) && !found[0].is_of(4) && !found[0].is_true());
        assert_eq!(generation(&object), 3);
        assert_eq!(conditions(&json!({"status": {"conditions": "no list"}})), []);
    }

    #[test]
    fn a_condition_without_a_generation_proves_nothing_about_one() {
        let object = json!({"status": {"conditions": [{"type": "Settled", "status": "True"}]}});
        let settled = condition(&object, "Settled").unwrap();
        assert!(!settled.is_of(1) && settled.may_be_of(1));
    }
}
