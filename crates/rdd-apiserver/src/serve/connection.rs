//! Serves one connection: the wait for a place, the TLS handshake, then HTTP/1.1 or HTTP/2 as the client negotiated.

use std::{
    convert::Infallible,
    pin::{Pin, pin},
    sync::Arc,
};

use futures_util::{FutureExt as _, StreamExt as _, TryFutureExt as _, stream::FuturesUnordered};
use hyper::{
    body::{Body as _, Incoming},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rdd_stdx::chain::Chain;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{
    frame::{Caller, Frame, Peer},
    limits::{CONNECTION_WINDOW_BYTES, ERROR_RESETS, Limits, PENDING_RESETS, STREAM_WINDOW_BYTES},
    pending::Visit,
    place::Placed,
    streams::Streams,
};
use crate::{
    request::{Class, ClientAddress},
    respond::{self, Body, Response},
    tls::{self, Tls},
};

const OVERDUE: &str = "a connection was closed because it had not authenticated and others waited";

/// Serves a connection until it ends. Errors are only logged: they affect no other connection.
pub(super) async fn serve(stream: Placed, tls: Arc<Tls>, frame: Arc<Frame>, visit: Arc<Visit>) {
    if let Err(error) = stream.set_nodelay() {
        tracing::debug!(%error, "a connection was gone before it was served");
        return;
    }
    if !wait_for_place(&frame, &visit).await {
        tracing::debug!("a connection was closed because it did not get a place in time");
        return;
    }
    let Some(stream) = handshake(stream, &tls, &frame, &visit).await else { return };
    let (placed, session) = stream.get_ref();
    let address = placed.peer_address();
    // The certificate is parsed once per connection, not once per request.
    let certificate = session.peer_certificates().and_then(|chain| tls::holder(chain.first()?));
    let peer = Arc::new(Peer::new(certificate.map(|holder| Arc::new(holder.into())), address, visit));
    let speaks_http2 = session.alpn_protocol() == Some(b"h2");
    let ended =
        if speaks_http2 { serve_http2(stream, peer, frame).await } else { serve_http1(stream, peer, frame).await };
    if let Err(error) = ended {
        tracing::debug!(error = %Chain(&error), "a connection ended badly");
    }
}

/// Waits for a place among the connections that have not authenticated, without reading from the connection. Returns false if the
/// connection is to be closed.
async fn wait_for_place(frame: &Frame, visit: &Visit) -> bool {
    tokio::select! {
        is_admitted = visit.admit(frame.limits.handshake_timeout) => is_admitted,
        () = frame.draining.cancelled() => false,
    }
}

/// Performs the TLS handshake. `None` if it failed, took too long, or the server shuts down; the reason is logged.
async fn handshake(stream: Placed, tls: &Arc<Tls>, frame: &Frame, visit: &Visit) -> Option<TlsStream<Placed>> {
    // Renewal needs no timer: the first connection after the date does it.
    if tls.renewal_is_due() {
        let tls = tls.clone();
        if let Err(error) = tokio::task::spawn_blocking(move || tls.renew()).await {
            tracing::error!(%error, "the renewal of the serving certificate panicked");
        }
    }
    let accepting = TlsAcceptor::from(tls.config()).accept(stream);
    tokio::select! {
        shaken = timeout(frame.limits.handshake_timeout, accepting) => match shaken {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                None
            }
            Err(_) => {
                tracing::debug!("a TLS handshake took too long");
                None
            }
        },
        () = frame.draining.cancelled() => None,
        () = visit.overdue(frame.limits.pending_time) => {
            tracing::debug!(OVERDUE);
            None
        }
    }
}

async fn serve_http1(stream: TlsStream<Placed>, peer: Arc<Peer>, frame: Arc<Frame>) -> hyper::Result<()> {
    let Limits { header_read_timeout, header_bytes, headers, .. } = frame.limits;
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(header_read_timeout)
        .max_headers(headers)
        .max_header_size(header_bytes as usize);
    let service = service_fn(|request| {
        let (_, answering) = answer(&frame, &peer, request);
        answering.inspect_ok(|response| {
            if response.status() == http::StatusCode::SWITCHING_PROTOCOLS {
                // An upgraded stream must not linger when hyper shuts down its side.
                peer.mark_upgraded();
            }
        })
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
    drive(connection, http1::UpgradeableConnection::graceful_shutdown, &peer, &frame).await
}

async fn serve_http2(stream: TlsStream<Placed>, peer: Arc<Peer>, frame: Arc<Frame>) -> hyper::Result<()> {
    let limits = frame.limits;
    let streams = Streams::default();
    let mut builder = http2::Builder::new(streams.clone());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        // The two limits of resets bound what the Rapid Reset attack can cost.
        .max_pending_accept_reset_streams(PENDING_RESETS)
        .max_local_error_reset_streams(ERROR_RESETS)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(limits.header_bytes)
        .keep_alive_interval(limits.ping_interval)
        .keep_alive_timeout(limits.ping_timeout);
    let (for_service, for_peer) = (frame.clone(), peer.clone());
    let expecting = streams.clone();
    let service = service_fn(move |request| {
        let (class, answering) = answer(&for_service, &for_peer, request);
        expecting.expect(class);
        answering
    });
    let connection = streams.drive(builder.serve_connection(TokioIo::new(stream), service));
    drive(connection, |driven| driven.connection().graceful_shutdown(), &peer, &frame).await
}

/// Passes a request of this connection to the frame.
fn answer(
    frame: &Arc<Frame>,
    peer: &Peer,
    request: http::Request<Incoming>,
) -> (Class, impl Future<Output = Result<Response, Infallible>> + use<>) {
    let (mut head, body) = request.into_parts();
    if let Some(address) = peer.address {
        head.extensions.insert(ClientAddress(address));
    }
    // Most requests have no body, and an empty one needs no allocation.
    let body = if body.is_end_stream() { respond::full("") } else { Body::new(body) };
    let (class, responding) = frame.respond(Caller::Peer(peer), head, body);
    (class, async { Ok(responding.await) })
}

/// An event of the server that concerns a connection.
enum Alarm {
    /// The server shuts down.
    Draining,
    /// The connection had its time, and others wait for its place.
    Overdue,
    /// The connection has not authenticated within the timeout.
    LostPatience,
}

/// Runs a connection until it ends. It is drained at shutdown, and closed if it has not authenticated in time.
async fn drive<C: Future<Output = hyper::Result<()>>>(
    connection: C,
    drain: impl Fn(Pin<&mut C>),
    peer: &Peer,
    frame: &Frame,
) -> hyper::Result<()> {
    let mut connection = pin!(connection);
    // `FuturesUnordered` polls an alarm only when it is woken, and not every time that the connection is polled.
    let mut alarms: FuturesUnordered<Pin<Box<dyn Future<Output = Alarm> + Send + '_>>> = FuturesUnordered::new();
    alarms.push(Box::pin(frame.draining.cancelled().map(|()| Alarm::Draining)));
    alarms.push(Box::pin(peer.overdue(frame.limits.pending_time).map(|()| Alarm::Overdue)));
    alarms.push(Box::pin(tokio::time::sleep(frame.limits.authentication_timeout).map(|()| Alarm::LostPatience)));
    loop {
        let alarm = tokio::select! {
            // The connection comes first: nearly all wake-ups are its own.
            biased;
            ended = connection.as_mut() => return ended,
            Some(alarm) = alarms.next() => alarm,
        };
        match alarm {
            Alarm::Draining => drain(connection.as_mut()),
            // The alarms are not cancelled when the connection authenticates; they are ignored here.
            Alarm::Overdue | Alarm::LostPatience if peer.is_authenticated() => {}
            Alarm::Overdue => {
                tracing::debug!(OVERDUE);
                return Ok(());
            }
            Alarm::LostPatience => {
                tracing::debug!("a connection was closed because it authenticated nobody");
                return Ok(());
            }
        }
    }
}
