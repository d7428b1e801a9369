//! The subprotocols of Kubernetes' streams: negotiation, bearer tokens, and the encoding of messages.

use base64::{Engine, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, header::SEC_WEBSOCKET_PROTOCOL};

/// The prefix of a subprotocol with a bearer token in base64url without padding, for clients that cannot set headers,
/// such as browsers. It is a credential, so the server must never send it back.
pub const BEARER_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// The channel of standard output.
pub const STDOUT_CHANNEL: u8 = 1;
/// The channel of standard error.
pub const STDERR_CHANNEL: u8 = 2;
/// The channel of the outcome, in versions that report it.
const ERROR_CHANNEL: u8 = 3;

/// A subprotocol and its encoding of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subprotocol {
    /// Its name; empty for no subprotocol.
    pub name: &'static str,
    /// Whether the payload is sent as base64 in text messages instead of bytes in binary messages.
    pub base64: bool,
    /// Whether each message begins with its channel: as a byte, or as a digit before base64.
    pub channels: bool,
    /// Whether the outcome is reported on its own channel before the close (`channel.k8s.io` from version 4).
    pub reports_outcome: bool,
}

/// The subprotocols of logs, in upstream's order. Without a subprotocol, a message is the plain bytes.
pub const LOG_PROTOCOLS: &[Subprotocol] = &[
    Subprotocol { name: "", base64: false, channels: false, reports_outcome: false },
    Subprotocol { name: "binary.k8s.io", base64: false, channels: false, reports_outcome: false },
    Subprotocol { name: "base64.binary.k8s.io", base64: true, channels: false, reports_outcome: false },
    Subprotocol { name: "channel.k8s.io", base64: false, channels: true, reports_outcome: false },
    Subprotocol { name: "base64.channel.k8s.io", base64: true, channels: true, reports_outcome: false },
    Subprotocol { name: "v4.channel.k8s.io", base64: false, channels: true, reports_outcome: true },
    Subprotocol { name: "v4.base64.channel.k8s.io", base64: true, channels: true, reports_outcome: true },
    Subprotocol { name: "v5.channel.k8s.io", base64: false, channels: true, reports_outcome: true },
];

impl Subprotocol {
    /// Encodes a message of this channel.
    pub(crate) fn encode(self, channel: u8, payload: &Bytes) -> Bytes {
        match (self.channels, self.base64) {
            (false, false) => payload.clone(),
            (false, true) => STANDARD.encode(payload).into(),
            (true, false) => {
                let mut message = BytesMut::with_capacity(payload.len() + 1);
                message.put_u8(channel);
                message.put_slice(payload);
                message.freeze()
            }
            (true, true) => format!("{channel}{}", STANDARD.encode(payload)).into(),
        }
    }

    /// Encodes the outcome as a `Status`, like that of a remote command. `None` if the subprotocol does not report
    /// outcomes.
    pub(crate) fn encode_outcome(self, failure: Option<&str>) -> Option<Bytes> {
        let status = match failure {
            None => serde_json::json!({"metadata": {}, "status": "Success"}),
            Some(message) => serde_json::json!({
                "metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500,
            }),
        };
        self.reports_outcome.then(|| self.encode(ERROR_CHANNEL, &status.to_string().into()))
    }
}

/// The subprotocols that a client offers, in order, from all headers. Bearer tokens are left out.
pub fn offered_protocols(headers: &HeaderMap) -> Vec<&str> {
    words(headers).filter(|word| !word.is_empty() && !word.starts_with(BEARER_PREFIX)).collect()
}

fn words(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// Selects the first offered subprotocol that is supported. A client that offers none gets the one without a name.
pub fn select_protocol(offered: &[&str], supported: &[Subprotocol]) -> Option<Subprotocol> {
    // The entry without a name in the table stands for a client without subprotocols.
    let offered = if offered.is_empty() { &[""] } else { offered };
    offered.iter().find_map(|offered| supported.iter().find(|known| known.name == *offered)).copied()
}

/// Why a bearer token in the subprotocols is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BearerError {
    /// There is more than one token.
    #[error("multiple base64.bearer.authorization tokens specified")]
    Several,
    /// The token is not base64url or not UTF-8.
    #[error("invalid base64.bearer.authorization token encoding")]
    Encoding,
    /// The client offers no other subprotocol, but the server must not select the token.
    #[error("missing additional subprotocol")]
    Alone,
}

/// Extracts the bearer token from the subprotocols by upstream's rules: at most one, and with another subprotocol
/// beside it.
pub fn bearer_token(headers: &HeaderMap) -> Result<Option<String>, BearerError> {
    let mut tokens = words(headers).filter_map(|word| word.strip_prefix(BEARER_PREFIX));
    let Some(encoded) = tokens.next() else { return Ok(None) };
    if tokens.next().is_some() {
        return Err(BearerError::Several);
    }
    let token = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| BearerError::Encoding)?;
    let token = String::from_utf8(token).map_err(|_| BearerError::Encoding)?;
    // The handshake has to select a subprotocol, and selecting the token would disclose it.
    if !token.is_empty() && offered_protocols(headers).is_empty() {
        return Err(BearerError::Alone);
    }
    Ok(Some(token).filter(|token| !token.is_empty()))
}

/// Removes bearer tokens from the subprotocols, so that later code cannot select, log or forward them.
pub fn strip_bearer_protocol(headers: &mut HeaderMap) {
    let has_token = |value: &HeaderValue| holds_token(value.as_bytes());
    if !headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().any(has_token) {
        return;
    }
    // All headers become one, so that no other header can keep a token.
    let kept = HeaderValue::try_from(offered_protocols(headers).join(", "));
    match kept {
        Ok(value) if !value.is_empty() => drop(headers.insert(SEC_WEBSOCKET_PROTOCOL, value)),
        _ => drop(headers.remove(SEC_WEBSOCKET_PROTOCOL)),
    }
}

/// Whether a header value may contain a token, also if it is not valid UTF-8.
fn holds_token(value: &[u8]) -> bool {
    value.windows(BEARER_PREFIX.len()).any(|window| window == BEARER_PREFIX.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_headers(values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(value))).collect()
    }

    // Finding E-11
    #[test]
    fn a_token_is_taken_by_upstreams_rules() {
        let token = |values: &[&'static str]| bearer_token(&mk_headers(values));
        let secret = "base64url.bearer.authorization.k8s.io.c2VjcmV0";
        assert_eq!(token(&[secret, "binary.k8s.io"]), Ok(Some("secret".to_owned())));
        assert_eq!(
            token(&["v4.channel.k8s.io , base64url.bearer.authorization.k8s.io.c2VjcmV0"]),
            Ok(Some("secret".to_owned()))
        );
        assert_eq!(token(&["binary.k8s.io"]), Ok(None));
        assert_eq!(token(&["binary.k8s.io", "base64url.bearer.authorization.k8s.io."]), Ok(None));
        assert_eq!(token(&[secret]), Err(BearerError::Alone));
        assert_eq!(token(&[secret, secret, "binary.k8s.io"]), Err(BearerError::Several));
        for wrong in [
            "base64url.bearer.authorization.k8s.io.c2VjcmV0=, a",
            "base64url.bearer.authorization.k8s.io.+/8, a",
            "base64url.bearer.authorization.k8s.io._w, a",
        ] {
            assert_eq!(token(&[wrong]), Err(BearerError::Encoding), "{wrong}");
        }
    }

    #[test]
    fn no_token_is_left_after_it_was_taken() {
        let left = |values: &[&'static str]| {
            let mut headers = mk_headers(values);
            strip_bearer_protocol(&mut headers);
            let left = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().map(|value| value.to_str().unwrap().to_owned());
            left.collect::<Vec<_>>()
        };
        let secret = "base64url.bearer.authorization.k8s.io.c2VjcmV0";
        assert!(left(&[secret]).is_empty());
        assert_eq!(left(&["a,b", secret, "c"]), ["a, b, c"]);
        assert_eq!(left(&["a,b", "c"]), ["a,b", "c"], "headers without a token stay as they are");
        let mut strange = mk_headers(&[]);
        let bytes = [b"\xff,".as_slice(), secret.as_bytes()].concat();
        strange.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_bytes(&bytes).unwrap());
        strip_bearer_protocol(&mut strange);
        assert!(strange.is_empty());
    }

    // Finding E-11
    #[test]
    fn the_first_offer_that_is_supported_is_taken() {
        let selected = |offered: &[&str]| select_protocol(offered, LOG_PROTOCOLS).map(|taken| taken.name);
        assert_eq!(selected(&[]), Some(""));
        assert_eq!(selected(&["v5.channel.k8s.io", "v4.channel.k8s.io"]), Some("v5.channel.k8s.io"));
        assert_eq!(selected(&["v9.channel.k8s.io", "base64.binary.k8s.io"]), Some("base64.binary.k8s.io"));
        assert_eq!(selected(&["chat"]), None);
        let headers = mk_headers(&["a, b", "base64url.bearer.authorization.k8s.io.c2VjcmV0,,c"]);
        assert_eq!(offered_protocols(&headers), ["a", "b", "c"]);
    }

    #[test]
    fn messages_have_channels_and_base64_where_the_subprotocol_says_so() {
        let encoded = |name: &str| {
            let protocol = select_protocol(&[name], LOG_PROTOCOLS).unwrap();
            let outcome = protocol.encode_outcome(None).is_some();
            (protocol.encode(STDERR_CHANNEL, &Bytes::from_static(b"foo\n")), outcome)
        };
        assert_eq!(encoded("binary.k8s.io"), (Bytes::from_static(b"foo\n"), false));
        assert_eq!(encoded("base64.binary.k8s.io"), (Bytes::from_static(b"Zm9vCg=="), false));
        assert_eq!(encoded("channel.k8s.io"), (Bytes::from_static(b"\x02foo\n"), false));
        assert_eq!(encoded("base64.channel.k8s.io"), (Bytes::from_static(b"2Zm9vCg=="), false));
        assert_eq!(encoded("v4.channel.k8s.io"), (Bytes::from_static(b"\x02foo\n"), true));
        let v5 = select_protocol(&["v5.channel.k8s.io"], LOG_PROTOCOLS).unwrap();
        assert_eq!(v5.encode_outcome(None).unwrap(), &b"\x03{\"metadata\":{},\"status\":\"Success\"}"[..]);
    }
}
