//! From an HTTP request to a WebSocket: RFC 6455, section 4.2.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use http_body_util::{BodyExt, Empty, Full};
use rdd_runtime::passthrough::Response;
use ring::digest;

/// What the RFC puts behind the client's key.
const SALT: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The answer that makes the connection a WebSocket, or what is wrong with the request.
pub(super) fn answer(headers: &HeaderMap) -> Result<Response, &'static str> {
    let has = |name: &HeaderName, word: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
    };
    if !has(&header::CONNECTION, "upgrade") || !has(&header::UPGRADE, "websocket") {
        return Err("this is a WebSocket: ask for an upgrade");
    }
    if !has(&header::SEC_WEBSOCKET_VERSION, "13") {
        return Err("only version 13 of WebSocket is spoken here");
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).ok_or("the key of the WebSocket is missing")?;
    if STANDARD.decode(key.as_bytes()).map(|key| key.len()) != Ok(16) {
        return Err("the key of the WebSocket is none");
    }
    let mut response = Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accepted(key.as_bytes()));
    Ok(response)
}

fn accepted(key: &[u8]) -> HeaderValue {
    let mut digest = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    digest.update(key);
    digest.update(SALT);
    HeaderValue::try_from(STANDARD.encode(digest.finish())).expect("base64 is a header's value")
}

/// A plain refusal.
pub(super) fn refuse(code: StatusCode, why: &'static str) -> Response {
    let body = Full::new(Bytes::from(format!("{why}\n"))).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(change: impl FnOnce(&mut HeaderMap)) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("connection", HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert("upgrade", HeaderValue::from_static("websocket"));
        headers.insert("sec-websocket-version", HeaderValue::from_static("13"));
        headers.insert("sec-websocket-key", HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ=="));
        change(&mut headers);
        headers
    }

    #[test]
    fn the_key_is_answered_as_the_rfc_does() {
        let response = answer(&asking(|_| ())).unwrap();
        assert_eq!(response.status(), 101);
        assert_eq!(response.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn what_is_no_handshake_is_refused() {
        for name in ["connection", "upgrade", "sec-websocket-version", "sec-websocket-key"] {
            assert!(answer(&asking(|headers| drop(headers.remove(name)))).is_err(), "{name}");
        }
        let short =
            |headers: &mut HeaderMap| drop(headers.insert("sec-websocket-key", HeaderValue::from_static("eA==")));
        assert!(answer(&asking(short)).is_err());
        assert_eq!(refuse(StatusCode::BAD_REQUEST, "no").status(), 400);
    }
}
