//! One WebSocket: messages out, messages in, pings answered, an end that both sides know of.

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

/// The longest message that is taken from a client. Ours read from no client but signs of life.
const MESSAGE_BYTES_MAX: usize = 4096;
/// How long a message may take to go out, unless the owner says otherwise.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a frame that only steers may take to go out.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(1);

/// Codes of a close frame.
pub mod close_code {
    /// All is said.
    pub const NORMAL: u16 = 1000;
    /// The server goes away.
    pub const GOING_AWAY: u16 = 1001;
    /// The client broke the rules.
    pub const PROTOCOL: u16 = 1002;
    /// What claims to be text is none.
    pub const INVALID_DATA: u16 = 1007;
    /// More than is taken.
    pub const TOO_BIG: u16 = 1009;
    /// The source failed.
    pub const INTERNAL: u16 = 1011;
}

/// Why a WebSocket ended before its time.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The connection did not become one.
    #[error("turn the connection into a WebSocket")]
    Upgrade(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Reading or writing failed.
    #[error("talk over the WebSocket")]
    Io(#[from] io::Error),
    /// The client takes nothing, or says nothing.
    #[error("the client of the WebSocket does not {0}")]
    Silent(&'static str),
    /// The client broke the rules; the code is the one that it was told.
    #[error("the client of the WebSocket broke the rules ({0})")]
    Wrong(u16),
}

/// What came from the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A message.
    Message(Bytes),
    /// A sign of life.
    Pong,
    /// The client is done.
    Closed,
}

/// One WebSocket, the server's side.
#[derive(Debug)]
pub struct Socket<S> {
    stream: WebSocketStream<S>,
    /// The answer to a ping has not gone out yet, or not to its end.
    owes_pong: bool,
    send_timeout: Duration,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// Over a connection that has been upgraded.
    pub async fn new(stream: S) -> Self {
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX))
            // A message goes out when it is sent, and is not gathered with others.
            .write_buffer_size(0);
        let stream = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        Self { stream, owes_pong: false, send_timeout: SEND_TIMEOUT }
    }

    /// How long a message may take to go out. A client that takes longer is given up.
    #[must_use]
    pub fn with_send_timeout(self, send_timeout: Duration) -> Self {
        Self { send_timeout, ..self }
    }

    /// Sends a text.
    pub async fn text(&mut self, text: impl Into<String>) -> Result<(), SocketError> {
        self.send(Message::Text(Utf8Bytes::from(text.into())), self.send_timeout).await
    }

    /// Sends bytes as text, which they have to be.
    pub async fn text_bytes(&mut self, text: Bytes) -> Result<(), SocketError> {
        let text = Utf8Bytes::try_from(text)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a text message has to be UTF-8"))?;
        self.send(Message::Text(text), self.send_timeout).await
    }

    /// Sends bytes.
    pub async fn binary(&mut self, bytes: Bytes) -> Result<(), SocketError> {
        self.send(Message::Binary(bytes), self.send_timeout).await
    }

    /// Asks the client for a sign of life.
    pub async fn ping(&mut self) -> Result<(), SocketError> {
        self.send(Message::Ping(Bytes::new()), CONTROL_TIMEOUT).await
    }

    /// Says that it is over, and why: the reason is cut where a character ends. A client that said so first gets its own words back.
    pub async fn close(&mut self, code: u16, reason: &str) -> Result<(), SocketError> {
        let frame = CloseFrame { code: code.into(), reason: fit_reason(reason).into_owned().into() };
        let closing = async {
            let mut closed = self.stream.close(Some(frame)).await;
            // The client said so first: what waits to go out is its own farewell.
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

    /// What the client sends next; its pings are answered by the way. It may be dropped while it waits, and nothing is lost.
    pub async fn next(&mut self) -> Result<Received, SocketError> {
        loop {
            // A client that pings and reads nothing would otherwise fill the memory with answers.
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
                // A frame by itself is never read.
                Some(Ok(Message::Close(_) | Message::Frame(_))) | None => return Ok(Received::Closed),
                Some(Err(error)) => return self.receive_failed(error).await,
            }
        }
    }

    /// A client that is gone has closed; one that broke the rules is told so and left.
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

/// A close frame has room for 123 bytes of it.
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

    /// A short frame as a client sends it: masked.
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
            // There is no room for the whole answer, and something else to do in the middle of it.
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
