//! A minimal gRPC client for unary calls.

use anyhow::{Context, Result, bail};
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, Method, Request, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rdd_stdx::task::Group;
use tokio::net::TcpStream;

/// A connection that supports concurrent calls.
#[derive(Debug)]
pub(crate) struct Channel {
    sender: SendRequest<Full<Bytes>>,
    authority: String,
    _connection: Group<()>,
}

impl Channel {
    /// Connects without TLS.
    pub(crate) async fn connect(authority: &str) -> Result<Self> {
        let stream = TcpStream::connect(authority).await.with_context(|| format!("connect to {authority}"))?;
        stream.set_nodelay(true).context("switch delays off")?;
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.context("greet")?;
        let mut group = Group::default();
        group.spawn("connection", async {
            // If the connection breaks, its calls fail with an error.
            let _ = connection.await;
        });
        Ok(Self { sender, authority: authority.to_owned(), _connection: group })
    }

    /// Makes a call and checks that its status is OK; the reply's message is ignored.
    pub(crate) async fn call(&self, method: &str, message: &[u8]) -> Result<()> {
        let request = Request::builder()
            .method(Method::POST)
            .version(Version::HTTP_2)
            .uri(format!("http://{}{method}", self.authority))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(frame(message)))
            .context("make a request")?;
        let mut sender = self.sender.clone();
        sender.ready().await.with_context(|| format!("call {method}"))?;
        let response = sender.send_request(request).await.with_context(|| format!("call {method}"))?;
        let (head, body) = response.into_parts();
        if !head.status.is_success() {
            bail!("{method}: HTTP status {}", head.status);
        }
        let body = body.collect().await.with_context(|| format!("read the reply of {method}"))?;
        // A reply without a message has its status in the headers.
        let trailers = body.trailers().unwrap_or(&head.headers);
        check_status(trailers).with_context(|| format!("call {method}"))
    }
}

/// A gRPC frame: the flag for no compression, the length, and the message.
fn frame(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(5 + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).expect("messages are small"));
    frame.put_slice(message);
    frame.freeze()
}

fn check_status(trailers: &HeaderMap) -> Result<()> {
    let text = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok());
    match text("grpc-status") {
        Some("0") => Ok(()),
        Some(status) => bail!("status {status}: {}", text("grpc-message").unwrap_or("no message")),
        None => bail!("the reply has no status"),
    }
}

/// Appends a field with bytes to a protobuf message.
pub(crate) fn put_bytes_field(message: &mut Vec<u8>, number: u8, content: &[u8]) {
    const LENGTH_DELIMITED: u8 = 2;
    message.push(number << 3 | LENGTH_DELIMITED);
    let mut length = content.len();
    while length >= 0x80 {
        message.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8);
    message.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_frames_are_as_on_the_wire() {
        let mut message = Vec::new();
        put_bytes_field(&mut message, 1, b"key");
        put_bytes_field(&mut message, 2, &[7; 300]);
        assert_eq!(message[..8], [0x0a, 3, b'k', b'e', b'y', 0x12, 0xac, 0x02]);
        assert_eq!(message.len(), 8 + 300);
        assert_eq!(frame(b"ab")[..], [0, 0, 0, 0, 2, b'a', b'b']);
    }

    #[test]
    fn a_status_other_than_zero_or_none_at_all_is_a_failure() {
        let status = |value: &'static str| {
            HeaderMap::from_iter([(
                http::HeaderName::from_static("grpc-status"),
                http::HeaderValue::from_static(value),
            )])
        };
        assert!(check_status(&status("0")).is_ok());
        assert_eq!(check_status(&status("8")).unwrap_err().to_string(), "status 8: no message");
        assert!(check_status(&HeaderMap::new()).is_err());
    }
}
