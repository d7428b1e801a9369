//! Making responses: bodies, content types, and errors as `Status`.

use std::{
    error::Error,
    fmt, mem,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{
    HeaderValue, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use rdd_meta::Status;
use serde::Serialize;

/// Any error.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The body of a request or of a response. What is all there, as most are, needs no room of its own.
pub struct Body(Content);

/// Any body, of whatever makes it.
pub type BoxedBody = UnsyncBoxBody<Bytes, BoxError>;

enum Content {
    /// What is left of it.
    Whole(Bytes),
    Made(BoxedBody),
}

impl Body {
    /// A body that is made while it is read.
    pub fn new<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Content::Made(body.map_err(Into::into).boxed_unsync()))
    }

    /// Whether it is all there.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.0, Content::Whole(_))
    }

    /// The same for those who take any.
    pub fn boxed(self) -> BoxedBody {
        match self.0 {
            Content::Made(body) => body,
            whole @ Content::Whole(_) => Self(whole).boxed_unsync(),
        }
    }
}

/// Nothing of what is in it, which may be a secret.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Content::Whole(rest) => write!(f, "Body({} bytes)", rest.len()),
            Content::Made(_) => f.write_str("Body(made)"),
        }
    }
}

impl From<BoxedBody> for Body {
    fn from(body: BoxedBody) -> Self {
        Self(Content::Made(body))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Content::Whole(rest) if rest.is_empty() => Poll::Ready(None),
            Content::Whole(rest) => Poll::Ready(Some(Ok(Frame::data(mem::take(rest))))),
            Content::Made(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Whole(rest) => rest.is_empty(),
            Content::Made(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Whole(rest) => SizeHint::with_exact(rest.len() as u64),
            Content::Made(body) => body.size_hint(),
        }
    }
}

/// What a handler answers with.
pub type Response = http::Response<Body>;

/// Text as Go's HTTP library labels it.
pub const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// JSON as Kubernetes labels it.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A body that is all there.
pub fn full(content: impl Into<Bytes>) -> Body {
    Body(Content::Whole(content.into()))
}

/// A response with a body that is all there.
pub fn content(code: StatusCode, content_type: HeaderValue, content: impl Into<Bytes>) -> Response {
    let mut response = Response::new(full(content));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// A value as Kubernetes writes those that are not objects: indented by two, no newline at the end.
pub fn raw_json(value: &impl Serialize) -> Response {
    match serde_json::to_vec_pretty(value) {
        Ok(json) => content(StatusCode::OK, JSON, json),
        Err(error) => status(&Status::internal(error.to_string())),
    }
}

/// An error on the wire.
pub fn status(status: &Status) -> Response {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = content(code, JSON, status.to_wire());
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if seconds > 0 {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// What Go's `http.NotFound` writes, as the original does for every path that it does not know.
pub fn not_found() -> Response {
    content(StatusCode::NOT_FOUND, TEXT, "404 page not found\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_comes_once_says_how_much_is_left_and_shows_nothing_of_itself() {
        for mut body in [full("secret"), Body::new(full("secret")), full("secret").boxed().into()] {
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(6), false));
            let shown = format!("{body:?}");
            assert!(shown.starts_with("Body(") && !shown.contains("secret"), "{shown}");
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "secret");
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(0), true));
            assert!(body.frame().await.is_none());
        }
        assert!(full("").is_end_stream() && full("").is_whole() && !Body::new(full("")).is_whole());
    }
}
