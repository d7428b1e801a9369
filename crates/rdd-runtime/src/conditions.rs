//! Status conditions: setting them with a correct transition time, mirroring them to another object, truncating long messages.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use rdd_stdx::clock::Clock;

/// The maximum length of a condition's message in the API, in characters.
pub const MESSAGE_CHARACTERS_MAX: usize = 32_768;
/// The end of a truncated message.
const ELLIPSIS: &str = "… (truncated)";

/// A condition to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct New<'a> {
    /// The condition's type, as in `Running`.
    pub kind: &'a str,
    /// `Some(true)` for True, `Some(false)` for False, `None` for Unknown.
    pub status: Option<bool>,
    /// The machine-readable reason, one CamelCase word.
    pub reason: &'a str,
    /// The message for people; [`set`] truncates it if it is too long.
    pub message: &'a str,
    /// The generation of the object that the status was computed from.
    pub generation: Option<i64>,
}

/// Sets a condition, like upstream's `meta.SetStatusCondition`: adds it if its type is new, otherwise replaces it. The transition time
/// changes only when the status changes. Returns whether anything but the observed generation changed.
pub fn set(conditions: &mut Vec<Condition>, new: &New<'_>, now: Timestamp) -> bool {
    let status = status_word(new.status);
    let next = Condition {
        type_: new.kind.to_owned(),
        status: status.to_owned(),
        reason: new.reason.to_owned(),
        message: cut(new.message),
        observed_generation: new.generation,
        last_transition_time: Time(now),
    };
    let Some(known) = conditions.iter_mut().find(|condition| condition.type_ == new.kind) else {
        conditions.push(next);
        return true;
    };
    let changed = (&known.status, &known.reason, &known.message) != (&next.status, &next.reason, &next.message);
    let since =
        if known.status == next.status { known.last_transition_time.clone() } else { next.last_transition_time };
    *known = Condition { last_transition_time: since, ..next };
    changed
}

/// The status as the API writes it: `True`, `False`, or `Unknown` for `None`.
pub fn status_word(status: Option<bool>) -> &'static str {
    match status {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    }
}

/// Finds the condition of this type.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Whether the condition of this type is `True`; false if it is absent.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status == "True")
}

/// Mirrors the conditions of these types from one object to another. A condition that `from` lacks is removed from `into`; conditions of
/// other types stay. Transition times are those of the source, `generation` is that of the target. Returns whether anything changed.
pub fn mirror(from: &[Condition], into: &mut Vec<Condition>, kinds: &[&str], generation: Option<i64>) -> bool {
    let before = into.clone();
    for kind in kinds {
        match find(from, kind) {
            None => into.retain(|condition| condition.type_ != *kind),
            Some(source) => {
                let copy =
                    Condition { observed_generation: generation, message: cut(&source.message), ..source.clone() };
                match into.iter_mut().find(|condition| condition.type_ == *kind) {
                    Some(known) => *known = copy,
                    None => into.push(copy),
                }
            }
        }
    }
    *into != before
}

/// Truncates a message to the maximum length of a condition's message, at a character boundary.
pub fn cut(message: &str) -> String {
    cut_to(message, MESSAGE_CHARACTERS_MAX)
}

/// Truncates a message to `characters_max` characters, including the ellipsis.
pub fn cut_to(message: &str, characters_max: usize) -> String {
    // Fast path: a string has at least as many bytes as characters.
    if message.len() <= characters_max || message.chars().nth(characters_max).is_none() {
        return message.to_owned();
    }
    let kept = characters_max.saturating_sub(ELLIPSIS.chars().count());
    let head: String = message.chars().take(kept).collect();
    head + ELLIPSIS
}

/// The wall-clock time in whole seconds, the precision of API timestamps.
pub fn now(clock: &dyn Clock) -> Timestamp {
    Timestamp::from_second(i64::try_from(clock.wall().as_secs()).unwrap_or(i64::MAX)).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn new<'a>(kind: &'a str, status: Option<bool>, reason: &'a str) -> New<'a> {
        New { kind, status, reason, message: "", generation: Some(1) }
    }

    #[test]
    fn the_transition_time_changes_with_the_status_only() {
        let mut conditions = Vec::new();
        assert!(set(&mut conditions, &new("Running", Some(false), "Starting"), at(1)));
        assert!(set(&mut conditions, &new("Running", Some(false), "Stopped"), at(2)));
        assert_eq!(conditions[0].last_transition_time.0, at(1));
        assert!(!set(&mut conditions, &New { generation: Some(2), ..new("Running", Some(false), "Stopped") }, at(3)));
        assert_eq!(conditions[0].observed_generation, Some(2));
        assert!(set(&mut conditions, &new("Running", Some(true), "Started"), at(4)));
        assert_eq!(conditions[0].last_transition_time.0, at(4));
        assert!(is_true(&conditions, "Running") && !is_true(&conditions, "Created"));
    }

    // Finding 236-S2
    #[test]
    fn mirroring_removes_what_vanished_and_leaves_other_types_alone() {
        let (mut from, mut into) = (Vec::new(), Vec::new());
        set(&mut from, &new("Created", Some(true), "Created"), at(1));
        set(&mut into, &new("Running", Some(true), "Started"), at(2));
        set(&mut into, &new("Settled", Some(true), "Settled"), at(2));
        assert!(mirror(&from, &mut into, &["Created", "Running"], Some(7)));
        let kinds: Vec<_> =
            into.iter().map(|condition| (condition.type_.as_str(), condition.observed_generation)).collect();
        assert_eq!(kinds, [("Settled", Some(1)), ("Created", Some(7))]);
        assert_eq!(into[1].last_transition_time.0, at(1));
        assert!(!mirror(&from, &mut into, &["Created", "Running"], Some(7)));
    }

    // Finding 236-S3
    #[test]
    fn messages_are_cut_at_characters() {
        let ellipsis = ELLIPSIS.chars().count();
        for (character, count, kept) in [
            ("", 0, 0),
            ("a", MESSAGE_CHARACTERS_MAX, MESSAGE_CHARACTERS_MAX),
            ("a", MESSAGE_CHARACTERS_MAX + 1, MESSAGE_CHARACTERS_MAX - ellipsis),
            ("é", MESSAGE_CHARACTERS_MAX, MESSAGE_CHARACTERS_MAX),
            ("🚢", MESSAGE_CHARACTERS_MAX + 1, MESSAGE_CHARACTERS_MAX - ellipsis),
        ] {
            let message = character.repeat(count);
            let result = cut(&message);
            assert!(result.chars().count() <= MESSAGE_CHARACTERS_MAX, "{character} {count}");
            assert!(result.starts_with(&character.repeat(kept)), "{character} {count}");
            assert_eq!(result.ends_with(ELLIPSIS), count > MESSAGE_CHARACTERS_MAX, "{character} {count}");
            assert_eq!(result == message, count <= MESSAGE_CHARACTERS_MAX, "{character} {count}");
        }
    }
}
