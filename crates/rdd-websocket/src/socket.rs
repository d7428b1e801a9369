//! One WebSocket: sends and receives messages, replies to pings, and performs the close handshake.

use std::{borrow::Cow, io, time::Duration};

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        self, Message, Utf8Bytes,
        error::ProtocolError,
        protocol::{CloseFrame, Role, WebSocketConfig},
    },
};

/// The maximum size of a received message. Clients of our streams send only pings and pongs.
const MESSAGE_BYTES_MAX: usize = 4096;
/// The default timeout for sending a message.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout for sending a control frame.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(1);

/// Status codes of close frames.
pub mod close_code {
    /// Normal end.
    pub const NORMAL: u16 = 1000;
    /// The server shuts down.
    pub const GOING_AWAY: u16 = 1001;
    /// The client violated the protocol.
    pub const PROTOCOL: u16 = 1002;
    /// A text message is not UTF-8.
    pub const INVALID_DATA: u16 = 1007;
    /// A message is too large.
    pub const TOO_BIG: u16 = 1009;
    /// The server's source failed.
    pub const INTERNAL: u16 = 1011;
}

/// Why a WebSocket failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The HTTP upgrade failed.
    #[error("turn the connection into a WebSocket")]
    Upgrade(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Reading or writing failed.
    #[error("talk over the WebSocket")]
    Io(#[from] io::Error),
    /// The client does not read or does not respond in time.
    #[error("the client of the WebSocket does not {0}")]
    Silent(&'static str),
    /// The client violated the protocol; it received this close code.
    #[error("the client of the WebSocket broke the rules ({0})")]
    Wrong(u16),
}

/// A received message or event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A message.
    Message(Bytes),
    /// A pong: the client is alive.
    Pong,
    /// The client closed the WebSocket or disconnected.
    Closed,
}

/// The server side of a WebSocket.
#[derive(Debug)]
pub struct Socket<S> {
    stream: WebSocketStream<S>,
    /// Whether the pong for a received ping is not completely sent yet.
    owes_pong: bool,
    send_timeout: Duration,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// Creates a WebSocket on an upgraded connection.
    pub async fn new(stream: S) -> Self {
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX))
            // Send each message at once instead of buffering it.
            .write_buffer_size(0);
        let stream = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        Self { stream, owes_pong: false, send_timeout: SEND_TIMEOUT }
    }

    /// Sets the timeout for sending a message. A client that reads slower is given up.
    #[must_use]
    pub fn with_send_timeout(self, send_timeout: Duration) -> Self {
        Self { send_timeout, ..self }
    }

    /// Sends a text message.
    pub async fn text(&mut self, text: impl Into<String>) -> Result<(), SocketError> {
        self.send(Message::Text(Utf8Bytes::from(text.into())), self.send_timeout).await
    }

    /// Sends bytes as a text message. They must be UTF-8.
    pub async fn text_bytes(&mut self, text: Bytes) -> Result<(), SocketError> {
        let text = Utf8Bytes::try_from(text)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a text message has to be UTF-8"))?;
        self.send(Message::Text(text), self.send_timeout).await
    }

    /// Sends a binary message.
    pub async fn binary(&mut self, bytes: Bytes) -> Result<(), SocketError> {
        self.send(Message::Binary(bytes), self.send_timeout).await
    }

    /// Sends a ping.
    pub async fn ping(&mut self) -> Result<(), SocketError> {
        self.send(Message::Ping(Bytes::new()), CONTROL_TIMEOUT).await
    }

    /// Closes the WebSocket with this code and reason, which is truncated to fit. If the client closed it first, its
    /// own code is returned to it.
    pub async fn close(&mut self, code: u16, reason: &str) -> Result<(), SocketError> {
        let frame = CloseFrame { code: code.into(), reason: fit_reason(reason).into_owned().into() };
        let closing = async {
            let mut closed = self.stream.close(Some(frame)).await;
            // The client closed first: only the reply to its close frame remains to be sent.
            if let Err(tungstenite::Error::Protocol(ProtocolError::SendAfterClosing)) = closed {
                closed = self.stream.flush().await;
            }
            match closed {
                Ok(()) | Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => {}
                Err(error) => return Err(failure_of(error)),
            }
            Ok(self.stream.get_mut().shutdown().await?)
        };
        timeout(CONTROL_TIMEOUT, closing).await.map_err(|_| SocketError::Silent("read"))?
    }

    async fn send(&mut self, message: Message, takes: Duration) -> Result<(), SocketError> {
        let sent = timeout(takes, self.stream.send(message)).await.map_err(|_| SocketError::Silent("read"))?;
        self.owes_pong = false;
        sent.map_err(failure_of)
    }

    /// Receives the next message or event, and replies to pings. Cancel safe: dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Received, SocketError> {
        loop {
            // Send the pong before reading on: the pongs for a client that never reads would otherwise fill the memory.
            if self.owes_pong {
                let flushed = timeout(CONTROL_TIMEOUT, self.stream.flush()).await;
                flushed.map_err(|_| SocketError::Silent("read"))?.map_err(failure_of)?;
                self.owes_pong = false;
            }
            match self.stream.next().await {
                Some(Ok(Message::Ping(_))) => self.owes_pong = true,
                Some(Ok(Message::Pong(_))) => return Ok(Received::Pong),
                Some(Ok(Message::Text(text))) => return Ok(Received::Message(text.into())),
                Some(Ok(Message::Binary(bytes))) => return Ok(Received::Message(bytes)),
                // tungstenite never returns raw frames when reading.
                Some(Ok(Message::Close(_) | Message::Frame(_))) | None => return Ok(Received::Closed),
                Some(Err(error)) => return self.receive_failed(error).await,
            }
        }
    }

    /// Handles a receive error: a disconnect counts as a close; a client that violated the protocol gets a close frame.
    async fn receive_failed(&mut self, error: tungstenite::Error) -> Result<Received, SocketError> {
        use tungstenite::Error;
        let code = match error {
            Error::ConnectionClosed
            | Error::AlreadyClosed
            | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => return Ok(Received::Closed),
            Error::Io(error) => return Err(error.into()),
            Error::Capacity(_) => close_code::TOO_BIG,
            Error::Utf8(_) => close_code::INVALID_DATA,
            _ => close_code::PROTOCOL,
        };
        self.close(code, "").await?;
        Err(SocketError::Wrong(code))
    }
}

fn failure_of(error: tungstenite::Error) -> SocketError {
    match error {
        tungstenite::Error::Io(error) => SocketError::Io(error),
        other => SocketError::Io(io::Error::other(other)),
    }
}

/// Truncates a reason to the 123 bytes that fit into a close frame.
fn fit_reason(reason: &str) -> Cow<'_, str> {
    Cow::Borrowed(&reason[..reason.floor_char_boundary(123)])
}

#[cfg(test)]
pub(crate) mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    pub(crate) const TEXT: u8 = 1;
    pub(crate) const BINARY: u8 = 2;
    pub(crate) const CLOSE: u8 = 8;
    pub(crate) const PING: u8 = 9;

    /// A short masked frame, as clients send it.
    pub(crate) fn masked(opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let length = u8::try_from(payload.len()).unwrap();
        let payload = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
        [0x80 | opcode, 0x80 | length].into_iter().chain(mask).chain(payload).collect()
    }

    #[tokio::test]
    async fn messages_go_both_ways_and_pings_are_answered() {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let mut socket = Socket::new(server).await;
        socket.text("hi").await.unwrap();
        let mut got = [0; 4];
        client.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"\x81\x02hi");

        client.write_all(&masked(PING, b"p")).await.unwrap();
        client.write_all(&masked(BINARY, b"m")).await.unwrap();
        assert_eq!(socket.next().await.unwrap(), Received::Message(Bytes::from_static(b"m")));
        let mut got = [0; 3];
        client.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"\x8a\x01p");

        client.write_all(&masked(CLOSE, &[])).await.unwrap();
        assert_eq!(socket.next().await.unwrap(), Received::Closed);
        socket.close(close_code::NORMAL, "").await.unwrap();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"\x88\x00", "the client's own farewell comes back, once");
    }

    #[tokio::test]
    async fn an_answer_that_is_cut_short_goes_on_before_anything_else() {
        let (mut client, server) = tokio::io::duplex(8);
        let mut socket = Socket::new(server).await;
        let payload = [b'p'; 20];
        let (asked, ()) = tokio::join!(
            async { client.write_all(&masked(PING, &payload)).await.map(|()| client) },
            // The pong does not fit into the buffer, and the future is dropped in the middle of it.
            async { assert!(timeout(Duration::from_millis(100), socket.next()).await.is_err()) },
        );
        let mut client = asked.unwrap();
        let mut got = vec![0; 22 + 4];
        let (sent, read) = tokio::join!(socket.text("hi"), client.read_exact(&mut got));
        sent.unwrap();
        read.unwrap();
        assert_eq!(got, [&b"\x8a\x14"[..], &payload, b"\x81\x02hi"].concat());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_pings_and_reads_nothing_is_left() {
        let (mut client, server) = tokio::io::duplex(1 << 12);
        let mut socket = Socket::new(server).await;
        let flood = async {
            loop {
                client.write_all(&masked(PING, &[b'p'; 100])).await?;
            }
            #[allow(unreachable_code, reason = "the type of what never ends")]
            io::Result::Ok(())
        };
        tokio::select! {
            flooded = flood => panic!("{flooded:?}"),
            left = socket.next() => assert!(matches!(left, Err(SocketError::Silent("read"))), "{left:?}"),
        }
    }

    #[tokio::test]
    async fn a_client_that_breaks_the_rules_is_told_and_left() {
        let long = [&[0x82, 0xfe, 0x10, 0x01, 1, 2, 3, 4][..], &[0; 4097]].concat();
        let not_text = masked(TEXT, &[0xff]);
        for (sent, code) in [(&[0x81, 0x01, b'x'][..], 1002_u16), (&long, 1009), (&not_text, 1007)] {
            let (mut client, server) = tokio::io::duplex(1 << 16);
            let mut socket = Socket::new(server).await;
            client.write_all(sent).await.unwrap();
            let left = socket.next().await;
            assert!(matches!(left, Err(SocketError::Wrong(told)) if told == code), "{left:?}");
            let mut got = Vec::new();
            client.read_to_end(&mut got).await.unwrap();
            assert_eq!(got, [&[0x88, 2][..], &code.to_be_bytes()].concat());
        }
    }

    #[tokio::test]
    async fn a_long_reason_is_cut_where_a_character_ends() {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        Socket::new(server).await.close(close_code::INTERNAL, &"é".repeat(99)).await.unwrap();
        let mut got = Vec::new();
        client.read_to_end(&mut got).await.unwrap();
        assert_eq!((got[0], got[1]), (0x88, 124));
        assert_eq!(std::str::from_utf8(&got[4..]), Ok("é".repeat(61).as_str()));
    }
}
