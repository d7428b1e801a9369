//! The query string of a request, parsed like Go does.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::refusal::Refusal;

/// Decoded names and values; for a repeated name, the first value.
#[derive(Debug, Default)]
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let mut values = BTreeMap::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            values.entry(decode(name)).or_insert_with(|| decode(value));
        }
        Self(values)
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Parses a flag like Docker: anything but a few words is true.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !matches!(value.to_ascii_lowercase().trim(), "0" | "no" | "false" | "none"))
    }

    /// Parses a time in seconds, with or without a fraction.
    pub(super) fn time(&self, name: &str) -> Result<Option<Timestamp>, Refusal> {
        let Some(text) = self.get(name) else { return Ok(None) };
        if let Ok(time) = text.parse::<Timestamp>() {
            return Ok(Some(time));
        }
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let nanoseconds = format!("{part:0<9}");
        let parsed = whole.parse().ok().zip(nanoseconds.get(..9).and_then(|digits| digits.parse().ok()));
        let time = parsed.and_then(|(seconds, nanoseconds)| {
            Timestamp::from_second(seconds).ok()?.checked_add(SignedDuration::from_nanos(nanoseconds)).ok()
        });
        time.map(Some).ok_or_else(|| Refusal::bad(format!("invalid value for \"{name}\": {text:?} is no time")))
    }

    /// Parses filters in both forms: `{"type":["image"]}` and `{"type":{"image":true}}`.
    pub(super) fn filters(&self) -> Result<BTreeMap<String, BTreeSet<String>>, Refusal> {
        let Some(text) = self.get("filters") else { return Ok(BTreeMap::new()) };
        let filters: BTreeMap<String, Value> =
            serde_json::from_str(text).map_err(|error| Refusal::bad(format!("invalid filter: {error}")))?;
        let values = |value: Value| match value {
            Value::Array(values) => values.into_iter().filter_map(|value| value.as_str().map(str::to_owned)).collect(),
            Value::Object(values) => values.into_iter().filter(|(_, on)| *on == true).map(|(name, _)| name).collect(),
            _ => BTreeSet::new(),
        };
        Ok(filters.into_iter().map(|(name, value)| (name, values(value))).collect())
    }
}

/// Decodes percent-encoding; invalid sequences stay unchanged.
pub(super) fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = text.get(at + 1..at + 3).filter(|_| *byte == b'%');
        match (byte, digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (_, Some(byte)) => {
                decoded.push(byte);
                at += 2;
            }
            (b'+', None) => decoded.push(b' '),
            (byte, None) => decoded.push(*byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded_and_flags_read_as_docker_reads_them() {
        let query =
            Query::parse("all=1&force=false&name=a%2Fb+c&v=&tail=5&x=%zz&filters=%7B%22type%22%3A%5B%22image%22%5D%7D");
        assert_eq!((query.is_set("all"), query.is_set("force"), query.is_set("v")), (true, false, false));
        assert_eq!((query.get("name"), query.get("x")), (Some("a/b c"), Some("%zz")));
        assert_eq!(query.filters().unwrap()["type"], BTreeSet::from(["image".to_owned()]));
        let other = Query::parse("filters=%7B%22type%22%3A%7B%22image%22%3Atrue%2C%22volume%22%3Afalse%7D%7D");
        assert_eq!(other.filters().unwrap()["type"], BTreeSet::from(["image".to_owned()]));
        assert!(Query::parse("filters=x").filters().is_err());
    }

    #[test]
    fn times_are_seconds_with_or_without_a_fraction() {
        let time = |text: &str| Query::parse(&format!("since={text}")).time("since");
        assert_eq!(time("12").unwrap().unwrap().as_nanosecond(), 12_000_000_000);
        assert_eq!(time("12.5").unwrap().unwrap().as_nanosecond(), 12_500_000_000);
        assert_eq!(time("12.000000001").unwrap().unwrap().as_nanosecond(), 12_000_000_001);
        assert_eq!(time("1970-01-01T00:00:01Z").unwrap().unwrap().as_second(), 1);
        assert_eq!(time("").unwrap(), None);
        assert!(time("soon").is_err());
    }
}
