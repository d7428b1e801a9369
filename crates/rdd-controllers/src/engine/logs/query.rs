//! Parses the query parameters of a request for logs.

use jiff::Timestamp;
use rdd_docker::LogOptions;

/// The parameters of `engine/logs/<id>`. Unknown ones are ignored; of a repeated one, the first counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Query {
    /// The options for the engine.
    pub(super) options: LogOptions,
    /// Whether each message is marked with its stream, standard output or standard error.
    pub(super) separate: bool,
}

impl Query {
    /// Parses a query. The error is the text of the response.
    pub(super) fn parse(query: &str) -> Result<Self, &'static str> {
        let follow = match value(query, "follow").as_deref() {
            None | Some("") => true,
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => true,
            Some("0" | "f" | "F" | "false" | "FALSE" | "False") => false,
            Some(_) => return Err("Invalid follow parameter"),
        };
        let since = match value(query, "since").filter(|since| !since.is_empty()) {
            Some(since) => Some(time(&since).ok_or("Invalid since parameter")?),
            None => None,
        };
        let separate = match value(query, "streams").as_deref() {
            None | Some("" | "merged") => false,
            Some("separate") => true,
            Some(_) => return Err("Invalid streams parameter"),
        };
        let tail = value(query, "tail").filter(|tail| !tail.is_empty());
        Ok(Self { options: LogOptions { follow, tail, since, timestamps: false }, separate })
    }
}

/// Converts a time to the engine's format, seconds since the epoch. Accepts that format and RFC 3339, the format of the rest of this API.
fn time(text: &str) -> Option<String> {
    let is_number = |part: &str| !part.is_empty() && part.len() <= 12 && part.bytes().all(|byte| byte.is_ascii_digit());
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if is_number(seconds) && is_number(fraction) {
        return Some(text.to_owned());
    }
    let time: Timestamp = text.parse().ok()?;
    Some(format!("{}.{:09}", time.as_second(), u32::try_from(time.subsec_nanosecond()).ok()?))
}

/// The first value of the parameter with this name, decoded.
fn value(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(key, value)| (decoded(key), value)).find(|(key, _)| key == name).map(|(_, value)| decoded(value))
}

/// Decodes a form-encoded word: percent escapes, and `+` for a space.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let escaped = match (first, after) {
            (b'%', &[high, low, ..]) => hex(high).zip(hex(low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        match (first, escaped) {
            (_, Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
                continue;
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(first),
        }
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(query: &str) -> LogOptions {
        Query::parse(query).unwrap().options
    }

    #[test]
    fn without_a_word_the_whole_log_is_followed_in_one() {
        let expected = LogOptions { follow: true, tail: None, since: None, timestamps: false };
        for query in ["", "follow=", "tail=&since=", "unknown=1", "streams=merged", "&&=&"] {
            assert_eq!(Query::parse(query), Ok(Query { options: expected.clone(), separate: false }), "{query}");
        }
    }

    #[test]
    fn follow_is_what_go_takes_for_true_or_false() {
        for (word, follow) in [("1", true), ("T", true), ("True", true), ("0", false), ("f", false), ("FALSE", false)] {
            assert_eq!(options(&format!("follow={word}")).follow, follow, "{word}");
        }
        for word in ["yes", "tRUE", "2", "%20true"] {
            assert_eq!(Query::parse(&format!("follow={word}")), Err("Invalid follow parameter"), "{word}");
        }
    }

    #[test]
    fn tail_goes_to_the_engine_as_it_is_and_the_first_one_counts() {
        assert_eq!(options("tail=5&tail=6").tail.as_deref(), Some("5"));
        assert_eq!(options("%74ail=a%26b+c%zz").tail.as_deref(), Some("a&b c%zz"));
    }

    #[test]
    fn since_is_a_number_of_seconds_or_a_time() {
        for (since, expected) in [
            ("1700000000", "1700000000"),
            ("1700000000.25", "1700000000.25"),
            ("2023-11-14T22:13:20Z", "1700000000.000000000"),
            ("2023-11-14T23:13:20.5%2B01:00", "1700000000.500000000"),
        ] {
            assert_eq!(options(&format!("since={since}")).since.as_deref(), Some(expected), "{since}");
        }
        for since in ["yesterday", "1.", ".5", "-1", "1.2.3", "99999999999999999999", "10m"] {
            assert_eq!(Query::parse(&format!("since={since}")), Err("Invalid since parameter"), "{since}");
        }
    }

    #[test]
    fn streams_are_told_apart_when_asked() {
        assert!(Query::parse("streams=separate").unwrap().separate);
        assert_eq!(Query::parse("streams=both"), Err("Invalid streams parameter"));
    }
}
