//! From the engine's answers to what mirrors say, without IO: one file per kind, and the names of mirrors.

pub(crate) mod container;
pub(crate) mod image;
mod name;
pub(crate) mod volume;

use std::collections::BTreeMap;

use jiff::Timestamp;
use rdd_types::Time;
use serde::{Deserialize, Deserializer};

pub use self::name::{image_name, is_container_name, is_image_name, is_volume_name, volume_name};

/// Names and values, where an engine may write null for none.
pub(crate) type Words = Option<BTreeMap<String, Option<String>>>;

/// As mirrors have them. An option without a value has an empty one.
pub(crate) fn words(words: &Words) -> BTreeMap<String, String> {
    let words = words.iter().flatten();
    words.map(|(key, value)| (key.clone(), value.clone().unwrap_or_default())).collect()
}

/// A moment as the engine writes it, in whole seconds; nothing where it writes the zero of its language, or no moment at all.
pub(crate) fn time(text: &str) -> Option<Time> {
    let time: Timestamp = text.parse().ok()?;
    // Down, also before the epoch, where `as_second` rounds up.
    let seconds = i64::try_from(time.as_nanosecond().div_euclid(1_000_000_000)).ok()?;
    // The year 1 in UTC, which is what an engine writes for never.
    let never = -62_135_596_800;
    (seconds > never).then(|| Timestamp::from_second(seconds).ok().map(Time)).flatten()
}

/// What is left out and what is null are both the default.
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
