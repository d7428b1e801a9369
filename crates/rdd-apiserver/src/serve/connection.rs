//! One connection: the TLS handshake, then HTTP/1.1 or HTTP/2 as the client chose, until either side ends it.

use std::{convert::Infallible, pin::pin, sync::Arc};

use http_body_util::BodyExt;
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::GracefulConnection,
};
use rdd_stdx::chain::Chain;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{
    frame::{Caller, Frame, Peer, Visit},
    limits::{CONNECTION_WINDOW_BYTES, ERROR_RESETS, Limits, PENDING_RESETS, STREAM_WINDOW_BYTES},
};
use crate::tls::{self, Tls};

/// Serves a connection to its end. Its failures concern nobody else, so they end here, in a line of the log.
pub(super) async fn serve(stream: TcpStream, tls: Arc<Tls>, frame: Arc<Frame>, visit: Arc<Visit>) {
    let evicted = visit.evicted.clone();
    tokio::select! {
        () = serve_to_the_end(stream, tls, frame, visit) => {}
        () = evicted.cancelled() => tracing::debug!("a connection that authenticated nobody made room for another"),
    }
}

async fn serve_to_the_end(stream: TcpStream, tls: Arc<Tls>, frame: Arc<Frame>, visit: Arc<Visit>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection was gone before it was served");
        return;
    }
    let Some(stream) = handshake(stream, &tls, &frame).await else { return };
    let (_, session) = stream.get_ref();
    let certificate = session.peer_certificates().and_then(|chain| tls::holder(chain.first()?));
    let peer = Arc::new(Peer::new(certificate.map(|holder| Arc::new(holder.into())), visit));
    let speaks_http2 = session.alpn_protocol() == Some(b"h2");
    let ended =
        if speaks_http2 { serve_http2(stream, peer, frame).await } else { serve_http1(stream, peer, frame).await };
    if let Err(error) = ended {
        tracing::debug!(error = %Chain(&error), "a connection ended badly");
    }
}

async fn handshake(stream: TcpStream, tls: &Arc<Tls>, frame: &Frame) -> Option<TlsStream<TcpStream>> {
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
    }
}

async fn serve_http1(stream: TlsStream<TcpStream>, peer: Arc<Peer>, frame: Arc<Frame>) -> hyper::Result<()> {
    let Limits { header_read_timeout, header_bytes, headers, .. } = frame.limits;
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(header_read_timeout)
        .max_headers(headers)
        .max_header_size(header_bytes as usize);
    let service = service_fn(|request| answer(frame.clone(), peer.clone(), request));
    drive(builder.serve_connection(TokioIo::new(stream), service), &peer, &frame).await
}

async fn serve_http2(stream: TlsStream<TcpStream>, peer: Arc<Peer>, frame: Arc<Frame>) -> hyper::Result<()> {
    let limits = frame.limits;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_pending_accept_reset_streams(PENDING_RESETS)
        .max_local_error_reset_streams(ERROR_RESETS)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(limits.header_bytes)
        .keep_alive_interval(limits.ping_interval)
        .keep_alive_timeout(limits.ping_timeout);
    let (for_service, for_peer) = (frame.clone(), peer.clone());
    let service = service_fn(move |request| answer(for_service.clone(), for_peer.clone(), request));
    drive(builder.serve_connection(TokioIo::new(stream), service), &peer, &frame).await
}

async fn answer(
    frame: Arc<Frame>,
    peer: Arc<Peer>,
    request: http::Request<Incoming>,
) -> Result<crate::respond::Response, Infallible> {
    let (head, body) = request.into_parts();
    Ok(frame.respond(Caller::Peer(&peer), head, body.map_err(Into::into).boxed_unsync()).await)
}

/// Runs a connection until it ends, is told to drain and has, or has authenticated nobody for too long.
async fn drive<C>(connection: C, peer: &Peer, frame: &Frame) -> hyper::Result<()>
where
    C: GracefulConnection<Error = hyper::Error> + Future<Output = hyper::Result<()>>,
{
    let mut connection = pin!(connection);
    let mut patience = pin!(tokio::time::sleep(frame.limits.authentication_timeout));
    let (mut draining, mut judged) = (false, false);
    loop {
        tokio::select! {
            ended = connection.as_mut() => return ended,
            () = frame.draining.cancelled(), if !draining => {
                draining = true;
                GracefulConnection::graceful_shutdown(connection.as_mut());
            }
            () = patience.as_mut(), if !judged => {
                judged = true;
                if !peer.is_authenticated() {
                    tracing::debug!("a connection was closed because it authenticated nobody");
                    return Ok(());
                }
            }
        }
    }
}
