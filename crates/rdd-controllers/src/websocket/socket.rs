//! One WebSocket: messages out, messages in, pings answered, an end that both sides know of.

use std::{io, time::Duration};

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

use super::frame::{self, Kind};

/// The longest message that is taken from a client.
const MESSAGE_BYTES_MAX: usize = 4096;
/// How much may be owed to a client that does not read.
const OWED_BYTES_MAX: usize = 1024;
/// How long a message may take to go out.
const WRITE_TAKES: Duration = Duration::from_secs(10);
/// How long a frame that only steers may take to go out.
const CONTROL_TAKES: Duration = Duration::from_secs(1);

/// Why a WebSocket ended before its time.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The connection did not become one.
    #[error("turn the connection into a WebSocket")]
    Upgrade(#[source] hyper::Error),
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
    /// A message, or a piece of one.
    Message(Vec<u8>),
    /// A sign of life.
    Pong,
    /// The client is done.
    Closed,
}

/// One WebSocket, the server's side.
#[derive(Debug)]
pub struct Socket<S> {
    stream: S,
    read: BytesMut,
    /// Answers to pings that have not gone out yet, or not to their end: they go before anything else.
    owed: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// Over a connection that has been upgraded.
    pub fn new(stream: S) -> Self {
        Self { stream, read: BytesMut::new(), owed: BytesMut::new() }
    }

    /// Sends a text.
    pub async fn text(&mut self, text: &str) -> Result<(), SocketError> {
        self.send(Kind::Text, text.as_bytes(), WRITE_TAKES).await
    }

    /// Sends bytes.
    pub async fn binary(&mut self, bytes: &[u8]) -> Result<(), SocketError> {
        self.send(Kind::Binary, bytes, WRITE_TAKES).await
    }

    /// Asks the client for a sign of life.
    pub async fn ping(&mut self) -> Result<(), SocketError> {
        self.send(Kind::Ping, &[], CONTROL_TAKES).await
    }

    /// Says that it is over, and why: the reason is cut where a character ends.
    pub async fn close(&mut self, code: u16, reason: &str) -> Result<(), SocketError> {
        let mut end = reason.len().min(123);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        let mut payload = code.to_be_bytes().to_vec();
        payload.extend_from_slice(&reason.as_bytes()[..end]);
        self.send(Kind::Close, &payload, CONTROL_TAKES).await?;
        timeout(CONTROL_TAKES, self.stream.shutdown()).await.map_err(|_| SocketError::Silent("read"))??;
        Ok(())
    }

    async fn send(&mut self, kind: Kind, payload: &[u8], takes: Duration) -> Result<(), SocketError> {
        let frame = frame::write(kind, payload);
        let sent = timeout(takes, async {
            self.pay().await?;
            self.stream.write_all(&frame).await?;
            self.stream.flush().await
        });
        Ok(sent.await.map_err(|_| SocketError::Silent("read"))??)
    }

    /// Sends what is owed. It may be dropped at any time: what has gone out is not owed any more.
    async fn pay(&mut self) -> io::Result<()> {
        while !self.owed.is_empty() {
            self.stream.write_buf(&mut self.owed).await?;
        }
        self.stream.flush().await
    }

    /// What the client sends next; its pings are answered by the way. It may be dropped while it waits, and nothing is lost.
    pub async fn next(&mut self) -> Result<Received, SocketError> {
        loop {
            match frame::read(&mut self.read, MESSAGE_BYTES_MAX) {
                Ok(Some(frame)) => match frame.kind {
                    Kind::Ping => {
                        // Who pings faster than it reads is answered now and then, which the protocol allows.
                        if self.owed.len() < OWED_BYTES_MAX {
                            self.owed.extend_from_slice(&frame::write(Kind::Pong, &frame.payload));
                        }
                        timeout(CONTROL_TAKES, self.pay()).await.map_err(|_| SocketError::Silent("read"))??;
                    }
                    Kind::Pong => return Ok(Received::Pong),
                    Kind::Close => return Ok(Received::Closed),
                    Kind::Text | Kind::Binary | Kind::Continuation => return Ok(Received::Message(frame.payload)),
                },
                Ok(None) => {
                    if self.stream.read_buf(&mut self.read).await? == 0 {
                        return Ok(Received::Closed);
                    }
                }
                Err(wrong) => {
                    self.close(wrong.0, "").await?;
                    return Err(SocketError::Wrong(wrong.0));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::frame::tests::masked, *};

    #[tokio::test]
    async fn messages_go_both_ways_and_pings_are_answered() {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let mut socket = Socket::new(server);
        socket.text("hi").await.unwrap();
        let mut got = [0; 4];
        client.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"\x81\x02hi");

        client.write_all(&masked(Kind::Ping, b"p")).await.unwrap();
        client.write_all(&masked(Kind::Binary, b"m")).await.unwrap();
        assert_eq!(socket.next().await.unwrap(), Received::Message(b"m".to_vec()));
        let mut got = [0; 3];
        client.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"\x8a\x01p");

        client.write_all(&masked(Kind::Close, &[])).await.unwrap();
        assert_eq!(socket.next().await.unwrap(), Received::Closed);
    }

    #[tokio::test]
    async fn an_answer_that_is_cut_short_goes_on_before_anything_else() {
        let (mut client, server) = tokio::io::duplex(8);
        let mut socket = Socket::new(server);
        let payload = [b'p'; 20];
        let (asked, ()) = tokio::join!(
            async { client.write_all(&masked(Kind::Ping, &payload)).await.map(|()| client) },
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

    #[tokio::test]
    async fn a_client_that_breaks_the_rules_is_told_and_left() {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let mut socket = Socket::new(server);
        client.write_all(&[0x81, 0x01, b'x']).await.unwrap();
        assert!(matches!(socket.next().await, Err(SocketError::Wrong(1002))));
        let mut got = Vec::new();
        client.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, [0x88, 2, 3, 0xea]);
    }

    #[tokio::test]
    async fn a_long_reason_is_cut_where_a_character_ends() {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        Socket::new(server).close(1011, &"é".repeat(99)).await.unwrap();
        let mut got = Vec::new();
        client.read_to_end(&mut got).await.unwrap();
        assert_eq!((got[0], got[1]), (0x88, 124));
        assert_eq!(std::str::from_utf8(&got[4..]), Ok("é".repeat(61).as_str()));
    }
}
