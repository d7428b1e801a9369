//! Continue tokens: the key and resource version at which the next page of a list starts.

use base64::{
    Engine as _,
    alphabet::URL_SAFE,
    engine::{GeneralPurpose, GeneralPurposeConfig, general_purpose::NO_PAD},
};
use serde_json::Value;

use crate::{go_json, go_text};

/// Go's decoder takes no padding and ignores unused bits of the last character; the default engine would reject such
/// bits.
const ENGINE: GeneralPurpose =
    GeneralPurpose::new(&URL_SAFE, GeneralPurposeConfig::with_decode_allow_trailing_bits(NO_PAD, true));

/// The position at which a paged list continues.
///
/// The server returns it as `metadata.continue` of a page, and the client sends it back for the next one. The token is
/// encoded as upstream's etcd3 storage encodes it; it is neither signed nor encrypted, so [`decode`](Self::decode)
/// treats it as untrusted input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContinueToken {
    /// The resource version of the list. `None` is upstream's "inconsistent" form: the list continues at the latest
    /// version.
    pub resource_version: Option<i64>,
    /// The first key of the next page, relative to the prefix of the list, without a leading slash.
    pub start: String,
}

/// Why a continue token is invalid, in upstream's words. The server rejects the request with
/// [`Error::bad_request_message`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The token is not base64 or not JSON, or its key has an empty, `.` or `..` segment.
    #[error("continue key is not valid: {0}")]
    NotValid(String),
    /// The resource version is 0 or absent.
    #[error("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")]
    ResourceVersion,
    /// The start key is empty or absent.
    #[error("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")]
    EmptyStart,
    /// The token is of an unknown version of the encoding.
    #[error("continue key is not valid: server does not recognize this encoded version {0}")]
    Version(String),
}

impl Error {
    /// The message of the BadRequest that rejects the list.
    pub fn bad_request_message(&self) -> String {
        format!("invalid continue token: {self}")
    }
}

impl ContinueToken {
    /// Creates the token for the page after `last_key`, which is relative to the prefix of the list.
    pub fn after(last_key: &str, resource_version: i64) -> Self {
        // Key plus NUL is the smallest key that sorts after `last_key`.
        Self { resource_version: Some(resource_version), start: format!("{last_key}\0") }
    }

    /// A token for the same key without the resource version. Clients get it when the version was compacted; the
    /// remaining pages may not be consistent with the earlier ones.
    pub fn inconsistent(&self) -> Self {
        Self { resource_version: None, start: self.start.clone() }
    }

    /// Encodes the token as unpadded URL-safe base64 of JSON.
    pub fn encode(&self) -> String {
        let mut json = String::from(r#"{"v":"meta.k8s.io/v1","rv":"#);
        json.push_str(&self.resource_version.unwrap_or(-1).to_string());
        json.push_str(r#","start":"#);
        go_json::write_string(&mut json, &self.start);
        json.push('}');
        ENGINE.encode(json)
    }

    /// Decodes a token that a client sent.
    ///
    /// # Errors
    /// When the token is malformed, lacks a resource version or key, or has a key that climbs out of the list's prefix.
    pub fn decode(text: &str) -> Result<Self, Error> {
        // Go's base64 decoder skips line breaks.
        let bytes = ENGINE.decode(text.replace(['\r', '\n'], "")).map_err(|_| Error::NotValid(base64_problem(text)))?;
        let json: Value =
            serde_json::from_slice(&bytes).map_err(|error| Error::NotValid(json_problem(&bytes, &error)))?;
        let version = string_field(&json, "v")?;
        if version != "meta.k8s.io/v1" {
            return Err(Error::Version(version.to_owned()));
        }
        let resource_version = match json.get("rv") {
            None | Some(Value::Null) => 0,
            Some(value) => value.as_i64().ok_or_else(|| wrong_type("rv", value, "int64"))?,
        };
        if resource_version == 0 {
            return Err(Error::ResourceVersion);
        }
        let start = string_field(&json, "start")?;
        if start.is_empty() {
            return Err(Error::EmptyStart);
        }
        let relative = start.strip_prefix('/').unwrap_or(start);
        if !relative.is_empty() && relative.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(Error::NotValid(start.to_owned()));
        }
        // A negative version is upstream's mark of an inconsistent token.
        let resource_version = (resource_version > 0).then_some(resource_version);
        Ok(Self { resource_version, start: relative.to_owned() })
    }
}

fn string_field<'a>(json: &'a Value, field: &str) -> Result<&'a str, Error> {
    if !json.is_object() && !json.is_null() {
        let kind = go_json::found_type(json, "");
        return Err(Error::NotValid(format!(
            "json: cannot unmarshal {kind} into Go value of type storage.continueToken"
        )));
    }
    match json.get(field) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(wrong_type(field, other, "string")),
    }
}

fn wrong_type(field: &str, value: &Value, wanted: &str) -> Error {
    let found = go_json::found_type(value, wanted);
    Error::NotValid(format!(
        "json: cannot unmarshal {found} into Go struct field continueToken.{field} of type {wanted}"
    ))
}

/// The message of Go's base64 decoder. It names the offset of the first invalid byte, or of the last byte if the length
/// is wrong.
fn base64_problem(text: &str) -> String {
    let belongs = |byte: u8| byte.is_ascii_alphanumeric() || b"-_\r\n".contains(&byte);
    let offset = text.bytes().position(|byte| !belongs(byte)).unwrap_or(text.len().saturating_sub(1));
    format!("illegal base64 data at input byte {offset}")
}

/// The message of Go's JSON decoder for common syntax errors; for others, the message of serde_json.
fn json_problem(bytes: &[u8], error: &serde_json::Error) -> String {
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(first) if !b"{[\"-tfn".contains(first) && !first.is_ascii_digit() => {
            let shown = match char::from(*first) {
                '\'' => "\\'".to_owned(),
                other => go_text::quote(other.encode_utf8(&mut [0; 4])).trim_matches('"').to_owned(),
            };
            format!("invalid character '{shown}' looking for beginning of value")
        }
        _ if error.is_eof() => "unexpected end of JSON input".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_upstreams_to_the_byte() {
        let token = ContinueToken::after("default/<a>", 42);
        let json = br#"{"v":"meta.k8s.io/v1","rv":42,"start":"default/\u003ca\u003e\u0000"}"#;
        assert_eq!(token.encode(), ENGINE.encode(json));
        assert_eq!(ContinueToken::decode(&token.encode()), Ok(token));
    }

    #[test]
    fn the_inconsistent_form_has_version_minus_one() {
        let token = ContinueToken::after("b", 7).inconsistent();
        assert_eq!(token.encode(), ENGINE.encode(r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"b\u0000"}"#));
        assert_eq!(ContinueToken::decode(&token.encode()), Ok(token));
    }

    #[test]
    fn tokens_that_are_none_are_refused_in_upstreams_words() {
        let decode = |json: &str| ContinueToken::decode(&ENGINE.encode(json)).unwrap_err().to_string();
        for (json, error) in [
            (
                r#"{"v":"v2","rv":1,"start":"a"}"#,
                "continue key is not valid: server does not recognize this encoded version v2",
            ),
            ("{}", "continue key is not valid: server does not recognize this encoded version "),
            (
                r#"{"v":"meta.k8s.io/v1","start":"a"}"#,
                "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (
                r#"{"v":"meta.k8s.io/v1","rv":1,"start":""}"#,
                "continue key is not valid: encoded start key empty (version meta.k8s.io/v1)",
            ),
            (r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../a"}"#, "continue key is not valid: ../a"),
            (r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a//b"}"#, "continue key is not valid: a//b"),
            (r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a/."}"#, "continue key is not valid: a/."),
            (r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a/"}"#, "continue key is not valid: a/"),
            (
                r#"{"v":1}"#,
                "continue key is not valid: json: cannot unmarshal number into Go struct field continueToken.v of type string",
            ),
            (
                "[]",
                "continue key is not valid: json: cannot unmarshal array into Go value of type storage.continueToken",
            ),
        ] {
            assert_eq!(decode(json), error, "{json}");
        }
        let error = ContinueToken::decode("a$b").unwrap_err();
        assert_eq!(
            error.bad_request_message(),
            "invalid continue token: continue key is not valid: illegal base64 data at input byte 1"
        );
        for (text, error) in [
            ("", "continue key is not valid: unexpected end of JSON input"),
            ("-", "continue key is not valid: illegal base64 data at input byte 0"),
            ("e30=", "continue key is not valid: illegal base64 data at input byte 3"),
            ("a_", "continue key is not valid: invalid character 'k' looking for beginning of value"),
            ("J2", r"continue key is not valid: invalid character '\'' looking for beginning of value"),
        ] {
            assert_eq!(ContinueToken::decode(text).unwrap_err().to_string(), error, "{text}");
        }
        assert!(matches!(ContinueToken::decode("e30x"), Err(Error::NotValid(_))), "something behind the JSON");
    }
}
