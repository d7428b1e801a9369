//! Streams a log into a WebSocket, one message per piece, until the log ends or the client leaves.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep_until},
};

use super::{
    protocol::Subprotocol,
    socket::{Received, Socket, SocketError, close_code},
};

/// A client that was silent for this long gets a ping.
const ASKED_AFTER: Duration = Duration::from_secs(10);
/// A client that was silent for this long counts as gone.
const GONE_AFTER: Duration = Duration::from_secs(60);

/// A piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPiece {
    /// The channel, for subprotocols that have channels.
    pub channel: u8,
    /// The content.
    pub bytes: Bytes,
}

/// Sends each piece of `source` as one message of the subprotocol, and ignores messages of the client.
///
/// When the source ends, the WebSocket is closed normally; when it fails, the close frame carries the message.
/// Subprotocols that report the outcome send it before.
///
/// # Errors
/// [`SocketError::Silent`] if the client does not read or does not respond to a ping; other errors of the connection.
pub async fn pour<S, P>(socket: &mut Socket<S>, protocol: Subprotocol, source: P) -> Result<(), SocketError>
where
    S: AsyncRead + AsyncWrite + Unpin,
    P: Stream<Item = Result<StreamPiece, String>> + Send,
{
    let mut source = std::pin::pin!(source);
    let (mut heard, mut asked) = (Instant::now(), false);
    loop {
        let deadline = heard + if asked { GONE_AFTER } else { ASKED_AFTER };
        tokio::select! {
            piece = source.next() => match piece {
                Some(Ok(piece)) => send(socket, protocol, protocol.encode(piece.channel, &piece.bytes)).await?,
                Some(Err(why)) => return end(socket, protocol, Some(&why)).await,
                None => return end(socket, protocol, None).await,
            },
            received = socket.next() => match received? {
                // Completes the close handshake; the client may have disconnected already.
                Received::Closed => return socket.close(close_code::NORMAL, "").await.or(Ok(())),
                Received::Message(_) | Received::Pong => (heard, asked) = (Instant::now(), false),
            },
            () = sleep_until(deadline) => {
                if asked {
                    return Err(SocketError::Silent("answer"));
                }
                socket.ping().await?;
                asked = true;
            }
        }
    }
}

async fn send<S>(socket: &mut Socket<S>, protocol: Subprotocol, message: Bytes) -> Result<(), SocketError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if protocol.base64 { socket.text_bytes(message).await } else { socket.binary(message).await }
}

async fn end<S>(socket: &mut Socket<S>, protocol: Subprotocol, failure: Option<&str>) -> Result<(), SocketError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if let Some(outcome) = protocol.encode_outcome(failure) {
        send(socket, protocol, outcome).await?;
    }
    match failure {
        None => socket.close(close_code::NORMAL, "Closing connection").await,
        Some(why) => socket.close(close_code::INTERNAL, why).await,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::{
        super::{
            protocol::{LOG_PROTOCOLS, STDERR_CHANNEL, STDOUT_CHANNEL, select_protocol},
            socket::tests::{CLOSE, TEXT, masked},
        },
        *,
    };

    fn piece(channel: u8, text: &'static str) -> Result<StreamPiece, String> {
        Ok(StreamPiece { channel, bytes: Bytes::from_static(text.as_bytes()) })
    }

    /// The bytes on the wire when this source is streamed.
    async fn poured(name: &str, pieces: Vec<Result<StreamPiece, String>>) -> Vec<u8> {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let protocol = select_protocol(&[name], LOG_PROTOCOLS).unwrap();
        pour(&mut Socket::new(server).await, protocol, stream::iter(pieces)).await.unwrap();
        let mut got = Vec::new();
        client.read_to_end(&mut got).await.unwrap();
        got
    }

    #[tokio::test]
    async fn every_piece_is_one_message_and_the_end_is_told() {
        let pieces = vec![piece(STDOUT_CHANNEL, "a"), piece(STDERR_CHANNEL, "b")];
        assert_eq!(poured("", pieces.clone()).await, b"\x82\x01a\x82\x01b\x88\x14\x03\xe8Closing connection");
        let text = poured("base64.binary.k8s.io", pieces.clone()).await;
        assert_eq!(text, b"\x81\x04YQ==\x81\x04Yg==\x88\x14\x03\xe8Closing connection");
        let told = poured("v4.channel.k8s.io", pieces).await;
        let told_apart =
            b"\x82\x02\x01a\x82\x02\x02b\x82\x23\x03{\"metadata\":{},\"status\":\"Success\"}\x88\x14\x03\xe8Closing connection";
        assert_eq!(told, told_apart);
    }

    #[tokio::test]
    async fn a_failure_is_told_as_the_reason_of_the_end() {
        assert_eq!(poured("", vec![Err("broken".to_owned())]).await, b"\x88\x08\x03\xf3broken");
    }

    #[tokio::test]
    async fn an_endless_log_ends_when_the_client_goes() {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        client.write_all(&masked(TEXT, b"ignored")).await.unwrap();
        client.write_all(&masked(CLOSE, &[])).await.unwrap();
        pour(&mut Socket::new(server).await, LOG_PROTOCOLS[0], stream::pending()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_answers_is_taken_for_gone() {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let gone = pour(&mut Socket::new(server).await, LOG_PROTOCOLS[0], stream::pending()).await;
        assert!(matches!(gone, Err(SocketError::Silent("answer"))), "{gone:?}");
        let mut got = [0; 2];
        client.read_exact(&mut got).await.unwrap();
        assert_eq!(got, [0x89, 0]);
    }
}
