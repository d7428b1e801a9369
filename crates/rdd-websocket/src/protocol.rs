//! The subprotocols of Kubernetes' streams: which a client offers, which is taken, and how messages are written under it.

use base64::{Engine, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, header::SEC_WEBSOCKET_PROTOCOL};

/// How a client that can set no header, such as a browser, presents its bearer token: as a subprotocol of this prefix and the
/// token in base64url without padding. It is a credential: it is never answered with.
pub const BEARER_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// The channel of the standard output.
pub const STDOUT_CHANNEL: u8 = 1;
/// The channel of the standard error.
pub const STDERR_CHANNEL: u8 = 2;
/// The channel on which the outcome is reported, in versions that do.
const ERROR_CHANNEL: u8 = 3;

/// How messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subprotocol {
    /// What it is called; empty for none.
    pub name: &'static str,
    /// Whether the payload is base64 in text messages, rather than bytes in binary ones.
    pub base64: bool,
    /// Whether each message begins with its channel: a byte, or a digit before base64.
    pub channels: bool,
    /// Whether the outcome is reported on a channel of its own before the end (version 4 and later of `channel.k8s.io`).
    pub reports_outcome: bool,
}

/// What a log can be read as, in the order of the tables upstream. Without a subprotocol a message is the bytes alone.
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
    /// The message that carries this, and whether it is text.
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

    /// The message that reports the outcome, where the subprotocol has one: a `Status`, as that of a remote command.
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

/// The subprotocols that a client offers, in its order, however many headers they are in. Bearer tokens are not among them.
pub fn offered_protocols(headers: &HeaderMap) -> Vec<&str> {
    words(headers).filter(|word| !word.is_empty() && !word.starts_with(BEARER_PREFIX)).collect()
}

fn words(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// The first of those offered that is supported. A client that offers none asks for the one without a name.
pub fn select_protocol(offered: &[&str], supported: &[Subprotocol]) -> Option<Subprotocol> {
    let offered = if offered.is_empty() { &[""] } else { offered };
    offered.iter().find_map(|offered| supported.iter().find(|known| known.name == *offered)).copied()
}

/// Why the subprotocols of a request hold no token, although one is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BearerError {
    /// Two tokens.
    #[error("multiple base64.bearer.authorization tokens specified")]
    Several,
    /// No base64url, or no text in it.
    #[error("invalid base64.bearer.authorization token encoding")]
    Encoding,
    /// Nothing that could be answered with: a token must not be.
    #[error("missing additional subprotocol")]
    Alone,
}

/// The bearer token among the subprotocols, by upstream's rules: one at most, and beside it a subprotocol to answer with.
pub fn bearer_token(headers: &HeaderMap) -> Result<Option<String>, BearerError> {
    let mut tokens = words(headers).filter_map(|word| word.strip_prefix(BEARER_PREFIX));
    let Some(encoded) = tokens.next() else { return Ok(None) };
    if tokens.next().is_some() {
        return Err(BearerError::Several);
    }
    let token = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| BearerError::Encoding)?;
    let token = String::from_utf8(token).map_err(|_| BearerError::Encoding)?;
    if !token.is_empty() && offered_protocols(headers).is_empty() {
        return Err(BearerError::Alone);
    }
    Ok(Some(token).filter(|token| !token.is_empty()))
}

/// Takes bearer tokens out of the subprotocols, so that nothing behind can answer with one, log it or pass it on.
pub fn strip_bearer_protocol(headers: &mut HeaderMap) {
    let has_token = |value: &HeaderValue| holds_token(value.as_bytes());
    if !headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().any(has_token) {
        return;
    }
    let kept = HeaderValue::try_from(offered_protocols(headers).join(", "));
    match kept {
        Ok(value) if !value.is_empty() => drop(headers.insert(SEC_WEBSOCKET_PROTOCOL, value)),
        _ => drop(headers.remove(SEC_WEBSOCKET_PROTOCOL)),
    }
}

/// Whether a token may be in a header, whatever else is, bytes that are no text included.
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
