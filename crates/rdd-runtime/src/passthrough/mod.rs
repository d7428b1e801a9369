//! What a controller answers under `/passthrough/<controller>/<endpoint>/…`.

mod socket;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::combinators::UnsyncBoxBody;

pub(crate) use self::socket::{Routes, Socket, routes};
use crate::BoxError;

/// A body, in either direction.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;
/// A request: its path is what follows the endpoint and begins with `/`; no credentials are in it. A WebSocket is reached by
/// `hyper::upgrade::on`.
pub type Request = http::Request<Body>;
/// An answer.
pub type Response = http::Response<Body>;

/// One endpoint.
#[derive(Clone)]
pub struct Passthrough {
    /// The word in the path, as in `logs`.
    pub endpoint: &'static str,
    /// Answers.
    pub handler: Arc<dyn Fn(Request) -> BoxFuture<'static, Response> + Send + Sync>,
}

impl fmt::Debug for Passthrough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passthrough").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Passthrough {
    /// An endpoint of this name.
    pub fn new<F>(endpoint: &'static str, handler: impl Fn(Request) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Response> + Send + 'static,
    {
        Self { endpoint, handler: Arc::new(move |request| Box::pin(handler(request))) }
    }
}
