//! Pure mapping from the engine's answers to the statuses of mirrors: one file per kind, and the names of mirrors.

pub(crate) mod container;
pub(crate) mod image;
mod name;
pub(crate) mod volume;

use std::collections::BTreeMap;

use jiff::Timestamp;
use rdd_types::Time;
use serde::{Deserialize, Deserializer};

pub use self::name::{image_name, is_container_name, is_image_name, is_volume_name, volume_name};

/// A map of labels or options; an engine may write null for an empty one.
pub(crate) type Words = Option<BTreeMap<String, Option<String>>>;

/// Converts to the mirror's form, where an option without a value has an empty one.
pub(crate) fn words(words: &Words) -> BTreeMap<String, String> {
    let words = words.iter().flatten();
    words.map(|(key, value)| (key.clone(), value.clone().unwrap_or_default())).collect()
}

/// Parses a time of the engine, rounded down to whole seconds; `None` for Go's zero time and for anything that is not a time.
pub(crate) fn time(text: &str) -> Option<Time> {
    let time: Timestamp = text.parse().ok()?;
    // Rounds down also before the epoch, where `as_second` would round up.
    let seconds = i64::try_from(time.as_nanosecond().div_euclid(1_000_000_000)).ok()?;
    // The year 1 in UTC, Go's zero time, which an engine writes for "never".
    let never = -62_135_596_800;
    (seconds > never).then(|| Timestamp::from_second(seconds).ok().map(Time)).flatten()
}

/// Deserializes an absent and a null field to the default.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(reader: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(reader).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_whole_seconds_and_never_is_left_out() {
        let table = [
            ("2026-11-15T18:42:03.987654321Z", Some("2026-11-15T18:42:03Z")),
            ("2026-11-15T19:42:03+01:00", Some("2026-11-15T18:42:03Z")),
            ("1969-12-31T23:59:58.5Z", Some("1969-12-31T23:59:58Z")),
            ("0001-01-01T00:00:00Z", None),
            ("", None),
            ("soon", None),
        ];
        for (text, expected) in table {
            assert_eq!(time(text).map(|time| time.0.to_string()).as_deref(), expected, "{text}");
        }
    }
}
