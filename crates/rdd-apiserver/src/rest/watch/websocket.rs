//! A watch over a WebSocket: one message per event, as upstream's watch handler sends them.

use std::pin::pin;

use http::{HeaderValue, StatusCode, header, request::Parts};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use rdd_meta::Status;
use rdd_stdx::chain::Chain;
use rdd_websocket::{Received, Socket, SocketError, close_code, offered_protocols};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::session::Session;
use crate::{
    represent::{self, frames::Gather},
    request::Conversation,
    respond::{self, Response},
};

/// A client that takes nothing for so long is gone, or stopped: it begins again when it goes on.
const SEND_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);

/// Answers with 101, after which the events of the session are sent; or says what is wrong with the handshake.
///
/// Any single subprotocol is accepted and changes nothing, as upstream; of several none can be chosen.
pub(super) fn upgrade(head: &Parts, session: Session) -> Result<Response, Status> {
    let offered = offered_protocols(&head.headers);
    let subprotocol = match offered[..] {
        [] => "",
        [one] => one,
        _ => return Err(Status::bad_request("a watch over a WebSocket takes one subprotocol at most")),
    };
    let handshake = match rdd_websocket::accept(&head.headers, subprotocol) {
        Ok(handshake) => handshake,
        Err(error) => {
            let mut refused = represent::error(head, &Status::bad_request(error.to_string()));
            refused.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            return Ok(refused);
        }
    };
    let Some(upgrade) = head.extensions.get::<OnUpgrade>().cloned() else {
        return Err(Status::bad_request("this connection cannot become a WebSocket: use HTTP/1.1"));
    };
    let mut response = handshake.map(|()| respond::full(""));
    debug_assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    response.extensions_mut().insert(Conversation::new(async move {
        let served = match upgrade.await {
            Ok(upgraded) => serve(Socket::new(TokioIo::new(upgraded)).await, session).await,
            Err(error) => Err(SocketError::Upgrade(Box::new(error))),
        };
        if let Err(error) = served {
            tracing::debug!(error = %Chain(&error), "a watch over a WebSocket ended badly");
        }
    }));
    Ok(response)
}

/// Sends events until the session ends or the client leaves. What the client sends is read and dropped.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(socket: Socket<S>, mut session: Session) -> Result<(), SocketError> {
    let mut socket = socket.with_send_timeout(SEND_TIMEOUT);
    let (is_text, stopping) = (session.is_text(), session.stopping());
    loop {
        let mut gather = Gather::default();
        {
            let mut gathering = pin!(session.gather(&mut gather));
            loop {
                tokio::select! {
                    () = &mut gathering => break,
                    received = socket.next() => if received? == Received::Closed {
                        // The farewell is returned; the client may be gone already.
                        return socket.close(close_code::NORMAL, "").await.or(Ok(()));
                    },
                }
            }
        }
        while let Some(message) = gather.next() {
            let sending =
                async { if is_text { socket.text_bytes(message).await } else { socket.binary(message).await } };
            tokio::select! {
                biased;
                sent = sending => sent?,
                () = stopping.cancelled() => break,
            }
        }
        if session.has_ended() || stopping.is_cancelled() {
            return end(&mut socket, &stopping).await;
        }
    }
}

/// Upstream closes every watch that is over as a normal end. A server that goes away says so.
async fn end<S>(socket: &mut Socket<S>, stopping: &CancellationToken) -> Result<(), SocketError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if stopping.is_cancelled() {
        return socket.close(close_code::GOING_AWAY, "the server is shutting down").await;
    }
    socket.close(close_code::NORMAL, "").await
}
