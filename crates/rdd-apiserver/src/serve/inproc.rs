//! A client for code in the server's process: the same requests and responses without a socket.

use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::Body as HttpBody;
use rdd_stdx::clock::SharedClock;
use tower_service::Service;

use super::{
    Limits,
    frame::{Caller, Frame},
};
use crate::{
    auth::{Authenticators, Identity, Tokens},
    metrics::Metrics,
    request::Handler,
    respond::{Body, BoxError, Response},
    version::Version,
};

/// A client of the server for code in its process. It needs no connection and no credentials: every request is authenticated as
/// the identity that it was created with. The limits, metrics, audit IDs and the end of watches at shutdown apply as to every
/// other request. Cheap to clone.
///
/// It is a tower service, as `kube::Client::new` takes.
#[derive(Clone)]
pub struct InProcess {
    pub(super) frame: Arc<Frame>,
    pub(super) identity: Arc<Identity>,
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl InProcess {
    /// A server without a socket. Only holders of this value and its clones can send requests.
    pub fn alone(handler: Arc<dyn Handler>, identity: Identity, version: &Version, clock: SharedClock) -> Self {
        let metrics = Arc::new(Metrics::new(version, clock.wall(), Vec::new()));
        // No credentials are valid, because this value bypasses authentication.
        let nobody = Authenticators::standard(Tokens::new([]));
        let frame = Arc::new(Frame::new(nobody, handler, Limits::default(), metrics, clock, 0));
        Self { frame, identity: Arc::new(identity) }
    }
}

impl<B> Service<http::Request<B>> for InProcess
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // There is no back pressure: over the limits, requests get a 429.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let (head, body) = request.into_parts();
        let body = Body::new(body);
        let (_, responding) = self.frame.respond(Caller::Known(Arc::clone(&self.identity)), head, body);
        Box::pin(async { Ok(responding.await) })
    }
}
