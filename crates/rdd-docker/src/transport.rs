//! The transport: a pool of HTTP connections to one unix socket, which adds the negotiated version to every path.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, Uri, uri::PathAndQuery};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use hyper::{
    body::Incoming,
    rt::{Read, ReadBufCursor, Write},
};
use hyper_util::{
    client::legacy::{
        Client,
        connect::{Connected, Connection},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use tokio::net::UnixStream;

use crate::{ApiVersion, error::BoxError};

/// The timeout of everything that is not a stream; a stop waits for the container's grace period.
pub(crate) const LONGEST: Duration = Duration::from_mins(5);
/// How many idle connections the pool keeps, and for how long.
const IDLE_MAX: usize = 32;
const IDLE: Duration = Duration::from_secs(30);
/// The host in the URI of requests. A unix socket has none, but HTTP requires one.
pub(crate) const HOST: &str = "http://localhost";

type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A connection pool. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Transport {
    client: Client<Connector, Body>,
    socket: Arc<PathBuf>,
    version: Arc<OnceLock<ApiVersion>>,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("socket", &self.socket).field("version", &self.version.get()).finish()
    }
}

impl Transport {
    pub(crate) fn new(socket: &Path) -> Self {
        let socket = Arc::new(socket.to_owned());
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_MAX)
            .build(Connector { socket: Arc::clone(&socket) });
        Self { client, socket, version: Arc::default() }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Sets the version of all further requests. Only the first call has an effect.
    pub(crate) fn speak(&self, version: ApiVersion) {
        let _ = self.version.set(version);
    }

    pub(crate) fn version(&self) -> ApiVersion {
        self.version.get().copied().unwrap_or(ApiVersion::OLDEST)
    }

    /// Sends a request. An error of kind `NotConnected` means that nothing of it was sent.
    pub(crate) async fn send<B>(&self, request: Request<B>) -> io::Result<Response<Incoming>>
    where
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (mut parts, body) = request.into_parts();
        if let Some(version) = self.version.get() {
            parts.uri = versioned(&parts.uri, *version)?;
        }
        let body = body.map_err(Into::into).boxed_unsync();
        self.client.request(Request::from_parts(parts, body)).await.map_err(|error| {
            // Callers may safely retry a request that was never sent.
            let kind = if error.is_connect() { io::ErrorKind::NotConnected } else { io::ErrorKind::BrokenPipe };
            io::Error::new(kind, error)
        })
    }
}

/// Adds the version to the path. `bollard` omits it from its paths, and the engine would then answer in its newest format.
fn versioned(uri: &Uri, version: ApiVersion) -> io::Result<Uri> {
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let has_one = path.strip_prefix("/v").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
    if has_one {
        return Ok(uri.clone());
    }
    format!("{HOST}/v{version}{path}").parse().map_err(io::Error::other)
}

/// Connects to the socket and ignores the URI.
#[derive(Clone)]
struct Connector {
    socket: Arc<PathBuf>,
}

impl tower_service::Service<Uri> for Connector {
    type Response = Stream;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Stream>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let socket = Arc::clone(&self.socket);
        Box::pin(async move { UnixStream::connect(&*socket).await.map(TokioIo::new).map(Stream) })
    }
}

/// A connected socket.
struct Stream(TokioIo<UnixStream>);

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(cx, buffer)
    }
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write_vectored(cx, buffers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_every_path_once() {
        let of = |path: &str| versioned(&format!("{HOST}{path}").parse().unwrap(), ApiVersion::OLDEST).unwrap();
        assert_eq!(of("/containers/json?all=1").path_and_query().unwrap().as_str(), "/v1.41/containers/json?all=1");
        assert_eq!(of("/v1.44/info").path(), "/v1.44/info");
        assert_eq!(of("/volumes/v1").path(), "/v1.41/volumes/v1");
        assert_eq!(of("/version").path(), "/v1.41/version");
    }
}
