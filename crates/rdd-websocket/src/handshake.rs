//! The server's part of the WebSocket handshake (RFC 6455, section 4.2).

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use ring::digest;

/// The suffix of the client's key in the accept hash, from the RFC.
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The only supported protocol version.
const VERSION: &str = "13";

/// Why a handshake was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The request is not an upgrade to WebSocket.
    #[error("this is a WebSocket: ask for an upgrade")]
    NoUpgrade,
    /// The version is absent or not supported.
    #[error("only version 13 of WebSocket is spoken here")]
    Version,
    /// The key is absent or not 16 bytes in base64.
    #[error("the Sec-WebSocket-Key of a WebSocket must be 16 bytes in base64")]
    Key,
}

/// Whether a request asks for a WebSocket. As in Kubernetes, `Upgrade` and `Connection` alone decide.
pub fn is_websocket_request(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(header::UPGRADE);
    upgrade.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
        && has_word(headers, &header::CONNECTION, "upgrade")
}

fn has_word(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
}

/// Accepts a handshake: returns the `101 Switching Protocols` response. An empty `subprotocol` is not sent.
///
/// # Errors
/// [`HandshakeError`] if the request is not a valid handshake.
pub fn accept(headers: &HeaderMap, subprotocol: &str) -> Result<http::Response<()>, HandshakeError> {
    if !is_websocket_request(headers) {
        return Err(HandshakeError::NoUpgrade);
    }
    if !has_word(headers, &header::SEC_WEBSOCKET_VERSION, VERSION) {
        return Err(HandshakeError::Version);
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).ok_or(HandshakeError::Key)?;
    if STANDARD.decode(key.as_bytes()).map(|key| key.len()) != Ok(16) {
        return Err(HandshakeError::Key);
    }
    let mut response = http::Response::new(());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answered = response.headers_mut();
    answered.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    answered.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    answered.insert(header::SEC_WEBSOCKET_ACCEPT, accepted_key(key.as_bytes()));
    // The client offered it in a header, so it is a valid header value.
    if let Some(value) = HeaderValue::from_str(subprotocol).ok().filter(|value| !value.is_empty()) {
        answered.insert(header::SEC_WEBSOCKET_PROTOCOL, value);
    }
    Ok(response)
}

fn accepted_key(key: &[u8]) -> HeaderValue {
    let mut digest = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    digest.update(key);
    digest.update(KEY_SUFFIX);
    HeaderValue::try_from(STANDARD.encode(digest.finish())).expect("base64 is a header's value")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_headers(change: impl FnOnce(&mut HeaderMap)) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("connection", HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert("upgrade", HeaderValue::from_static("WebSocket"));
        headers.insert("sec-websocket-version", HeaderValue::from_static("13"));
        headers.insert("sec-websocket-key", HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ=="));
        change(&mut headers);
        headers
    }

    #[test]
    fn the_key_is_answered_as_the_rfc_does() {
        let response = accept(&mk_headers(|_| ()), "").unwrap();
        assert_eq!(response.status(), 101);
        assert_eq!(response.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(!response.headers().contains_key("sec-websocket-protocol"));
        let response = accept(&mk_headers(|_| ()), "binary.k8s.io").unwrap();
        assert_eq!(response.headers()["sec-websocket-protocol"], "binary.k8s.io");
    }

    #[test]
    fn what_is_no_handshake_is_refused() {
        let refused = |change: fn(&mut HeaderMap)| accept(&mk_headers(change), "").unwrap_err();
        assert_eq!(refused(|headers| drop(headers.remove("connection"))), HandshakeError::NoUpgrade);
        assert_eq!(refused(|headers| drop(headers.remove("upgrade"))), HandshakeError::NoUpgrade);
        assert_eq!(refused(|headers| drop(headers.remove("sec-websocket-version"))), HandshakeError::Version);
        assert_eq!(refused(|headers| drop(headers.remove("sec-websocket-key"))), HandshakeError::Key);
        let short =
            |headers: &mut HeaderMap| drop(headers.insert("sec-websocket-key", HeaderValue::from_static("eA==")));
        assert_eq!(refused(short), HandshakeError::Key);
    }
}
