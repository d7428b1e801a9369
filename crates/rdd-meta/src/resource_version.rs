//! Resource versions: decimal numbers to the server, opaque strings to clients.

use std::cmp::Ordering;

use crate::{
    field_error::FieldError,
    go_text::{NumberError, parse_uint},
};

/// A resource version is not a 64-bit decimal number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("resourceVersion: Invalid value: {}: {why}", crate::go_text::quote(text))]
pub struct InvalidResourceVersion {
    text: String,
    why: NumberError,
}

impl InvalidResourceVersion {
    /// Converts it to an error of the field `resourceVersion`.
    pub fn to_field_error(&self) -> FieldError {
        FieldError::invalid_string("resourceVersion", &self.text, self.why.to_string())
    }

    /// The message of the BadRequest that rejects a list or get with this version.
    pub fn bad_request_message(&self) -> String {
        format!("invalid resource version: {self}")
    }
}

/// Parses the resource version of a request. Both the empty text and `0` give 0, which asks for no particular version.
pub fn parse(text: &str) -> Result<u64, InvalidResourceVersion> {
    if text.is_empty() {
        return Ok(0);
    }
    parse_uint(text).map_err(|why| InvalidResourceVersion { text: text.to_owned(), why })
}

/// Formats a resource version. 0 becomes the empty text, since no object has this version.
pub fn format(version: u64) -> String {
    if version == 0 { String::new() } else { version.to_string() }
}

/// A resource version cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("resource version is not well formed: {0}")]
pub struct NotWellFormed(String);

/// Compares two resource versions of one resource like the clients of Kubernetes 1.35. Both must be decimal, greater
/// than 0 and without leading zeros; they may have any length.
pub fn compare(left: &str, right: &str) -> Result<Ordering, NotWellFormed> {
    let well_formed =
        |text: &str| !text.starts_with('0') && !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match [left, right].into_iter().find(|text| !well_formed(text)) {
        Some(text) => Err(NotWellFormed(text.to_owned())),
        None => Ok(left.len().cmp(&right.len()).then_with(|| left.cmp(right))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_and_zero_ask_for_no_version_in_particular() {
        assert_eq!((parse(""), parse("0"), parse("42")), (Ok(0), Ok(0), Ok(42)));
        assert_eq!((format(0), format(42)), (String::new(), "42".to_owned()));
    }

    #[test]
    fn what_is_no_number_is_refused_in_upstreams_words() {
        for (text, message) in [
            ("x", r#"resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax"#),
            ("-1", r#"resourceVersion: Invalid value: "-1": strconv.ParseUint: parsing "-1": invalid syntax"#),
            (
                "18446744073709551616",
                r#"resourceVersion: Invalid value: "18446744073709551616": strconv.ParseUint: parsing "18446744073709551616": value out of range"#,
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.to_string(), message);
            assert_eq!(error.to_field_error().to_string(), message);
            assert_eq!(error.bad_request_message(), format!("invalid resource version: {message}"));
        }
    }

    #[test]
    fn versions_compare_as_numbers_of_any_length() {
        assert_eq!(compare("9", "10"), Ok(Ordering::Less));
        assert_eq!(compare("10", "10"), Ok(Ordering::Equal));
        assert_eq!(compare("99999999999999999999999", "5"), Ok(Ordering::Greater));
        for bad in ["", "0", "01", "a", "-1", "1 "] {
            let message = format!("resource version is not well formed: {bad}");
            assert_eq!(compare(bad, "1").unwrap_err().to_string(), message);
            assert_eq!(compare("1", bad).unwrap_err().to_string(), message);
        }
    }
}
