//! A small HTTP server on loopback, for health, metrics and webhooks of a process without an API server.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::StatusCode;
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rdd_stdx::task::Group;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::Mutex,
};
use tokio_rustls::TlsAcceptor;

use crate::Error;

/// The maximum number of connections; further ones wait in the kernel's backlog.
const CONNECTIONS_MAX: usize = 64;
/// How long a client may take for the TLS handshake, and for the head of a request.
const HEAD_BOUND: Duration = Duration::from_secs(10);
/// The pause after a failed `accept`, for example when the process has no file descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) type Request = http::Request<Incoming>;
pub(crate) type Response = http::Response<Full<Bytes>>;
pub(crate) type Handler = Arc<dyn Fn(Request) -> BoxFuture<'static, Response> + Send + Sync>;

/// A listening socket on loopback with its handler. The mutex lets a restarted task take over the socket from its predecessor.
#[derive(Clone)]
pub(crate) struct Server {
    socket: Arc<Mutex<TcpListener>>,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    handler: Handler,
}

/// Binds 127.0.0.1 on the preferred port, or on a free port if that is unavailable.
pub(crate) async fn bind(preferred: u16) -> Result<TcpListener, Error> {
    let told = |error: io::Error| Error::because(format!("listen on 127.0.0.1:{preferred}"), error);
    match TcpListener::bind((Ipv4Addr::LOCALHOST, preferred)).await {
        Ok(socket) => Ok(socket),
        Err(error) if preferred == 0 => Err(told(error)),
        // The preferred port is only a convenience: clients learn the bound port from the API.
        Err(_) => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(told),
    }
}

impl Server {
    pub(crate) fn new(socket: TcpListener, tls: Option<TlsAcceptor>, handler: Handler) -> Result<Self, Error> {
        let address = socket.local_addr().map_err(|error| Error::because("ask for the bound port", error))?;
        Ok(Self { socket: Arc::new(Mutex::new(socket)), address, tls, handler })
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Serves connections until the future is dropped, which also ends all connections.
    pub(crate) async fn run(self) -> Result<(), Error> {
        let socket = self.socket.lock().await;
        let mut connections = Group::default();
        loop {
            tokio::select! {
                // Reap finished connections, which frees room for new ones.
                _ = connections.next(), if !connections.is_empty() => {}
                accepted = socket.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                    Ok((stream, _)) => {
                        let (tls, handler) = (self.tls.clone(), Arc::clone(&self.handler));
                        connections.spawn("connection", async move {
                            match tls {
                                None => talk(stream, handler).await,
                                Some(tls) => {
                                    if let Ok(Ok(stream)) = tokio::time::timeout(HEAD_BOUND, tls.accept(stream)).await {
                                        talk(stream, handler).await;
                                    }
                                }
                            }
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "connections cannot be accepted");
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        }
    }
}

async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, handler: Handler) {
    let service = service_fn(move |request| {
        let answering = handler(request);
        async move { Ok::<_, std::convert::Infallible>(answering.await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_BOUND)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        // Clients close connections as they like, so this is no warning.
        tracing::trace!(%error, "a connection ended badly");
    }
}

/// A response without a body.
pub(crate) fn bare(code: StatusCode) -> Response {
    let mut response = Response::new(Full::default());
    *response.status_mut() = code;
    response
}

/// A response with this text as its body.
pub(crate) fn text(content_type: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Full::new(body.into()));
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}
