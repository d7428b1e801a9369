//! Endpoints of a controller under `/passthrough/<controller>/<endpoint>/…`, to which the API server forwards requests.

mod socket;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::combinators::UnsyncBoxBody;

pub(crate) use self::socket::{Routes, Socket, routes};
use crate::BoxError;

/// The body of a request or response.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;
/// A forwarded request. Its path is the part after the endpoint and begins with `/`; it carries no credentials. For a WebSocket, the
/// handler calls `hyper::upgrade::on`.
pub type Request = http::Request<Body>;
/// The response, which the API server forwards to the client.
pub type Response = http::Response<Body>;

/// One endpoint of a controller.
#[derive(Clone)]
pub struct Passthrough {
    /// The name in the path, as in `logs`.
    pub endpoint: &'static str,
    /// Answers the requests.
    pub handler: Arc<dyn Fn(Request) -> BoxFuture<'static, Response> + Send + Sync>,
}

impl fmt::Debug for Passthrough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passthrough").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Passthrough {
    /// An endpoint with this name and handler.
    pub fn new<F>(endpoint: &'static str, handler: impl Fn(Request) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Response> + Send + 'static,
    {
        Self { endpoint, handler: Arc::new(move |request| Box::pin(handler(request))) }
    }
}
