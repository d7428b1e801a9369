//! A log poured into a WebSocket: one message per piece, until it ends or the client goes.

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep_until},
};

use super::socket::{Received, Socket, SocketError};

/// After so long without a word from the client it is asked for one.
const ASKED_AFTER: Duration = Duration::from_secs(10);
/// After so long without a word from the client it is taken for gone.
const GONE_AFTER: Duration = Duration::from_secs(60);

/// Sends each piece of `source` as one binary message. What the client sends is read and dropped. The end of the source closes the WebSocket
/// properly, a failure of it with the text as the reason.
pub async fn pour<S, P>(socket: &mut Socket<S>, source: P) -> Result<(), SocketError>
where
    S: AsyncRead + AsyncWrite + Unpin,
    P: Stream<Item = Result<Bytes, String>> + Send,
{
    let mut source = std::pin::pin!(source);
    let (mut heard, mut asked) = (Instant::now(), false);
    loop {
        let deadline = heard + if asked { GONE_AFTER } else { ASKED_AFTER };
        tokio::select! {
            piece = source.next() => match piece {
                Some(Ok(bytes)) => socket.binary(&bytes).await?,
                Some(Err(why)) => return socket.close(1011, &why).await,
                None => return socket.close(1000, "Closing connection").await,
            },
            received = socket.next() => match received? {
                // The client's farewell is returned; it may be gone already.
                Received::Closed => return socket.close(1000, "").await.or(Ok(())),
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

#[cfg(test)]
mod tests {
    use futures::stream;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::{
        super::frame::{Kind, tests::masked},
        *,
    };

    #[tokio::test]
    async fn every_piece_is_one_message_and_the_end_is_told() {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let pieces = stream::iter([Ok(Bytes::from_static(b"a")), Ok(Bytes::from_static(b"b"))]);
        pour(&mut Socket::new(server), pieces).await.unwrap();
        let mut got = Vec::new();
        client.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"\x82\x01a\x82\x01b\x88\x14\x03\xe8Closing connection");
    }

    #[tokio::test]
    async fn a_failure_is_told_as_the_reason_of_the_end() {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        pour(&mut Socket::new(server), stream::iter([Err("broken".to_owned())])).await.unwrap();
        let mut got = Vec::new();
        client.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"\x88\x08\x03\xf3broken");
    }

    #[tokio::test]
    async fn an_endless_log_ends_when_the_client_goes() {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        client.write_all(&masked(Kind::Text, b"ignored")).await.unwrap();
        client.write_all(&masked(Kind::Close, &[])).await.unwrap();
        pour(&mut Socket::new(server), stream::pending()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_answers_is_taken_for_gone() {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let gone = pour(&mut Socket::new(server), stream::pending()).await;
        assert!(matches!(gone, Err(SocketError::Silent("answer"))), "{gone:?}");
        let mut got = [0; 2];
        client.read_exact(&mut got).await.unwrap();
        assert_eq!(got, [0x89, 0]);
    }
}
