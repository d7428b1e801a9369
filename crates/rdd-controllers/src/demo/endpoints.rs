//! The endpoints under `/passthrough/demo`: a greeting that shows the received request, and a WebSocket that sends hello.

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, Full};
use rdd_runtime::passthrough::{Passthrough, Response};

use crate::websocket::Sockets;

/// `hello`: responds with the headers and the path that arrived.
pub(super) fn hello() -> Passthrough {
    Passthrough::new("hello", |request| {
        let text = greeting(request.headers(), request.uri().path());
        async move { plain(text) }
    })
}

/// `websocket`: sends one text message, then closes.
pub(super) fn websocket(sockets: &Sockets) -> Passthrough {
    let sockets = sockets.clone();
    Passthrough::new("websocket", move |request| {
        let answer = sockets.accept(request, |mut socket, _| async move {
            socket.text("hello from websocket\n").await?;
            socket.close(1000, "").await
        });
        async move { answer }
    })
}

fn plain(text: String) -> Response {
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    let kind = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}

fn greeting(headers: &HeaderMap, path: &str) -> String {
    let mut lines = vec!["Hello, world!".to_owned()];
    let mut names: Vec<&str> = headers.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    for name in names {
        let values =
            headers.get_all(name).iter().map(|value| format!("{:?}", String::from_utf8_lossy(value.as_bytes())));
        lines.push(format!("{} = [{}]", titled(name), values.collect::<Vec<_>>().join(" ")));
    }
    lines.push(format!("Path = {path:?}\n"));
    lines.join("\n")
}

/// A header name in its usual spelling, as in `User-Agent`.
fn titled(name: &str) -> String {
    let parts = name.split('-').map(|part| {
        let mut letters = part.chars();
        letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
    });
    parts.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greeting_shows_headers_and_path() {
        let mut headers = HeaderMap::new();
        headers.insert("user-agent", http::HeaderValue::from_static("curl"));
        headers.append("accept", http::HeaderValue::from_static("a"));
        headers.append("accept", http::HeaderValue::from_static("b"));
        let wanted = "Hello, world!\nAccept = [\"a\" \"b\"]\nUser-Agent = [\"curl\"]\nPath = \"/rest\"\n";
        assert_eq!(greeting(&headers, "/rest"), wanted);
    }
}
